"""Observers that keep their last marker see each item that is kept once, in order.

Consumers open, confirm, give back and take; items expire, die and are flushed; processes are ended
and killed, the power is cut, segments go; there is next to no memory, and what observers have read
comes at random later moments. The model is the spec: an item is kept from its STORED until it is
confirmed, flushed or, while it is ready, expired.

Promise observer: random histories against a model with kills, power cuts, removed and compacted
    segments, late reads and next to no memory; the whole server with crashes and faults; kill of
    the real process.
Promise: retain.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kestrelpy.core.log.log import JournalLog
from tests.support.end_of_life import end
from tests.support.little_memory import little_memory
from tests.support.machines import has_failed, run, run_for_long, values
from tests.support.server_harness import ServerHarness
from tests.support.soak import Soak

WHO = st.sampled_from(["anna", "bert"])
OBSERVER = st.sampled_from(["xena", "yuri"])
MAX_ATTEMPTS = 2


@dataclass
class Thing:
    """One item, as the spec knows it."""

    body: bytes
    expires_ms: int
    holder: str = ""
    attempts: int = 0
    is_dead: bool = False


@dataclass
class Eye:
    """One observer: the last marker that it was shown, and its request without an answer yet."""

    after: int = 0
    most: int = 0
    key: bytes = b""
    waits: bool = False


class ObserverMachine(RuleBasedStateMachine):
    """One queue, two consumers, two observers."""

    @initialize(
        memory=st.sampled_from([1, 400, 3000, 1 << 20]), piece=st.sampled_from([64, 300, 1 << 18]),
        answer=st.sampled_from([100, 1000, 4 << 20]), durable=st.sampled_from([True, True, False]),
    )  # fmt: skip
    def begin(self, memory: int, piece: int, answer: int, durable: bool) -> None:
        self.patch = little_memory(piece, 3, **{
            "kestrelpy.core.queue.browse._SPAN": 1,
            "kestrelpy.core.queue.browse._SPAN_LEAST": 3,
            "kestrelpy.core.subscription.ready_items._SLACK_BYTES": 200,
            "kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX": 0,
            "kestrelpy.operations.reading.PAGE_BYTES_MAX": answer,
        })  # fmt: skip
        self.stage = ServerHarness()
        self.stage.set_queue(
            max_memory=memory, max_attempts=MAX_ATTEMPTS, durable=durable, lease="none"
        )
        self.durable = durable
        self.things: dict[int, Thing] = {}
        self.last = 0
        self.before: dict[int, Thing] = {}
        self.eyes = {"xena": Eye(), "yuri": Eye()}

    # -- the model --------------------------------------------------------------------------

    def is_readable(self, thing: Thing) -> bool:
        expired = 0 < thing.expires_ms <= self.stage.unix_ms
        return bool(thing.holder) or thing.is_dead or not expired

    def readable(self) -> dict[int, Thing]:
        self.things = {m: t for m, t in self.things.items() if self.is_readable(t)}
        return dict(self.things)

    def held_by(self, who: str) -> int:
        return next((m for m, t in self.things.items() if t.holder == who), 0)

    def give_back(self, marker: int, counts: bool) -> None:
        thing = self.things[marker]
        thing.holder = ""
        if not thing.is_dead:
            thing.attempts += counts
            thing.is_dead = thing.attempts >= MAX_ATTEMPTS

    def say(self, who: str, line: bytes) -> bytes:
        self.before = self.readable()
        return self.stage.say(who, line)

    # -- what others do ---------------------------------------------------------------------

    @rule(size=st.sampled_from([0, 5, 90, 700]), expiry=st.sampled_from([0, 0, 0, 1, 3]))
    def put(self, size: int, expiry: int) -> None:
        body = b"<%d>" % (self.last + 1) * (size // 3) + b"%d" % (self.last + 1)
        said = self.say("prod", b"set jobs 0 %d %d\r\n%b" % (expiry, len(body), body))
        assert said == b"STORED\r\n"
        self.last += 1
        expires_ms = self.stage.unix_ms + expiry * 1000 if expiry else 0
        self.things[self.last] = Thing(body, expires_ms)

    @rule(count=st.integers(1, 20), size=st.sampled_from([1, 60]))
    def put_many(self, count: int, size: int) -> None:
        for _ in range(count):
            self.put(size, 0)
            self.observers_are_right()

    @rule(who=WHO, how=st.sampled_from(["", "/open", "/dead/open"]))
    def fetch(self, who: str, how: str) -> None:
        if self.held_by(who):
            return
        key = b"jobs" + how.encode()
        said = self.say(who, b"gets " + key)
        if not said:  # it is being read back
            self.stage.pass_time(10)
            said = self.stage.client(who).take()
        if said == b"END\r\n":
            return
        body = values(said)[0].body
        marker = next(m for m, t in self.things.items() if t.body == body)
        assert not self.things[marker].holder
        if how:
            self.things[marker].holder = who
        else:
            del self.things[marker]

    @rule(who=WHO, word=st.sampled_from(["close", "close", "abort", "defer"]))
    def end(self, who: str, word: str) -> None:
        marker = self.held_by(who)
        assert self.say(who, b"get jobs/" + word.encode()) == b"END\r\n"
        if marker and word == "close":
            del self.things[marker]
        elif marker:
            self.give_back(marker, word == "abort")

    @rule(who=WHO)
    def hang_up(self, who: str) -> None:
        self.before = self.readable()
        marker = self.held_by(who)
        if who in self.stage.clients:
            self.stage.hang_up(who)
            if marker:
                self.give_back(marker, True)

    @rule()
    def flush(self) -> None:
        assert self.say("prod", b"flush jobs") == b"END\r\n"
        self.things = {m: t for m, t in self.things.items() if t.holder or t.is_dead}

    @rule(ms=st.sampled_from([10, 600, 2000]))
    def pass_time(self, ms: int) -> None:
        self.before = self.readable()
        self.stage.pass_time(ms)

    @precondition(lambda self: self.durable)
    @rule(how=st.sampled_from(["restart", "kill", "cut_power"]))
    def come_back(self, how: str) -> None:
        self.before = self.readable()
        self.stage.reads = True
        self.stage.work()
        self.observers_are_right()
        getattr(self.stage, how)()
        for marker, thing in self.things.items():
            if thing.holder:
                self.give_back(marker, False)
        for eye in self.eyes.values():
            eye.key = b""

    @rule()
    def reclaim(self) -> None:
        self.before = self.readable()
        for queue in self.stage.broker.queues.values():
            if isinstance(queue.log, JournalLog):
                for path in queue.log.store.take_dead():
                    self.stage.disk.remove(path)

    @rule()
    def let_reads_come(self) -> None:
        self.before = self.readable()
        self.stage.reads = True
        self.stage.work()
        self.observers_are_right()
        self.stage.reads = False

    # -- observers --------------------------------------------------------------------------

    @rule(
        who=OBSERVER, most=st.sampled_from([0, 1, 2, 5, 10_000]), full=st.booleans(),
        waits=st.booleans(), anew=st.sampled_from([False, False, False, True]),
        back=st.sampled_from([0, 0, 0, 0, 3]), at_once=st.booleans(),
    )  # fmt: skip
    def look(
        self, who: str, most: int, full: bool, waits: bool, anew: bool, back: int, at_once: bool
    ) -> None:
        eye = self.eyes[who]
        if eye.key:
            return
        if anew:
            eye.after = 0
        eye.after = max(eye.after - back, 0)
        eye.most, eye.waits = most or 1, waits
        eye.key = b"jobs/peek/after=%d" % eye.after
        eye.key += (b"/n=%d" % most if most else b"") + (b"/full" if full else b"")
        eye.key += b"/t=2s" if waits else b""
        self.before = self.readable()
        self.stage.reads = at_once
        self.stage.send(who, b"gets " + eye.key + b"\r\n")
        if at_once:
            self._judge(eye, self.stage.client(who).take(), exactly=True)
            self.observers_are_right()  # the other's has come too
        self.stage.reads = False

    @invariant()
    def observers_are_right(self) -> None:
        for who, eye in self.eyes.items() if hasattr(self, "eyes") else ():
            if eye.key:
                self._judge(eye, self.stage.client(who).take(), exactly=False)

    def _judge(self, eye: Eye, said: bytes, exactly: bool) -> None:
        """What it was told, if it was, by what was kept before what just happened, and after."""
        after = self.readable()
        surely = {m for m in self.before.keys() & after.keys() if m > eye.after}
        if not said:
            assert eye.waits or not self.stage.reads, "it is answered"
            assert not (exactly and surely), "what is kept is shown at once"
            return
        shown = values(said)
        markers = [each.number for each in shown]
        assert markers == sorted(set(markers)), "in order, and each once"
        assert len(shown) <= eye.most
        may = {**self.before, **after}
        for each in shown:
            thing = may[each.number]
            assert each.key == eye.key
            assert each.number > eye.after
            assert each.body == thing.body
            if exactly and each.state:
                expected = b"lent" if thing.holder else b"dead" if thing.is_dead else b"ready"
                assert (each.state, each.attempts) == (expected, thing.attempts)
        up_to = markers[-1] if markers else self.last
        assert {m for m in surely if m <= up_to} <= set(markers), "none is missed"
        if markers:
            eye.after = markers[-1]
        eye.key = b""

    # -- what is said of them ---------------------------------------------------------------

    @invariant()
    def stats_tell_the_markers(self) -> None:
        if not hasattr(self, "stage") or not self.stage.broker.queues:
            return
        said = self.stage.say("prod", b"stats markers").decode()
        stats = dict(re.findall(r"STAT queue_jobs_(\w+) (\d+)", said))
        assert int(stats["marker_latest"]) == self.last
        assert int(stats["marker_earliest"]) <= min(self.readable(), default=self.last + 1)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            try:
                if not has_failed():
                    end(self.stage)
            finally:
                self.patch.undo()


@pytest.mark.slow
def test_an_observer_sees_each_readable_item_once_by_marker() -> None:
    run(ObserverMachine, 300)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(ObserverMachine, soak)
