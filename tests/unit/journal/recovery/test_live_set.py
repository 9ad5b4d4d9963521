"""The live set of a journal: what its records leave, by ids alone, for the queue and its children.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import Meta, encode_meta
from journal.format.record import Record
from journal.format.subscription_state import GONE, STOPS
from journal.format.transfer import Origin
from journal.recovery.live_set import LiveSet
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import Snapshot
from tests.golden.layout import TIME_MS


def record(
    kind: int, item: int = 0, number: int = 0, small: int = 0, meta: Meta | None = None,
    reader: int = 0, body: bytes = b"", lsn: int = 0,
) -> Record:  # fmt: skip
    said = encode_meta(meta or {})
    return Record(kind, item, number, small, TIME_MS, said, body, reader, lsn, 1, 0, 0)


def put(item: int, reader: int = 0) -> Record:
    return record(Kind.PUT, item, item, reader=reader)


def later(item: int) -> Record:
    return record(Kind.PUT, item, 0, meta={Tag.DUE_MS: TIME_MS + 1})


def named(number: int, name: bytes) -> Record:
    return record(Kind.READER, 0, 0, meta={Tag.NAME: name}, reader=number)


def seen(*records: Record) -> LiveSet:
    live = LiveSet()
    for each in records:
        live.see(each)
    return live


@dataclass
class Source:
    """Records of a journal, behind its snapshot."""

    given: list[Record]
    snapshot: Snapshot | None = None
    checkpoint: Checkpoint | Record | None = field(
        default_factory=lambda: Checkpoint(b"jobs", generation=1)
    )
    beginnings: int = 1

    def records(self) -> Iterator[Record]:
        yield from self.given


@pytest.mark.parametrize(
    "kind", [Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED]
)
def test_an_item_is_there_until_a_record_ends_it(kind: Kind) -> None:
    live = seen(put(1), put(2), put(3))
    assert list(live.items) == [1, 2, 3]

    live.see(record(kind, 2))

    assert list(live.items) == [1, 3]
    assert (live.puts, live.next_number, live.known) == (3, 4, True)


def test_the_dead_and_those_given_back_are_there() -> None:
    live = seen(put(1), put(2), record(Kind.DEAD, 1), record(Kind.RETURNED, 2, TIME_MS, 1))

    assert list(live.items) == [1, 2]
    assert live.lines[0].dead == {1}
    live.see(record(Kind.REDRIVEN, 1))
    assert live.lines[0].dead == set()


def test_attempts_and_leases_by_token_are_those_that_the_records_say() -> None:
    live = seen(put(1), put(2), record(Kind.LEASED, 1), record(Kind.LEASED, 2))
    own = live.lines[0]
    assert own.leased == {1, 2}

    live.see(record(Kind.RETURNED, 1, TIME_MS, 2))
    live.see(record(Kind.DEAD, 2, TIME_MS, 300))

    assert (own.leased, dict(own.attempts.items())) == (set(), {1: 2, 2: 300})
    live.see(record(Kind.LEASED, 2))
    live.see(record(Kind.RETURNED, 2, TIME_MS, 0))
    assert (own.leased, own.attempts.get(2)) == (set(), 300), "of a dead letter it counts nothing"
    live.see(record(Kind.REDRIVEN, 2, 3))
    assert own.attempts.get(2) == 0
    live.see(record(Kind.DONE, 1))
    assert not own.attempts


def test_records_about_an_item_that_is_not_there_leave_nothing() -> None:
    live = seen(put(1), *(
        record(kind, 2) for kind in (Kind.DEAD, Kind.LEASED, Kind.RETURNED, Kind.REDRIVEN)
    ))  # fmt: skip

    own = live.lines[0]
    assert not (own.dead or own.leased or own.delayed or own.attempts)


def test_an_item_that_was_available_keeps_its_id_as_its_marker() -> None:
    back = record(Kind.RETURNED, 1, TIME_MS, 1, {Tag.DUE_MS: TIME_MS + 9})
    live = seen(put(1), back, record(Kind.RELEASED, 1, 2))

    assert live.lines[0].markers == {}


def test_a_flush_leaves_the_dead_the_spared_and_what_came_after_it() -> None:
    spared = struct.pack("<Q", 3)
    live = seen(put(1), put(2), put(3), put(4), put(5), record(Kind.DEAD, 1),
                record(Kind.FLUSHED, 4, body=spared))  # fmt: skip

    assert list(live.items) == [1, 3, 5]


def test_a_confirm_of_all_up_to_a_marker_leaves_what_stands_behind_it() -> None:
    live = seen(put(1), later(2), put(3), later(4), put(5), record(Kind.RELEASED, 2, 6), put(7))

    live.see(record(Kind.UPTO, 0, 5))

    assert list(live.items) == [2, 4, 7], "2 was released as number 6, and 4 was not yet"
    assert live.lines[0].delayed == {4}
    assert live.lines[0].markers == {2: 6}


def test_a_release_gives_an_item_its_marker_once() -> None:
    live = seen(later(1), record(Kind.RELEASED, 1, 2))

    assert live.lines[0].markers == {1: 2}
    assert live.lines[0].delayed == set()
    back = record(Kind.RETURNED, 1, TIME_MS, 1, {Tag.DUE_MS: TIME_MS + 9, Tag.REASON: b"abort"})
    live.see(back)
    assert live.lines[0].delayed == {1}
    live.see(record(Kind.RELEASED, 1, 3))
    assert live.lines[0].delayed == set()
    assert live.lines[0].markers == {1: 2}
    assert live.next_number == 4


def test_a_child_has_the_items_since_it_was_named_and_those_of_its_own() -> None:
    live = seen(put(1), named(1, b"audit"), put(2), put(3, reader=1), record(Kind.DONE, 2),
                record(Kind.DONE, 3, reader=1))  # fmt: skip

    assert list(live.items) == [1]
    assert live.lines[1].name == b"audit"
    assert list(live.lines[1].items) == [2]
    assert live.puts == 2, "an item of a child alone is no put of the queue"
    assert str(live) == "1 live item (+audit 1)"
    live.see(record(Kind.READER, small=STOPS, reader=1))
    assert str(live) == "1 live item"


def test_a_queue_that_passes_items_on_keeps_none_itself() -> None:
    live = seen(named(1, b"audit"), put(1), record(Kind.READER, small=STOPS), put(2))

    assert list(live.items) == [1]
    assert list(live.lines[1].items) == [1, 2]


def test_a_deleted_queue_has_nothing_though_its_children_have() -> None:
    live = seen(named(1, b"audit"), put(1), record(Kind.READER, small=GONE))

    assert list(live.items) == []
    assert list(live.lines[1].items) == [1]


def test_after_a_record_that_ids_do_not_tell_nothing_is_guessed() -> None:
    live = seen(put(1), record(Kind.DONE_MANY))

    assert not live.known
    assert str(live) == "live items not known"


def test_tokens_and_the_next_number_go_up_alone() -> None:
    live = seen(record(Kind.TOKENS, 0, 50), record(Kind.TOKENS, 0, 20), put(7), put(3))

    opening = live.checkpoint(None, b"jobs", 4)

    assert (opening.name, opening.generation) == (b"jobs", 4)
    assert (opening.tokens, opening.next_item, opening.next_place) == (50, 8, 8)
    assert opening.live_items == 2


def test_a_checkpoint_counts_the_items_since_the_newest_and_no_release() -> None:
    live = seen(put(11), later(12), record(Kind.RELEASED, 12, 13), put(14))
    newest = Checkpoint(b"jobs", 11, 11, 5, total_items=9, generation=2)

    opening = live.checkpoint(newest, b"other", 7)

    assert (opening.name, opening.generation, opening.tokens) == (b"jobs", 2, 5)
    assert (opening.next_item, opening.total_items) == (15, 12)


@pytest.mark.parametrize(("queue", "left"), [(b"jobs", [2]), (b"other", [1, 2])])
def test_an_item_made_of_another_one_of_this_queue_ends_that_one(
    queue: bytes, left: list[int]
) -> None:
    origin = Origin(b"server-1", queue, 1, 1).meta
    made = put(2)._replace(meta=origin, lsn=2)
    live = LiveSet()

    assert len(list(live.follow(Source([put(1)._replace(lsn=1), made])))) == 2

    assert list(live.items) == left


def test_records_that_the_snapshot_includes_are_passed_on_and_not_counted_again() -> None:
    known = IdSet()
    known.add(2)
    snapshot = Snapshot(
        2, 1, 0, Checkpoint(b"jobs", 3, 3, 17, generation=1), known, 1, IdCounts(), [], []
    )
    live = LiveSet()

    records = [put(n)._replace(lsn=n) for n in (1, 2, 3)]
    assert list(live.follow(Source(records, snapshot))) == records

    assert list(live.items) == [2, 3]
    assert (live.tokens, live.next_number, live.puts) == (17, 4, 1)
    assert list(known) == [2], "the snapshot stays as it is"


class Anew(Source):
    """A source whose records begin anew after the first one."""

    def records(self) -> Iterator[Record]:
        yield self.given[0]
        self.beginnings += 1
        yield from self.given[1:]


@pytest.mark.parametrize(
    "first",
    [
        put(1),
        record(Kind.READER, small=STOPS),
        record(Kind.READER, meta={Tag.NAME: b"mail"}, reader=1, lsn=5),
        record(Kind.DONE_MANY),
    ],
    ids=["an item", "a queue that only passes on", "a child", "ends that ids do not tell"],
)
def test_what_was_there_before_a_new_beginning_is_forgotten(first: Record) -> None:
    live = LiveSet()
    for _ in live.follow(Anew([first, record(Kind.PUT, 2, 2, lsn=9)])):
        pass
    assert ([*live.lines], list(live.items), live.known) == ([0], [2], True)
