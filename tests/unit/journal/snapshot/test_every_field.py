"""A snapshot says every field of the queue and of each child: none is forgotten by one side."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.declared import declared_draft
from journal.format.kinds import Kind
from journal.format.lease import LeaseEntry
from journal.format.out_of_order import DelayedEntry, PlacedEntry
from journal.format.record import Draft
from journal.format.subscription_state import DeadEntry, ReaderState
from journal.format.transfer import Origin
from journal.sets.id_counts import IdCounts
from journal.sets.id_set import IdSet
from journal.snapshot.dedupe_file import Chunk, ScopeState
from journal.snapshot.snapshot import SegmentState, Snapshot
from tests.golden.layout import IDENTITY, SHORT_IDENTITY, TIME_MS, Tally, ids

PATH: Final = "/data/jobs.1/00000000000000000077.snapshot"


def counts(**of: int) -> IdCounts:
    made = IdCounts()
    for item, count in of.items():
        made.set(int(item.removeprefix("item_")), count)
    return made


def child() -> ReaderState:
    """A child with something in each field."""
    return ReaderState(
        number=4, name=b"mail", floor=6, total=13, live=ids(7, 8, 9), live_bytes=31,
        attempts=counts(item_8=2), dead=[DeadEntry(8, 1, 2, b"lease", TIME_MS - 3, 10)],
        leased=[LeaseEntry(9, 5, 1, TIME_MS - 2, 3, TIME_MS - 2, TIME_MS + 60_000)],
        paused=True, delayed=[DelayedEntry(7, TIME_MS + 9, 11, b"", TIME_MS + 4)],
        placed=[PlacedEntry(7, 0, 12, 11)], held={9: b"blue"}, ageless=ids(8), heard_ms=TIME_MS - 5,
    )  # fmt: skip


def queue() -> Snapshot:
    """A queue with something in each field."""
    tally = Tally()
    tally.see_items(30, 40)
    tally.see_time(TIME_MS)
    return Snapshot(
        lsn=77, segment=9, offset=1234 * 8,
        checkpoint=Checkpoint(b"jobs", 41, 45, 1 << 20, 40, 23, 2, b"server-1", as_of=77),
        live=ids(3, 5, 20), live_bytes=987, attempts=counts(item_5=2),
        dead=[DeadEntry(5, 1, 2, b"lease", TIME_MS - 9, 17)],
        segments=[SegmentState(4, 3, 19, 2, 34)], tally=tally,
        leased=[LeaseEntry(20, 7, 1, TIME_MS - 5, 3, TIME_MS - 5, TIME_MS + 60_000)],
        standing=[
            Draft(Kind.PAUSED, 0, 0, 1, TIME_MS, b"", b"", 0, 0),
            declared_draft(b'lease = "5m"\n', b'{"team": "mail"}', TIME_MS),
        ],
        delayed=[DelayedEntry(3, TIME_MS + 7, 12, b"", TIME_MS + 2)],
        placed=[PlacedEntry(3, 0, 44, 12)], watermarks={b"nightly": TIME_MS // 1000},
        held={20: b"red"}, origins={20: Origin(b"server-2", b"orders", 8, 3, 21)},
        readers=[child()], passes_on=True, retained=ids(2, 3, 5, 20),
        scopes=[ScopeState(b"import", 9, 5, TIME_MS - 8)],
        chunks=[Chunk(1, 70, 4096, ids=6, keys=2, ids_ms=TIME_MS, keys_ms=TIME_MS, item_lost=4)],
        is_tombstone=True, floor=2, ageless=ids(5),
        heard_ms=TIME_MS - 5,
    )  # fmt: skip


def plain(value: Any) -> Any:
    """Return it as what can be compared."""
    if isinstance(value, IdSet):
        return list(value)
    if isinstance(value, IdCounts):
        return list(value.items())
    if isinstance(value, ReaderState | Snapshot):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if type(value) is tuple or isinstance(value, list):
        return [plain(each) for each in value]
    return value


def again(snapshot: Snapshot) -> Snapshot:
    return Snapshot.decode(snapshot.encode(SHORT_IDENTITY, IDENTITY, TIME_MS), PATH)


def empty() -> Snapshot:
    return Snapshot(77, 1, 64, Checkpoint(b"", as_of=77), IdSet(), 0, IdCounts(), [], [])


def alone(name: str) -> Snapshot:
    """Return a snapshot with nothing but this field, and what it cannot be without."""
    full = queue()
    needs = {"heard_ms": ["delayed"], "delayed": ["heard_ms"]}.get(name, [])
    return replace(empty(), **{each: getattr(full, each) for each in [name, *needs]})


def test_these_have_something_in_each_field() -> None:
    for full, bare in ((queue(), empty()), (child(), ReaderState(0, b"", 0))):
        said, nothing = plain(full), plain(bare)
        assert [name for name in said if said[name] == nothing[name] and name != "lsn"] == []


def test_every_field_comes_back() -> None:
    assert plain(again(queue())) == plain(queue())


@pytest.mark.parametrize("name", [each.name for each in fields(Snapshot)])
def test_a_field_comes_back_without_the_others(name: str) -> None:
    assert plain(again(alone(name))) == plain(alone(name))


@pytest.mark.parametrize("name", [each.name for each in fields(ReaderState)][3:])
def test_a_field_of_a_child_comes_back_without_the_others(name: str) -> None:
    full, made = child(), ReaderState(4, b"mail", 0)
    for each in (name, *{"heard_ms": ["delayed"], "delayed": ["heard_ms"]}.get(name, [])):
        setattr(made, each, getattr(full, each))
    (found,) = again(replace(empty(), readers=[made])).readers
    assert plain(found) == plain(made)
