"""Moves, hand-offs and dead letters between two slices, over lost, late and repeated messages and
ends of either slice at any moment: each item is once where the answers say.

The model is made of the promise: an item that is acknowledged is there once, with the body that was
handed off last; one that is confirmed is gone.

Promise: move.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.machines import has_failed, run, run_for_long
from tests.support.slices_harness import SlicesHarness, available, slice_of
from tests.support.soak import Soak
from tests.support.transfer_harness import MARK, unmarked

QUEUE = st.sampled_from(["a1", "a2", "b1", "b2"])
SLICE = st.sampled_from([1, 2])
# Dead letters go from a1 to b1, and from b2 to a2.
ONWARD = {"a1": "b1", "b2": "a2"}
STORED = b"STORED\r\n"


class SlicesMachine(RuleBasedStateMachine):
    """Two slices on memory disks, and what their clients know."""

    @initialize()
    def begin(self) -> None:
        self.town = SlicesHarness()
        for name, target in ONWARD.items():
            self.town.set_queue(name, max_attempts=1, dead_letter_to=target)
        self.number = 0
        self.marks: dict[bytes, set[int]] = {}  # how often each item may have been handed off
        self.asked: dict[str, tuple[int, bytes, int]] = {}  # hand-offs without an answer
        for number in (1, 2):
            self.town.connect(number)
        self.town.deliver()
        for queue in ("a1", "a1", "b2", "b1"):
            self.put(queue)

    # -- clients ---------------------------------------------------------------------------------

    @rule(queue=QUEUE)
    def put(self, queue: str) -> None:
        self.number += 1
        body = b"%d" % self.number
        self.marks[body] = {0}
        self.town.put(queue, body)
        self.town.town_of(queue).clients.pop("client", None)

    @rule(queue=st.sampled_from(["a1", "b2"]))
    def fail(self, queue: str) -> None:
        self.town.town_of(queue).fail(queue)
        self._hang_up(slice_of(queue.encode()), "client")

    @rule(queue=QUEUE, to=QUEUE, count=st.integers(1, 4))
    def move(self, queue: str, to: str, count: int) -> None:
        if queue == to:
            return
        self.number += 1
        town, who = self.town.town_of(queue), f"mover {self.number}"
        town.say(who, f"move {queue} {to} {count}".encode())

    @rule(queue=QUEUE, to=QUEUE, by_token=st.booleans())
    def hand(self, queue: str, to: str, by_token: bool) -> None:
        self.number += 1
        town, who = self.town.town_of(queue), f"hand {self.number}"
        body = town.take(queue, who, "/lease=1h" if by_token else "")
        if body is None:
            return
        item, marks = unmarked(body), body.count(MARK)
        assert marks in self.marks[item]
        self.marks[item] = {marks, marks + 1}
        self.asked[who] = (town.number, item, marks)
        options = f"={queue}:{town.token}" if by_token else ""
        line = f"set {to}/confirm{options} 0 0 {len(body) + 1}".encode()
        self._hear(who, town.say(who, line, body + MARK))

    def _hear(self, who: str, answer: bytes) -> None:
        """Note the answer to a hand-off; without one it is as it may be."""
        if not answer:
            return
        number, item, marks = self.asked.pop(who)
        if answer == STORED:
            self.marks[item] = {marks + 1}
            return
        assert answer.startswith(b"SERVER_ERROR"), answer
        self._hang_up(number, who)

    def _hang_up(self, number: int, who: str) -> None:
        town = self.town.slices[number]
        if who in town.clients:
            town.clients[who].take()
            town.hang_up(who)

    @rule(queue=QUEUE)
    def finish(self, queue: str) -> None:
        self.town.finish(queue)
        self._hang_up(slice_of(queue.encode()), "worker")

    # -- the wire --------------------------------------------------------------------------------

    @rule(number=SLICE, is_answer=st.booleans())
    def step(self, number: int, is_answer: bool) -> None:
        self.town.step(number, is_answer)

    @rule(number=SLICE, count=st.integers(2, 6))
    def steps(self, number: int, count: int) -> None:
        for at in range(count):
            self.town.step(number, at % 2 == 1)

    @rule(number=SLICE, is_late=st.booleans(), connects=st.booleans())
    def break_wire(self, number: int, is_late: bool, connects: bool) -> None:
        self.town.break_wire(number, is_late)
        if connects:
            self.connect(number)

    @rule(number=SLICE)
    def connect(self, number: int) -> None:
        if number not in self.town.wires:
            self.town.connect(number)

    @rule(at=st.integers(0, 20))
    def hear_late(self, at: int) -> None:
        if self.town.late:
            self.town.hear_late(at)

    # -- the slices ------------------------------------------------------------------------------

    @rule(number=SLICE)
    def hold(self, number: int) -> None:
        self.town.slices[number].hold_syncs()

    @rule(number=SLICE)
    def go(self, number: int) -> None:
        self.town.slices[number].go()

    @rule(number=SLICE, ms=st.sampled_from([1_100, 61_000]))
    def pass_time(self, number: int, ms: int) -> None:
        self.town.slices[number].pass_time(ms)

    @rule(number=SLICE)
    def snapshot(self, number: int) -> None:
        town = self.town.slices[number]
        if town.syncs:
            town.work()
            for name in [*town.broker.queues]:
                town.snapshot(name.decode())

    @rule(number=SLICE, seed=st.integers(0, 1 << 16), connects=st.booleans())
    def crash(self, number: int, seed: int, connects: bool) -> None:
        self._hear_all()
        self.town.crash(number, Random(seed))
        self.asked = {who: each for who, each in self.asked.items() if each[0] != number}
        if connects:
            self.connect(number)

    def _hear_all(self) -> None:
        for who, (number, _, _) in [*self.asked.items()]:
            client = self.town.slices[number].clients.get(who)
            if client is not None:
                self._hear(who, client.take())

    @invariant()
    def look(self) -> None:
        if not hasattr(self, "town"):
            return
        self._hear_all()
        self.town.check()
        for town in self.town.slices.values():
            for body in available(town):
                marks = self.marks[unmarked(body)]
                assert body.count(MARK) in marks, f"{body!r} was handed off {marks} times"

    def teardown(self) -> None:
        if not hasattr(self, "town") or has_failed():
            return
        for town in self.town.slices.values():
            town.go()
        while self.town.late:
            self.town.hear_late(0)
        self.town.come_to_rest()
        self.look()
        for number, town in self.town.slices.items():
            for who in [*town.clients]:
                if not who.startswith(("wire", "late")):
                    self._hang_up(number, who)
        self.town.come_to_rest()
        self.town.check_at_rest()


@pytest.mark.slow
def test_each_item_is_once_where_the_answers_say_in_two_slices() -> None:
    run(SlicesMachine, 250, 50)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(SlicesMachine, soak)
