"""What records do to the state of a queue, one by one."""

from __future__ import annotations

from typing import Any

import pytest

from journal.errors import NewerFormat
from journal.format.kinds import Kind, Tag
from journal.format.meta import encode_meta
from journal.format.record import Draft, Record
from kestrelpy.spark.files.queue_state import State


def record(kind: Kind, item: int, number: int = 0, small: int = 0, **meta: Any) -> Record:
    """One as a reader of a journal meets it; where it stands does not matter here."""
    said = encode_meta({Tag[name.upper()]: value for name, value in meta.items()})
    draft = Draft(kind, item, number, small, 1000, said, b"", 0, 0)
    return Record(
        draft.kind, draft.item, draft.number, draft.small, draft.time_ms, draft.meta, draft.body,
        draft.reader, 1, 1, 0, 64,
    )  # fmt: skip


def test_a_delayed_item_is_delayed_until_it_is_released_and_keeps_its_first_marker() -> None:
    state = State()
    state.see(record(Kind.PUT, 1, due_ms=5000))
    assert state.delayed == {1}
    state.see(record(Kind.RELEASED, 1, 7))
    assert (state.delayed, state.released) == (set(), {1: 7})
    state.see(record(Kind.RETURNED, 1, 0, 1, due_ms=9000))
    assert state.delayed == {1}
    state.see(record(Kind.RELEASED, 1, 9))
    assert (state.delayed, state.released) == (set(), {1: 7})
    assert state.attempts.get(1) == 1
    state.see(record(Kind.DONE, 1))
    assert (list(state.live), state.released) == ([], {})


def test_a_redriven_item_is_ready_with_no_attempts() -> None:
    state = State()
    state.see(record(Kind.PUT, 1, 1))
    state.see(record(Kind.DEAD, 1, 0, 3, reason=b"abort", bytes=0))
    assert state.dead[1].attempts == 3
    state.see(record(Kind.REDRIVEN, 1, 2))
    assert (state.dead, state.attempts.get(1), list(state.live)) == ({}, 0, [1])


def test_a_moved_item_is_gone_and_what_settles_a_move_changes_nothing() -> None:
    state = State()
    state.see(record(Kind.PUT, 1, 1))
    state.see(record(Kind.PUT, 2, 2, origin=b"server:other:9"))
    state.see(record(Kind.MOVED, 1))
    state.see(record(Kind.SETTLED, 2))
    assert list(state.live) == [2]


def test_a_kind_that_is_not_known_is_refused() -> None:
    with pytest.raises(NewerFormat, match="kind 77"):
        State().see(record(Kind.PUT, 1, 1)._replace(kind=77))
