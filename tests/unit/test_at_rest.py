"""The look at what is left names everything that counts or holds something, wherever it is."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from kestrelpy.core.index.leases import Holder
from kestrelpy.core.index.waiters import Want
from kestrelpy.core.item import Item
from tests.support.at_rest import Walk, _attributes, _entry, _names, files_left, left_over, name_of
from tests.support.end_of_life import empty, end
from tests.support.rest_table import AT_MOST, MAY_HOLD, REMEMBERED
from tests.support.server_harness import ServerHarness


@pytest.fixture
def stage() -> ServerHarness:
    """A queue with a child, and everything that was in it is gone."""
    made = ServerHarness()
    made.say("eye", b"get jobs+audit")
    for options in (b"", b"/key=A", b"/delay=10ms", b"/id=7"):
        made.say("prod", b"set jobs%b 0 0 1" % options, b"x")
    for name in [*made.clients]:
        made.hang_up(name)
    empty(made)
    return made


def test_when_everything_is_gone_nothing_is_left(stage: ServerHarness) -> None:
    end(stage)


LEFT: dict[str, tuple[Callable[[ServerHarness], object], str]] = {
    "an item": (lambda s: s.say("prod", b"set jobs 0 0 1", b"x"), "reader.live.count is 1"),
    "a lease": (lambda s: (s.say("p", b"set jobs 0 0 1", b"x"), s.say("c", b"get jobs/open")),
                "core.index.leases.Lease object"),
    "a wait": (lambda s: s.broker.wait(Want.OPEN, b"jobs", Holder("c"), False, None, 10**9),
               "waiters.count is 1"),
    "a wait for what is not there": (
        lambda s: s.broker.wait(Want.OPEN, b"no", Holder("c"), False, None, 10**9), "_absent is"),
    "a reference": (lambda s: setattr(s.queue("jobs").reader, "notes", [Item(1, 1, b"", 0, 0, 0)]),
                    "notes[0] is left"),
    "bytes": (lambda s: setattr(s.queue("jobs").reader, "live_bytes", 3), "live_bytes is 3"),
    "a mark": (lambda s: setattr(s.queue("jobs").reader, "needs_read", True), "needs_read is True"),
    "an error": (lambda s: setattr(s.queue("jobs").log, "failure", OSError()), "failure is OSErr"),
    "a slot": (lambda s: setattr(s.broker.memory, "taken", 1), "memory.taken is 1"),
    "what no queue has": (
        lambda s: s.queue("jobs").reader.out_of_order.add(9), "out_of_order.count is",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left_is_named(stage: ServerHarness, what: str) -> None:
    assert left_over(stage.broker) == []
    leave, named = LEFT[what]
    leave(stage)
    assert any(named in complaint for complaint in left_over(stage.broker)), left_over(stage.broker)


def test_a_folder_without_a_queue_and_a_file_that_is_nobody_s_are_named(
    stage: ServerHarness,
) -> None:
    stage.disk.make_folder("data/gone.17")
    folder = stage.directory.folder(stage.queue("jobs"))
    stage.disk.create(f"{folder}/00000099.segment.new", b"", 0).close()
    assert files_left(stage.disk, "data", stage.broker) == [
        "data/gone.17 is there without a queue",
        f"{folder}/00000099.segment.new is nobody's",
    ]


def poked(value: Any) -> Any:
    """Return the value changed as if work were under way; None if it cannot hold anything."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 5
    if isinstance(value, list | deque):
        return type(value)([*value, 1])
    if isinstance(value, set):
        return {*value, 1}
    if isinstance(value, dict):
        return {**value, 1: 1}
    if isinstance(value, array):
        return array(value.typecode, [*value, 1])
    if isinstance(value, str | bytes | bytearray):
        return value + (type(value)(b"1") if not isinstance(value, str) else "1")
    return None


def test_each_count_and_collection_is_looked_at_or_has_its_reason(stage: ServerHarness) -> None:
    walk = Walk()
    walk.run(stage.broker)
    looked_at = 0
    for thing in [*walk._met.values()]:
        name, names = name_of(type(thing)), _names(type(thing))
        for attribute, value in [*_attributes(thing, type(thing))]:
            other = poked(value)
            is_anothers = isinstance(getattr(type(thing), attribute, None), property)
            if name not in MAY_HOLD or other is None or is_anothers:
                continue
            if any(_entry(names, attribute, each) for each in (MAY_HOLD, REMEMBERED, AT_MOST)):
                continue
            setattr(thing, attribute, other)
            try:
                found = left_over(stage.broker)
            finally:
                setattr(thing, attribute, value)
            assert any(f".{attribute} is " in each for each in found), f"{name}.{attribute}"
            looked_at += 1
    assert looked_at > 100
    assert left_over(stage.broker) == []
