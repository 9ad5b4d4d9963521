"""What is there, by the records: each kind does what it does in the daemon."""

from __future__ import annotations

import pytest

from journal.errors import NewerFormat
from journal.record import Kind, Record, Tag, encode_meta, ended
from kestrelpy.spark.state import State


def record(kind: int, item: int = 1, small: int = 0, meta: bytes = b"", lsn: int = 2) -> Record:
    return Record(kind, item, 0, small, 0, meta, b"", 0, lsn, 1, 0, 0)


def put_and(*others: Record) -> State:
    state = State()
    for each in (record(Kind.PUT, lsn=1), *others):
        state.see(each)
    return state


@pytest.mark.parametrize(
    "kind", [Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED, Kind.MOVED]
)
@pytest.mark.parametrize("dead", [False, True])
def test_what_ended_is_not_there(kind: Kind, dead: bool) -> None:
    death = [record(Kind.DEAD, meta=encode_meta({Tag.REASON: b"why", Tag.BYTES: 1}))] * dead
    small, meta = ended(0, 1)
    state = put_and(*death, record(kind, small=small, meta=meta))
    assert (state.live.count, state.dead) == (0, {})


@pytest.mark.parametrize(
    "kind", [Kind.TOKENS, Kind.LEASED, Kind.RENEWED, Kind.DECLARED, Kind.PAUSED, Kind.SETTLED]
)
def test_who_holds_what_and_what_is_said_of_the_queue_changes_nothing(kind: Kind) -> None:
    state = put_and(record(kind))
    assert (state.live.count, state.lsn_next) == (1, 3)


def test_what_is_redriven_is_there_and_not_dead() -> None:
    death = record(Kind.DEAD, meta=encode_meta({Tag.REASON: b"why", Tag.BYTES: 1}))
    state = put_and(death, record(Kind.REDRIVEN, lsn=3))
    assert (state.live.count, state.dead) == (1, {})


def test_a_kind_that_nobody_knows_is_of_a_newer_version() -> None:
    with pytest.raises(NewerFormat):
        put_and(record(99))
