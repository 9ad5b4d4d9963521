"""Objects that are no longer needed are freed in slices."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque

from kestrelpy.core.timers import Timers
from kestrelpy.core.trash import FREED_MAX, SMALL, Pile, Trash
from tests.support.core_harness import make_queue


class Thing:
    """Something that is freed."""


def test_each_tick_frees_one_slice_until_there_is_none() -> None:
    timers = Timers[object]()
    trash = Trash(timers)
    trash.take(deque([0] * FREED_MAX), dict.fromkeys(range(FREED_MAX)))
    left = []
    while timers.pop_due(10) is trash:
        trash.free(0)
        left.append(len(trash))
        timers.next_due()
    assert left == [FREED_MAX, 0]
    assert timers.next_due() is None


def test_any_kind_of_pile_is_emptied() -> None:
    piles: list[Pile] = [
        {n: Thing() for n in range(SMALL + 1)}, OrderedDict.fromkeys(range(SMALL + 1)),
        deque(range(SMALL + 1)), [*range(SMALL + 1)], {*range(SMALL + 1)},
    ]  # fmt: skip
    trash = Trash(Timers())
    trash.take(*piles)
    for _ in range(len(piles) * (SMALL + 1) // FREED_MAX + 1):
        trash.free(0)
    assert not trash
    assert not any(piles)


def test_a_small_pile_is_freed_at_once() -> None:
    timers = Timers[object]()
    thing = Thing()
    gone = weakref.ref(thing)
    Trash(timers).take([thing])
    del thing
    assert gone() is None
    assert timers.next_due() is None


def test_a_flushed_queue_is_freed_while_others_are_served() -> None:
    q = make_queue()
    q.put(*[b"x"] * (3 * FREED_MAX))
    trash = q.broker.memory.trash
    q.flush()
    assert len(trash) == 3 * FREED_MAX
    q.put(b"new")
    q.broker.tick(q.now_ms)
    assert 0 < len(trash) < 3 * FREED_MAX
    assert q.take() == b"new"
    q.pass_time(10)
    assert not trash
