"""The audit of queues with children: each reader has books of its own; what one missed is found.

All journals are made first and audited together, because a run of Spark costs more than a journal.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from journal.format.item_header import ItemHeader
from journal.format.key import text_of
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.record import Draft
from journal.format.segment import SegmentHeader
from journal.format.transfer import Origin, moved
from journal.snapshot.snapshot import Snapshot
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.queue.ack_up_to import AckUpTo
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.subscription.subscription import Subscription
from kestrelpy.spark.jobs.audit.checks import Wrong
from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.common.job import HOLDS
from tests.support.disk_harness import WALL_MS
from tests.unit.spark.jobs.audits import audited
from tests.unit.spark.jobs.stories import TINY, Story, journal_of, retold

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

Build = Callable[[Path], Path]
BUILDS: dict[str, Build] = {}


def journal(build: Build) -> Build:
    """Register a function that makes a data directory; tests ask for it by the function's name."""
    BUILDS[build.__name__] = build
    return build


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, JournalFindings]]:
    """Return the findings of the audit in each data directory, by name and queue."""
    folder = tmp_path_factory.mktemp("audits")
    made = {name: build(folder / name) for name, build in BUILDS.items()}
    names = {data: name for name, data in made.items()}
    told: dict[str, dict[str, JournalFindings]] = {name: {} for name in made}
    for each in audited(spark, *made.values()):
        told[names[Path(each.folder).parent]][each.queue] = each
    return told


class Fanned(Story):
    """A queue with children."""

    def child(self, name: bytes, begin: int | None = None) -> ChildQueue:
        made = self.life.broker.mention(b"jobs+" + name, self.life.now_ms, begin)
        assert made is not None
        self.life.commit()
        return made

    def of(self, name: bytes) -> Subscription:
        return self.life.broker.queues[b"jobs+" + name].reader

    def take_of(self, name: bytes, count: int) -> None:
        """Open and confirm `count` items of a child."""
        for _ in range(count):
            self.give_back_of(name, confirm=True)

    def give_back_of(self, name: bytes, confirm: bool = False, delay_ms: int = 0) -> None:
        reader, life = self.of(name), self.life
        lease = reader.open(life.who("anna"), life.now_ms)
        while lease is None:
            reader.is_busy(life.now_ms)
            assert life.do_some(), "there is nothing for it"
            lease = self.of(name).open(life.who("anna"), life.now_ms)
        life.pass_time(2)
        if confirm:
            reader.confirm(lease, life.now_ms)
        else:
            delay = Delay(delay_ms) if delay_ms else None
            reader.nack(lease, life.now_ms, b"abort", delay)
        life.commit()

    def confirm_up_to(self, name: bytes, marker: int) -> None:
        AckUpTo(self.life.broker.queues[b"jobs+" + name], marker).finish(self.life.now_ms)
        self.life.commit()


def fanned(**policy: Any) -> Fanned:
    story = Fanned(**policy)
    story.put(b"before", b"the child")
    story.child(b"audit")
    story.child(b"cursor", begin=1)
    story.put(*(b"%d" % n for n in range(8)))
    story.take(4)
    story.take_of(b"audit", 5)
    return story


@journal
def two_children(folder: Path) -> Path:
    """One child sees eight of ten items; the other sees all and confirms four of them at once."""
    story = fanned()
    story.confirm_up_to(b"cursor", 4)
    return story.save(folder / "data")


@journal
def all_sides(folder: Path) -> Path:
    """Deaths, delays, a set on the child, a flush of it, a kill, and a snapshot with children."""
    story = fanned(max_attempts=2)
    for _ in range(2):
        story.give_back_of(b"audit")
    story.put(b"later", delay_ms=50)
    story.give_back_of(b"cursor", delay_ms=80)
    story.life.broker.queues[b"jobs+audit"].put(b"its own", 0, 0, story.life.now_ms)
    story.do_maintenance()
    story.confirm_up_to(b"cursor", 9)
    story.kill()
    story.pass_time(200)
    story.take_of(b"cursor", 2)
    story.life.broker.queues[b"jobs+audit"].flush(story.life.now_ms)
    story.put(b"after the flush")
    return story.save(folder / "data")


@journal
def one_removed(folder: Path) -> Path:
    story = fanned()
    branch = story.life.broker.queues[b"jobs+audit"]
    assert isinstance(branch, ChildQueue)
    story.life.broker.remove_child(branch.child, story.life.now_ms)
    story.child(b"audit")
    story.put(b"for the new one")
    story.take_of(b"audit", 1)
    return story.save(folder / "data")


@journal
def given_again(folder: Path) -> Path:
    """The number of a child that was removed is given to another, as after a restart that finds
    nothing of the first; both were called the same.
    """

    def edit(drafts: list[Draft]) -> None:
        drafts[:] = [d._replace(reader=1) if d.reader == 3 else d for d in drafts]

    data = one_removed(folder / "before")
    return retold(journal_of(data), folder / "data", edit)


@journal
def snapshots(folder: Path) -> Path:
    """A start reads children from a snapshot; the records that named them are still there."""
    story = fanned()
    story.take_of(b"cursor", 1)
    story.life.background.snapshot(story.life.log, story.life.unix_ms)
    story.do_maintenance()
    story.take_of(b"cursor", 1)
    return story.save(folder / "data")


@journal
def passed_on(folder: Path) -> Path:
    story = fanned()
    story.life.jobs.fanout.set_passing(True, story.life.now_ms)
    story.put(b"for", b"children", b"alone")
    story.take_of(b"audit", 4)
    story.life.jobs.fanout.set_passing(False, story.life.now_ms)
    story.put(b"for all again")
    return story.save(folder / "data")


@journal
def passed_on_to_observers(folder: Path) -> Path:
    """The queue has no children: an item is done at its put, and retained."""
    story = Fanned(retain_ms=None, max_items=2, discard_old_when_full=True)
    story.put(b"own", b"own, too")
    story.life.jobs.fanout.set_passing(True, story.life.now_ms)
    story.put(b"for", b"observers", b"alone")
    story.put(b"later", delay_ms=50)
    story.life.jobs.fanout.set_passing(False, story.life.now_ms)
    story.put(b"own again")
    return story.save(folder / "data")


@journal
def reclaimed(folder: Path) -> Path:
    """Segments are gone, and what a child still needs was carried."""
    story = Fanned(TINY)
    story.child(b"audit")
    for _ in range(8):
        story.put(*(b"%d" % n for n in range(10)))
        story.take(10)
        story.take_of(b"audit", 9)
        story.do_maintenance()
    return story.save(folder / "data")


@journal
def began_with_what_is_done(folder: Path) -> Path:
    """A child begins with what is retained: delayed once, or passed over because of its key."""
    story = Fanned(retain_ms=None)
    key = text_of(b"A")
    story.put(b"later", delay_ms=50)
    story.put(b"first of A", b"second of A", key=key)
    story.put(b"without")
    story.pass_time(100)
    story.take(4)
    story.child(b"late", begin=1)
    life, late = story.life, story.of(b"late")
    leases = []
    for name in ("anna", "ben"):
        while (lease := late.open(life.who(name), life.now_ms)) is None:
            assert life.do_some(), "there is nothing for it"
        leases.append(lease)
        life.pass_time(5)
    for lease in leases:
        late.confirm(lease, life.now_ms)
    life.commit()
    story.take_of(b"late", 2)
    return story.save(folder / "data")


@journal
def began_without_what_is_done(folder: Path) -> Path:
    """Items with keys that were done when the child was named: none is its own."""
    story = Fanned()
    story.put(b"first of A", b"second of A", key=text_of(b"A"))
    story.take(1)
    story.child(b"late", begin=1)
    story.take_of(b"late", 1)
    return story.save(folder / "data")


def test_what_a_child_did_not_begin_with_is_none_of_its_own(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    late = found["began_without_what_is_done"]["jobs+late"]
    assert (late.books.stored, late.books.ended["confirmed"]) == (1, 1)


def test_what_a_child_began_with_is_compared_as_its_puts_say(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    late = found["began_with_what_is_done"]["jobs+late"]
    assert (late.books.stored, late.books.ended["confirmed"]) == (4, 4)
    assert late.order.checked == 3, "one was delayed"
    assert late.order.swapped == late.order.clock == late.order.restart == 0


@pytest.mark.parametrize(
    "name",
    ["two_children", "all_sides", "one_removed", "given_again", "passed_on",
     "passed_on_to_observers", "reclaimed", "began_with_what_is_done",
     "began_without_what_is_done"],
)  # fmt: skip
def test_children_are_no_breach(found: dict[str, dict[str, JournalFindings]], name: str) -> None:
    told = outcome(list(found[name].values()), None)
    print(told.text)
    assert told.code == HOLDS


def test_each_child_has_books_of_its_own(found: dict[str, dict[str, JournalFindings]]) -> None:
    audit, cursor = (found["two_children"][f"jobs+{name}"].books for name in ("audit", "cursor"))
    assert (audit.stored, audit.ended["confirmed"], audit.there) == (8, 5, 3)
    assert (cursor.stored, cursor.flushed, cursor.there) == (10, 4, 6)


@pytest.mark.parametrize("name", ["one_removed", "given_again"])
def test_a_child_that_was_removed_is_not_taken_for_the_new_one(
    found: dict[str, dict[str, JournalFindings]], name: str
) -> None:
    sums = found[name]["jobs+audit"].books
    assert (sums.opening, sums.stored, sums.ended["confirmed"], sums.there) == (0, 1, 1, 0)


def test_what_a_child_was_named_with_is_known_beside_a_snapshot(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    sums = found["snapshots"]["jobs+cursor"].books
    assert (sums.opening, sums.stored, sums.ended["confirmed"], sums.there) == (0, 10, 2, 8)


# -- what was planted is found --------------------------------------------------------------------


def planted(folder: Path, edit: Callable[[list[Draft]], None]) -> Path:
    """Return the journal of two children with other records, of a server of its own."""
    source = journal_of(two_children(folder / "before"))
    return retold(source, folder / "data", edit, server=folder.name.encode())


@journal
def confirmed_twice(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        drafts.append(next(d for d in drafts if d.kind == Kind.DONE and d.reader == 1))

    return planted(folder, edit)


@journal
def one_lost_by_the_child(folder: Path) -> Path:
    """A snapshot in which the child has lost an item that is for all."""
    story = Fanned(TINY)
    story.child(b"audit")
    for _ in range(8):
        story.put(*(b"%d" % n for n in range(10)))
        story.take(10)
        story.do_maintenance()
    data = story.save(folder / "data")
    path = max(journal_of(data).glob("*.snapshot"))
    snapshot = Snapshot.decode(path.read_bytes(), str(path))
    header = SegmentHeader.decode(path.read_bytes(), str(path))
    assert header is not None
    snapshot.readers[0].live.discard(snapshot.readers[0].live.last)
    path.write_bytes(snapshot.encode(header.journal, header.identity, header.created_ms))
    return data


def test_an_item_that_a_child_did_not_get_is_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    each = found["one_lost_by_the_child"]
    assert not each["jobs"].breaches
    assert [wrong for _, wrong in each["jobs+audit"].wrong] == [Wrong.LOST]


def put(item: int, header: ItemHeader, key: bytes = b"") -> Draft:
    """The record of an item."""
    meta = (encode_meta({Tag.KEY: key}) if key else b"") + header.meta
    return Draft(Kind.PUT, item, item, 0, WALL_MS, meta, b"x", 0, 0)


@journal
def stamps(folder: Path) -> Path:
    """Versions 1, 2, 2 and 4 of a key; an id twice; two items of one origin; one moved nowhere."""

    def edit(drafts: list[Draft]) -> None:
        key, origin = text_of(b"K"), Origin(b"5f2c", b"others", 7, 3, 1)
        drafts[:] = [
            put(n + 1, ItemHeader(version=v, previous=n), key) for n, v in enumerate((1, 2, 2, 4))
        ]
        drafts += [put(n, ItemHeader(id=id_)) for n, id_ in ((5, b"a"), (6, b"b"), (7, b"a"))]
        drafts += [put(8, ItemHeader(origin=origin)), put(9, ItemHeader(origin=origin))]
        target = Origin(b"stamps", b"jobs", 1000, 1_700_000_000, 1)
        drafts.append(moved(6, 1, target.as_target, WALL_MS, True))

    return planted(folder, edit)


@journal
def handed_on(folder: Path) -> Path:
    """An item is handed on within its own queue; the second record of that was lost."""

    def edit(drafts: list[Draft]) -> None:
        origin = Origin(b"handed_on", b"jobs", 5, 1_700_000_000, 1)
        meta = ItemHeader(origin=origin).meta
        drafts.append(Draft(Kind.PUT, 11, 11, 0, WALL_MS, meta, b"x", 0, 0))

    return planted(folder, edit)


def test_what_was_handed_on_in_one_record_is_no_breach(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    told = outcome(list(found["handed_on"].values()), None)
    assert told.code == HOLDS, told.text
    assert found["handed_on"]["jobs"].books.ended["moved"] == 1


def test_an_item_that_a_child_confirmed_twice_is_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    each = found["confirmed_twice"]
    assert not each["jobs"].breaches
    assert each["jobs+audit"].wrong == [(3, Wrong.CONFIRMED_TWICE)]


def test_versions_ids_and_hand_offs_that_cannot_be_are_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    said = found["stamps"]["jobs"].said
    print(said.examples)
    assert said.breaches == 5
    told = " ".join(said.examples)
    for words in ("version 2 of key", "version 4 of key", "id a was stored", "others:7",
                  "moved to stamps:jobs:1000"):  # fmt: skip
        assert words in told


@journal
def more_stamps(folder: Path) -> Path:
    """A key that begins with version 2, one whose chain goes astray; an epoch after a newer one."""

    def edit(drafts: list[Draft]) -> None:
        first, second = text_of(b"A"), text_of(b"B")
        drafts[:] = [put(1, ItemHeader(version=2), first), put(2, ItemHeader(version=1), second)]
        drafts += [put(3, ItemHeader(version=2, previous=1), second)]
        drafts += [put(4 + n, ItemHeader(b"%d" % n, b"w", e)) for n, e in enumerate((1, 2, 1, 2))]
        drafts += [put(8, ItemHeader(b"0", b"w", 3))]

    return planted(folder, edit)


def test_a_first_version_that_is_none_and_an_epoch_that_went_back_are_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    said = found["more_stamps"]["jobs"].said
    print(said.examples)
    assert said.breaches == 3
    told = " ".join(said.examples)
    for words in ("item 1 is version 2 of key A, and nothing was written", "that item 1 is",
                  "item 6 of epoch 1 of scope w"):  # fmt: skip
        assert words in told


@journal
def handed_on_and_confirmed(folder: Path) -> Path:
    """An item of one queue is made one of another queue, and is confirmed all the same."""
    source = journal_of(two_children(folder / "before"))

    def hand(drafts: list[Draft]) -> None:
        origins = [Origin(b"s7", queue, item, 1_700_000_000, 1) for queue, item in (
            (b"jobs", 3), (b"jobs", 9), (b"jobs+audit", 4), (b"jobs+audit", 9)
        )]  # fmt: skip
        drafts[:] = [put(n, ItemHeader(origin=origin)) for n, origin in enumerate(origins, 1)]

    data = retold(source, folder / "data", lambda drafts: None, server=b"s7")
    return retold(source, data, hand, "other", server=b"s7")


def test_what_was_handed_on_and_ended_otherwise_too_is_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    said = found["handed_on_and_confirmed"]["other"].said
    print(said.examples)
    assert said.breaches == 2  # item 9 is not confirmed: a hand-off under way is no breach
    assert "of s7:jobs:3 item 1 of other was made, and it has a confirm beside" in said.examples[0]
    assert "of s7:jobs+audit:4 item 3" in said.examples[1]


def test_what_was_handed_on_within_its_queue_and_confirmed_too_is_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    assert found["both_in_one"]["jobs"].wrong == [(3, Wrong.ENDED_TWICE)]
    assert found["both_in_one"]["jobs+audit"].wrong == []


@journal
def both_in_one(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        origin = Origin(b"both_in_one", b"jobs", 3, 1_700_000_000, 1)
        drafts.append(put(11, ItemHeader(origin=origin)))

    return planted(folder, edit)


def retaining(**policy: Any) -> Story:
    """Segments are sealed and snapshots taken, and what is done stays; one item is never done."""
    story = Story(TINY, **policy)
    story.grow_old(rounds=12)
    return story


@journal
def retained(folder: Path) -> Path:
    """A little is retained, so segments go; one that has an item in it stays longer."""
    story = retaining(retain_bytes=6000)
    story.kill()
    story.take(1)
    return story.save(folder / "data")


@journal
def retained_and_gone(folder: Path) -> Path:
    """All is retained, and a segment is not there, long settled by snapshots."""
    data = retaining(retain_ms=None).save(folder / "data")
    sorted(journal_of(data).glob("*.segment"))[3].unlink()
    return data


def test_retained_items_that_go_oldest_first_are_no_breach(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    told = outcome([found["retained"]["jobs"]], None)
    print(told.text)
    assert told.code == HOLDS
    assert found["retained"]["jobs"].unbroken_lsn > 1, "nothing went"


def test_a_retained_item_that_went_before_an_older_one_is_named(
    found: dict[str, dict[str, JournalFindings]],
) -> None:
    each = found["retained_and_gone"]["jobs"]
    said = outcome([each], None).text
    print(said)
    assert not each.lsn_gaps, "without retention a settled segment may go"
    ((first, last),) = each.retained_missing
    assert 1 < first < last
    assert f"missing: item {first} to {last}: done and retained, and gone although older" in said
