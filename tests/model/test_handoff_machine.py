"""Hand-offs among three queues, over crashes at any moment: each item is once where the answers
say, and with the body that was handed off last.

The model is made of the specification (3.2): it knows for each item the places that its answers
leave possible. An item without an answer is in one of two places, and a crash decides.

Promise: hand-off.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support.end_of_life import end
from tests.support.long_tests import share_of
from tests.support.machines import has_failed, run_for_long
from tests.support.soak import Soak
from tests.support.transfer_harness import MARK, TransferHarness, unmarked

QUEUE = st.sampled_from(["one", "two", "three"])
WHO = st.sampled_from(["anna", "bert", "carl"])
OPTIONS = st.sampled_from(["", "", "", "/delay=1s", "/key=A", "/key=A", "/key=B"])
IDS = st.sampled_from(["", "", "", "a", "b"])
LEASE_MS = 5000
# How far the disk gets, step by step: everything is written, or synced too, or that of one side of
# the hand-off alone. None: nothing is held up.
STEPS = st.lists(
    st.sampled_from(["write", "write to", "write from", "sync", "sync to", "sync to", "sync to",
                     "sync from", "snap to"]),
    max_size=4,
)  # fmt: skip
STOPS = st.one_of(st.none(), STEPS, STEPS)
# What happens then: time enough for any lease to end, the client hangs up, the server crashes.
ENDS = st.sampled_from(["", "crash", "crash", "time", "hang up", "time crash", "hang up crash"])
STORED, NOT_STORED = b"STORED\r\n", b"NOT_STORED\r\n"

Place = tuple[str, int]  # a queue, and how often it was handed off


@dataclass
class Held:
    """An item that a client has open, by the answers that it had."""

    item: bytes
    place: Place
    token: int
    by_token: bool
    until_ms: int


@dataclass
class Asked:
    """A hand-off that was not answered: the places of its item if it is STORED (none: it is gone),
    and whether it then must be in one of them."""

    item: bytes
    places: set[Place]
    must_be: bool


class HandoffMachine(RuleBasedStateMachine):
    """A server on a memory disk, and what its clients know."""

    @initialize()
    def begin(self) -> None:
        self.town = TransferHarness()
        self.town.set_queue(lease=f"{LEASE_MS}ms")
        self.number = 0
        self.items: dict[bytes, set[Place]] = {}  # that must be there
        self.perhaps: dict[bytes, set[Place]] = {}  # stored or confirmed, and not answered
        self.held: dict[str, Held] = {}
        self.waiting: dict[str, Asked] = {}
        self.seen: set[tuple[str, str]] = set()  # ids that a queue knows
        self.perhaps_seen: set[tuple[str, str]] = set()
        self.starts = 0
        for queue in ("one", "one", "two", "three"):
            self.put(queue, "")

    # -- clients ----------------------------------------------------------------------------

    @rule(queue=QUEUE, options=OPTIONS)
    def put(self, queue: str, options: str) -> None:
        self.number += 1
        body, town = b"%d" % self.number, self.town
        answer = town.say(f"put {self.number}", f"set {queue}{options} 0 0 {len(body)}".encode(),
                          body)  # fmt: skip
        assert answer in {b"STORED\r\n", b""}
        (self.items if answer else self.perhaps)[body] = {(queue, 0)}

    @rule(who=WHO, queue=QUEUE, by_token=st.booleans())
    def open(self, who: str, queue: str, by_token: bool) -> None:
        if who in self.held or who in self.waiting or not self.town.syncs:
            return
        options = f"/lease={LEASE_MS}ms" if by_token else ""
        for name in (queue, "one", "two", "three"):
            body = self.town.take(name, self._name(who), options)
            if body is not None:
                self._holds(who, name, body, by_token)
                return

    def _holds(self, who: str, queue: str, body: bytes, by_token: bool) -> None:
        item, marks = unmarked(body), body.count(MARK)
        known = self.items if item in self.items else self.perhaps
        assert (queue, marks) in known[item], f"{body!r} is in {queue}: {known[item]}"
        known[item] = {(queue, marks)}
        until_ms = self.town.now_ms + LEASE_MS
        self.held[who] = Held(item, (queue, marks), self.town.token, by_token, until_ms)

    @rule(
        who=WHO, source=QUEUE, to=QUEUE, options=OPTIONS, id_=IDS, named=st.booleans(),
        noreply=st.booleans(), adds=st.booleans(), stops=STOPS, ends=ENDS,
    )  # fmt: skip
    def hand_off(
        self, who: str, source: str, to: str, options: str, id_: str, named: bool, noreply: bool,
        adds: bool, stops: list[str] | None, ends: str,
    ) -> None:  # fmt: skip
        """What one holds, or else what one fetches. With `stops` the disk gets so far and no
        further; then something ends, perhaps."""
        if not self.town.syncs and who not in self.held:
            self.go()
        self.open(who, source, named)
        held = self.held.pop(who, None)
        if held is None:
            return
        queue, marks = held.place
        which = f"={queue}:{held.token}" if named or held.by_token else ""
        verb = "add" if adds and stops is None and self.town.syncs and not noreply else "set"
        body = held.item + MARK * (marks + 1)
        line = f"{verb} {to}/confirm{which}{options}{'/id=' + id_ if id_ else ''} 0 0 {len(body)}"
        if stops is not None:
            self.town.hold_writes()
        answer = self.town.say(
            self._name(who), (line + " noreply" * noreply).encode(), body
        )
        if self.town.now_ms >= held.until_ms:
            is_over = b"CLIENT_ERROR token " if which else b"CLIENT_ERROR lease expired"
            assert noreply or answer.startswith(is_over), answer
        elif answer == NOT_STORED:
            assert verb == "add"
            is_known = (to, id_) in self.seen | self.perhaps_seen
            assert is_known or not id_ or "key" in options, f"{id_} was never seen in {to}"
            self.held[who] = held  # nothing has changed
        else:
            assert answer in (b"", STORED), answer
            asked = self._asked(held, (to, marks + 1), id_)
            if verb == "add":
                assert asked.places, f"{id_} was seen in {to}, and an add stored it"
                asked.must_be = True
            self._is_asked(who, asked, held, answer, noreply)
            if id_:
                (self.seen if answer else self.perhaps_seen).add((to, id_))
        for step in stops or ():
            self._step(step, queue, to)
        self._end(who, ends)

    def _asked(self, held: Held, place: Place, id_: str) -> Asked:
        """What STORED would say: of an id that was seen before, that the item is confirmed."""
        name = (place[0], id_)
        if id_ and name in self.seen:
            return Asked(held.item, set(), False)
        return Asked(held.item, {place}, not id_ or name not in self.perhaps_seen)

    def _is_asked(
        self, who: str, asked: Asked, held: Held, answer: bytes, noreply: bool
    ) -> None:
        if answer:
            self._is_stored(asked)
            return
        if asked.must_be and asked.item in self.items:
            self.items[asked.item] = {held.place, *asked.places}
        else:
            self.items.pop(asked.item, None)
            self.perhaps[asked.item] = {held.place, *asked.places}
        if not noreply:
            self.waiting[who] = asked

    def _is_stored(self, asked: Asked) -> None:
        """STORED was said: no crash undoes it."""
        self.items.pop(asked.item, None)
        self.perhaps.pop(asked.item, None)
        (self.items if asked.must_be else self.perhaps)[asked.item] = asked.places

    def _hear(self) -> None:
        """What was answered meanwhile holds, whatever comes next."""
        for who, asked in [*self.waiting.items()]:
            said = self.town.client(self._name(who)).take()
            if said:
                assert said == STORED
                self._is_stored(asked)
                del self.waiting[who]

    def _step(self, step: str, source: str, to: str) -> None:
        verb, _, side = step.partition(" ")
        town, queue = self.town, to if side == "to" else source
        if not side:
            town.write_once()
            if verb == "sync":
                town.sync_once()
        elif queue in {name.decode() for name in town.broker.queues}:
            town.write_queue(queue)
            if verb != "write":
                town.sync_queue(queue)
            if verb == "snap" and town.is_at_rest(queue):
                town.snapshot(queue)
            town.work()
        self._hear()

    def _end(self, who: str, ends: str) -> None:
        if "time" in ends:
            self.pass_time(LEASE_MS)
        if "hang up" in ends:
            self._hang_up(who)
        if "crash" in ends:
            self.crash(self.number)
        elif ends:
            self.go()

    @rule(who=WHO)
    def confirm(self, who: str) -> None:
        held = self.held.pop(who, None)
        if held is None or not self.town.syncs:
            self._hang_up(who)
            return
        answer = self.town.say(
            self._name(who), f"get {held.place[0]}/close/token={held.token}".encode()
        )
        if self.town.now_ms >= held.until_ms:
            assert answer.startswith(b"CLIENT_ERROR token "), answer
            return
        assert answer == b"END\r\n"
        # It does not come back but after a power cut, and then where it was.
        self.items.pop(held.item, None)
        self.perhaps[held.item] = {held.place}

    @rule(who=WHO)
    def hang_up(self, who: str) -> None:
        self._hang_up(who)

    def _hang_up(self, who: str) -> None:
        self._hear()
        self.held.pop(who, None)
        self.waiting.pop(who, None)
        if self._name(who) in self.town.clients:
            self.town.hang_up(self._name(who))

    def _name(self, who: str) -> str:
        return f"{who} {self.starts}"

    # -- the world --------------------------------------------------------------------------

    @rule(ms=st.sampled_from([1, 500, 1000, 2000, LEASE_MS]))
    def pass_time(self, ms: int) -> None:
        self.town.pass_time(ms)
        self._hear()

    @rule(writes=st.booleans())
    def hold(self, writes: bool) -> None:
        (self.town.hold_writes if writes else self.town.hold_syncs)()

    @rule(syncs=st.booleans())
    def one_step(self, syncs: bool) -> None:
        (self.town.sync_once if syncs else self.town.write_once)()
        self._hear()

    @rule()
    def go(self) -> None:
        self.town.go()
        self._hear()
        assert not self.waiting, "all is on disk, and somebody is not answered"

    @rule()
    def snapshot(self) -> None:
        if self.town.syncs:
            self.town.work()
            for name in [*self.town.broker.queues]:
                self.town.snapshot(name.decode())

    @rule(seed=st.integers(0, 1 << 16))
    def crash(self, seed: int) -> None:
        self._hear()
        self.town.crash(Random(seed))
        self._forget()

    @rule()
    def restart(self) -> None:
        self.go()
        for client in self.town.clients.values():
            client.take()
        self.town.restart()
        self._forget()

    def _forget(self) -> None:
        self.starts += 1
        self.held.clear()
        self.waiting.clear()
        self.look()

    @invariant()
    def look(self) -> None:
        if not hasattr(self, "town") or not self.town.syncs:
            return
        there: set[bytes] = set()
        for queue, body in self.town.stored_bodies():
            item, place = unmarked(body), (queue, body.count(MARK))
            assert item not in there, f"{item!r} is there twice"
            there.add(item)
            known = self.items if item in self.items else self.perhaps
            assert place in known[item], f"{body!r} is in {queue}: {known[item]}"
        assert self.items.keys() <= there, f"lost: {self.items.keys() - there}"

    def teardown(self) -> None:
        if hasattr(self, "town") and not has_failed():
            end(self.town)


ORDINARY = settings(
    max_examples=share_of(250),
    stateful_step_count=40,
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.slow
def test_each_item_is_once_where_the_answers_say() -> None:
    run_state_machine_as_test(HandoffMachine, settings=ORDINARY)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(HandoffMachine, soak)
