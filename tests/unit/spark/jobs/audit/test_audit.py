"""The audit finds and names planted breaches; a story that only looks like one is none.

All journals are made first and audited together, because a run of Spark costs more than a journal.

Promise: spark-bodies.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from journal.files import Disk
from journal.format.kinds import Kind
from journal.format.meta import ended
from journal.format.record import Draft
from journal.format.segment import segment_name
from journal.tools.view import read_journal
from kestrelpy.core.queue.admin import Admin
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.audit import _is_explained
from kestrelpy.spark.jobs.audit.checks import Wrong
from kestrelpy.spark.jobs.audit.findings import JournalFindings, outcome
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS
from tests.unit.journal.tools.test_damaged_blocks import made as damageable
from tests.unit.spark.jobs.audits import audited, breach
from tests.unit.spark.jobs.stories import (
    TINY,
    Story,
    forget,
    journal_of,
    random_story,
    retold,
    spill,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

SEEDS = range(40)
Build = Callable[[Path], Path]
BUILDS: dict[str, Build] = {}


def journal(build: Build) -> Build:
    """Register a function that makes a data directory; tests ask for it by the function's name."""
    BUILDS[build.__name__] = build
    return build


@pytest.fixture(scope="module")
def found(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, JournalFindings]:
    """Return the findings of the audit in each data directory, by name; random ones by seed."""
    folder = tmp_path_factory.mktemp("audits")
    made = {name: build(folder / name) for name, build in BUILDS.items()}
    made |= {str(s): random_story(s).save(folder / "chance" / str(s)) for s in SEEDS}
    by_folder = {Path(each.folder).parent: each for each in audited(spark, *made.values())}
    return {name: by_folder[data] for name, data in made.items()}


def holds(found: JournalFindings) -> bool:
    """Is nothing wrong with it? What is shows in the test's output."""
    told = outcome([found], None)
    print(told.text)
    return told.code == HOLDS


def nth(drafts: list[Draft], kind: Kind, item: int) -> int:
    """Where the first record of that kind about this item stands."""
    return next(n for n, d in enumerate(drafts) if d.kind == kind and d.item == item)


def segment_of(data: Path, lsn: int) -> Path:
    """The segment that has this record."""
    records = read_journal(Disk(), str(journal_of(data))).records()
    number = next(record.segment for record in records if record.lsn == lsn)
    return journal_of(data) / segment_name(number)


# -- it holds -------------------------------------------------------------------------------------


def test_leases_by_token_a_pause_and_a_cancelled_item_are_no_breach(
    found: dict[str, JournalFindings],
) -> None:
    assert holds(found["by_token"])
    sums = found["by_token"].books
    assert (sums.stored, sums.ended["confirmed"], sums.ended["cancelled"]) == (6, 1, 1)


@journal
def plain(folder: Path) -> Path:
    """Ten items stored, eight of them confirmed one after the other."""
    story = Story()
    story.put(*(b"%d" % n for n in range(10)))
    story.take(8, pace_ms=20)
    return story.save(folder / "data")


@journal
def by_token(folder: Path) -> Path:
    """Leases by token, one confirmed and one over after a kill; a pause and an item cancelled."""
    story = Story()
    story.put(*(b"%d" % n for n in range(6)))
    for _ in range(3):
        lease = story.open(lease_ms=500)
    assert lease is not None
    story.life.reader.renew(lease, 5000, story.life.now_ms)
    story.confirm()
    Admin(story.life.jobs).pause(True, story.life.now_ms)
    story.life.commit()
    story.kill()
    story.pass_time(1000)
    Admin(story.life.jobs).pause(False, story.life.now_ms)
    cancelled = story.life.open("nobody")
    assert cancelled is not None
    story.life.reader.nack(cancelled, story.life.now_ms, b"defer")
    assert Admin(story.life.jobs).cancel(story.life.jobs.next_number - 1, 1, story.life.now_ms)
    story.life.commit()
    return story.save(folder / "data")


@journal
def all_sides(folder: Path) -> Path:
    story = Story(max_attempts=2, max_items=8, discard_old_when_full=True)
    story.put(b"confirmed", b"dead", b"confirmed, too", b"again")
    story.take(1)
    for _ in range(2):
        story.open()
        story.give_back()  # the second time it dies
    story.open()
    story.open()
    story.give_back(b"hangup", story.leases[1])
    story.confirm()
    story.put(b"flushed", b"flushed")
    story.flush()
    story.put(b"expires", expires_in_ms=5)
    story.pass_time(20)
    story.put(*(b"%d" % n for n in range(10)))  # two too many
    return story.save(folder / "data")


@journal
def killed_while_leased(folder: Path) -> Path:
    story = Story()
    story.put(b"1", b"2", b"3", b"keeps the segment")
    story.open("anna")
    story.open("bert")
    story.confirm(story.leases[1])
    story.kill()
    story.take(2)
    return story.save(folder / "data")


@journal
def clock_set_back(folder: Path) -> Path:
    story = Story()
    story.put(b"1", b"2", b"3", b"4", b"keeps the segment")
    story.take(2)
    story.step_clock(-60_000)
    story.take(1)
    story.open()
    story.step_clock(-1_000)
    story.confirm()
    return story.save(folder / "data")


@journal
def dead_line(folder: Path) -> Path:
    story = Story(max_attempts=1)
    story.put(b"1", b"2", b"3")
    for _ in range(3):
        story.open()
        story.give_back()
    story.open(dead=True)
    story.give_back()
    story.open(dead=True)
    story.confirm()
    story.flush()
    return story.save(folder / "data")


@journal
def spared_by_a_flush(folder: Path) -> Path:
    story = Story()
    story.put(b"1", b"2", b"3")
    story.open()
    story.flush()
    story.give_back()
    return story.save(folder / "data")


@journal
def reclaimed(folder: Path) -> Path:
    story = Story(TINY)
    story.grow_old()
    return story.save(folder / "data")


def test_the_books_of_random_stories_balance_whatever_was_killed_or_cut(
    found: dict[str, JournalFindings],
) -> None:
    lives = [found[str(seed)] for seed in SEEDS]

    assert [each.folder for each in lives if not holds(each)] == []
    assert sum(each.books.ended["confirmed"] for each in lives) > 100
    assert sum(each.books.flushed for each in lives) > 10
    assert sum(each.books.ended["discarded"] for each in lives) > 10
    assert sum(each.books.ended["expired"] for each in lives) > 10
    assert sum(each.books.dead for each in lives) > 0
    assert any(each.unbroken_lsn > each.extent.first for each in lives), "nothing was reclaimed"
    assert all(each.books.opening is not None for each in lives)


def test_every_side_of_the_books_is_counted(found: dict[str, JournalFindings]) -> None:
    assert holds(found["all_sides"])
    books = found["all_sides"].books
    assert books.opening == 0
    assert (books.stored, books.ended["confirmed"], books.dead) == (17, 2, 1)
    assert (books.flushed, books.ended["expired"], books.ended["discarded"]) == (3, 1, 2)
    assert books.there == 8
    assert (books.delivered, books.delivered_once, books.repeated) == (4, 3, 1)


def test_what_went_with_its_segments_is_in_the_opening(found: dict[str, JournalFindings]) -> None:
    assert holds(found["reclaimed"])
    assert found["reclaimed"].unbroken_lsn > found["reclaimed"].extent.first
    assert found["reclaimed"].books.opening
    assert found["reclaimed"].books.difference == 0


def test_a_delivery_that_a_kill_ended_explains_a_later_first_one(
    found: dict[str, JournalFindings]
) -> None:
    assert holds(found["killed_while_leased"])
    order = found["killed_while_leased"].order
    assert (order.checked, order.restart, order.swapped) == (3, 1, 0)


def test_a_clock_that_was_set_back_is_no_disorder(found: dict[str, JournalFindings]) -> None:
    assert holds(found["clock_set_back"])
    assert found["clock_set_back"].order.clock == 2


def test_dead_letters_that_are_taken_from_the_queue_are_confirmed(
    found: dict[str, JournalFindings],
) -> None:
    assert holds(found["dead_line"])
    books = found["dead_line"].books
    assert (books.ended["confirmed"], books.dead) == (1, 2)


def test_items_that_a_flush_spared_stay_live(found: dict[str, JournalFindings]) -> None:
    assert holds(found["spared_by_a_flush"])
    books = found["spared_by_a_flush"].books
    assert (books.flushed, books.there) == (2, 1)


def test_a_queue_that_was_made_again_has_books_of_its_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = plain(tmp_path)
    second = Story()
    second.put(b"new")
    there = second.save(tmp_path / "second")
    shutil.move(journal_of(there), first / "jobs.1700000009")

    both = audited(spark, first)

    assert sorted(each.books.stored for each in both if holds(each)) == [1, 10]


# -- it does not ----------------------------------------------------------------------------------


@journal
def loss(folder: Path) -> Path:
    data = reclaimed(folder)
    forget(journal_of(data), -1)
    return data


@journal
def loss_of_an_old_one(folder: Path) -> Path:
    data = reclaimed(folder)
    forget(journal_of(data), 0)
    return data


@journal
def put_left_out(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        del drafts[nth(drafts, Kind.DONE, 4)], drafts[nth(drafts, Kind.PUT, 4)]

    return retold(journal_of(plain(folder)), folder / "edited", edit)


@journal
def phantom(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        drafts.append(drafts[nth(drafts, Kind.DONE, 4)]._replace(item=77))

    return retold(journal_of(plain(folder)), folder / "edited", edit)


@journal
def double_confirms(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        drafts += [drafts[nth(drafts, Kind.DONE, item)] for item in range(1, 8)]

    return retold(journal_of(plain(folder)), folder / "edited", edit)


@journal
def swap(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        a, b = nth(drafts, Kind.DONE, 3), nth(drafts, Kind.DONE, 6)
        drafts[a], drafts[b] = drafts[a]._replace(item=6), drafts[b]._replace(item=3)

    return retold(journal_of(plain(folder)), folder / "edited", edit)


@journal
def swap_of_puts(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        a, b = nth(drafts, Kind.PUT, 3), nth(drafts, Kind.PUT, 6)
        drafts[a], drafts[b] = drafts[b], drafts[a]

    return retold(journal_of(plain(folder)), folder / "edited", edit)


@journal
def leased_again_in_time(folder: Path) -> Path:
    story = Story()
    story.put(b"1", b"2")
    story.open()
    story.pass_time(50)
    story.give_back()
    story.open()
    story.pass_time(50)
    story.confirm()
    return story.save(folder / "data")


@journal
def leased_twice_at_once(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        at = nth(drafts, Kind.DONE, 1)
        drafts[at] = drafts[at]._replace(number=drafts[at].number - 30)

    return retold(journal_of(leased_again_in_time(folder)), folder / "edited", edit)


@journal
def one_after_the_other(folder: Path) -> Path:
    """A hundred items, each synced: missing records before the end are no torn end."""
    story = Story(TINY)
    for number in range(100):
        story.put(b"%d" % number)
    return story.save(folder / "data")


@journal
def segment_cut_out(folder: Path) -> Path:
    data = one_after_the_other(folder)
    segment_of(data, lsn=30).unlink()
    return data


@journal
def segment_cut_short(folder: Path) -> Path:
    data = one_after_the_other(folder)
    segment = segment_of(data, lsn=30)
    segment.write_bytes(segment.read_bytes()[:1200])
    return data


@journal
def ends_after_the_end(folder: Path) -> Path:
    def edit(drafts: list[Draft]) -> None:
        small, meta = ended(0, 1)
        done = drafts[nth(drafts, Kind.DONE, 2)]
        drafts.append(done._replace(kind=Kind.EXPIRED, small=small, meta=meta, number=0))
        drafts.append(done._replace(kind=Kind.RETURNED, item=3, small=1))

    return retold(journal_of(plain(folder)), folder / "edited", edit)


def test_an_item_that_the_daemon_forgot_is_missing(found: dict[str, JournalFindings]) -> None:
    said = breach([found["loss"]])
    assert "missing: item 81 was stored, and neither ended nor is it there" in said
    assert found["loss"].books.difference == 1
    assert found["loss"].unexplained == 0


def test_an_item_of_the_opening_that_is_forgotten_shows_in_the_sum(
    found: dict[str, JournalFindings],
) -> None:
    assert "sum: 1 of the opening are missing" in breach([found["loss_of_an_old_one"]])


def test_a_put_that_is_left_out_is_missing(found: dict[str, JournalFindings]) -> None:
    said = breach([found["put_left_out"]])
    assert "missing: item 4: between items that were stored" in said


def test_an_end_of_an_item_that_was_never_put_is_a_phantom(
    found: dict[str, JournalFindings]
) -> None:
    said = breach([found["phantom"]])
    assert "phantom: item 77 was delivered or ended, and was never put" in said


def test_double_confirms_are_named(found: dict[str, JournalFindings]) -> None:
    said = breach([found["double_confirms"]])
    assert "twice: item 1, 2, 3, 4, 5 and 2 more was confirmed more than once" in said
    assert found["double_confirms"].books.wrong == {Wrong.CONFIRMED_TWICE: 7}


def test_a_swap_of_two_first_deliveries_is_named(found: dict[str, JournalFindings]) -> None:
    said = breach([found["swap"]])
    assert "order: 3 first deliveries: item 4 was first opened" in said
    assert found["swap"].books.wrong == {}, "only the order is wrong"


def test_a_swap_of_two_puts_is_named(found: dict[str, JournalFindings]) -> None:
    assert "was put (lsn" in breach([found["swap_of_puts"]])


def test_an_item_that_two_have_at_once_is_named(found: dict[str, JournalFindings]) -> None:
    assert holds(found["leased_again_in_time"])
    assert "item 1 lent twice at once" in breach([found["leased_twice_at_once"]])


def test_a_segment_that_was_cut_out_is_named_by_its_records(
    found: dict[str, JournalFindings]
) -> None:
    assert holds(found["one_after_the_other"])
    ((first, last),) = found["segment_cut_out"].lsn_gaps
    assert first <= 30 <= last
    assert f"missing: lsn {first} to {last}" in breach([found["segment_cut_out"]])


def test_a_segment_without_its_end_is_named_with_its_file(
    found: dict[str, JournalFindings]
) -> None:
    said = breach([found["segment_cut_short"]])
    assert "missing: lsn 17 to " in said
    assert ".segment: truncated at byte 1184" in said, "where the first record is not whole"


def test_an_end_after_the_end_is_named(found: dict[str, JournalFindings]) -> None:
    said = breach([found["ends_after_the_end"]])
    assert "twice: item 2 ended more than once" in said
    assert "phantom: item 3 was lent, given back, died or was flushed although it had ended" in said


# -- how it is said -------------------------------------------------------------------------------


def test_the_full_lists_are_written_and_replaced(
    spark: SparkSession, tmp_path: Path
) -> None:
    data = double_confirms(tmp_path)
    for _ in range(2):
        audited(spark, data, out=tmp_path / "out")

    rows = spark.read.parquet(str(tmp_path / "out" / "items")).collect()
    assert {(row.item, row.list) for row in rows} == {(item, "twice") for item in range(1, 8)}
    assert len(rows) == 7


def test_facts_are_json_and_tell_all_of_it(found: dict[str, JournalFindings]) -> None:
    told = outcome([found["plain"], found["swap"]], None)

    facts = json.loads(json.dumps(told.facts))
    queue, other = facts["journals"]
    assert facts["holds"] is False
    assert told.code == BREACH
    assert (queue["queue"], queue["stored"], queue["confirmed"], queue["there"]) == (
        "jobs", 10, 8, 2,
    )  # fmt: skip
    assert (queue["breaches"], other["order"]["swapped"]) == (0, 3)
    assert "stored 10 = confirmed 8 + there 2: it adds up" in told.text
    assert "It does not hold: 3 breaches in 1 queue." in told.text


def test_a_folder_that_is_not_there_or_has_no_journal_is_a_sentence(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(KestrelError, match="There is no folder"):
        audited(spark, tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("gap", "jumps", "positions", "explained"),
    [
        ((497, 500), [457, 498], [498, 499, 500], True),  # a kill took 497, the rest are places
        ((497, 500), [457, 498], [498, 500], False),
        ((497, 500), [457], [498, 499, 500], False),
        ((497, 500), [501], [], True),
        ((497, 500), [497, 502], [], False),
        ((497, 500), [], [497, 498, 499, 500], True),
    ],
)
def test_numbers_without_an_item_went_to_positions_or_a_start_skipped_them(
    gap: tuple[int, int], jumps: list[int], positions: list[int], explained: bool
) -> None:
    assert _is_explained(gap, np.array(jumps, "i8"), np.array(positions, "i8")) is explained


@journal
def zeros(folder: Path) -> Path:
    """Half of a segment that was never sealed is zeros; a snapshot knows its items."""
    one = damageable(recycled=False, snapshot=True)
    disk = one.disk.kill_clone()
    path = f"{one.folder}/{segment_name(2)}"
    half = disk.size(path) // 2
    disk.damage(path, half, bytes(half))
    return spill(disk, folder)


def test_zeros_in_a_segment_that_a_snapshot_knows_are_named(
    found: dict[str, JournalFindings]
) -> None:
    (damage,) = found["zeros"].lossy
    assert damage.path.endswith(segment_name(2))
    assert damage.id_last > damage.id_first
    assert f"missing: {damage.sentence()}" in outcome([found["zeros"]], None).text
