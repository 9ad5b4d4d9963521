"""`retain`, against a model written from the spec: observers that keep their last marker see each
item that is kept once, in the order of markers, done or not, and miss none.

Consumers confirm, give back, put off, bury and flush; items are due later and expire; `retain`
changes, the journal is tidied up (snapshots, rewriting, segments that go), processes are ended and
killed, the power is cut. The model names the items that must be seen: those that are not done, and
done ones whose retention is not over. No item may be seen out of order, twice, past its expiry,
with another body, or under another marker than its first.

Promise retain: random histories against a model with crashes, rotation and removal; the whole
    server with crashes and faults, up to three queues between which items move; a worker that is
    quicker than an observer killed again and again.
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
    rule,
)

from kestrelpy.core.log.log import JournalLog
from tests.support.end_of_life import end
from tests.support.little_memory import little_memory
from tests.support.machines import has_failed, run, run_for_long, values
from tests.support.server_harness import ServerHarness
from tests.support.soak import Soak
from tests.support.tidying import reclaim, tidy

WHO = st.sampled_from(["anna", "bert"])
OBSERVER = st.sampled_from(["xena", "yuri"])
_TURNS_MAX = 1000  # more than any answer takes
RETAIN = {"none": 0, "2s": 2000, "5s": 5000, "forever": None}


@dataclass
class Thing:
    """One item, as the spec knows it."""

    body: bytes
    stored_ms: int
    expires_ms: int = 0
    due_ms: int = 0  # delayed until then
    marker: int = 0  # 0: it was never available
    holder: str = ""
    attempts: int = 0
    is_dead: bool = False
    is_done: bool = False
    may_be_gone: bool = False

    @property
    def state(self) -> tuple[bytes, int]:
        if self.is_done:
            return b"done", 0
        word = b"lent" if self.holder else b"dead" if self.is_dead else b"ready"
        return (b"delayed" if self.due_ms else word), self.attempts


class RetainMachine(RuleBasedStateMachine):
    """One queue, two consumers, two observers."""

    @initialize(
        memory=st.sampled_from([1, 3000, 1 << 20]), piece=st.sampled_from([64, 300, 1 << 18]),
        retain=st.sampled_from(["2s", "5s", "forever", "forever"]),
    )  # fmt: skip
    def begin(self, memory: int, piece: int, retain: str) -> None:
        self.patch = little_memory(piece, 3)
        self.stage = ServerHarness()
        self.retain: int | None = 0
        self.stage.set_queue(max_memory=memory, lease="none")
        self.things: list[Thing] = []
        self.last = 0
        self.after = {"xena": 0, "yuri": 0}
        self.change(retain)

    # -- the model --------------------------------------------------------------------------

    def now(self) -> None:
        """What is due is available; what is over may be gone."""
        unix_ms = self.stage.unix_ms
        due = [t for t in self.things if 0 < t.due_ms <= unix_ms]
        for thing in sorted(due, key=lambda t: t.due_ms):
            thing.due_ms = 0
            self.last += 1
            thing.marker = thing.marker or self.last
        for thing in self.things:
            over = self.retain is not None and thing.stored_ms <= unix_ms - self.retain
            thing.may_be_gone |= thing.is_done and over

    def is_expired(self, thing: Thing) -> bool:
        is_over = 0 < thing.expires_ms <= self.stage.unix_ms
        return is_over and not thing.holder and (not thing.is_dead or thing.is_done)

    def must_be_seen(self) -> set[int]:
        return {
            t.marker for t in self.things
            if t.marker and not t.may_be_gone and not self.is_expired(t)
        }  # fmt: skip

    def held_by(self, who: str) -> Thing | None:
        return next((t for t in self.things if t.holder == who), None)

    def say(self, who: str, line: bytes) -> bytes:
        said = self.stage.say(who, line)
        for _ in range(_TURNS_MAX):
            if said:
                self.now()
                return said
            # It is being read back; and that nothing is left of it is found out a moment later.
            self.stage.pass_time(1)
            said = self.stage.client(who).take()
        raise AssertionError(f"no answer to {line!r}")

    # -- what others do ---------------------------------------------------------------------

    @rule(
        size=st.sampled_from([0, 5, 90, 700]), expiry=st.sampled_from([0, 0, 0, 1, 3]),
        delay=st.sampled_from([0, 0, 0, 1, 4]), count=st.sampled_from([1, 1, 3, 12]),
    )  # fmt: skip
    def put(self, size: int, expiry: int, delay: int, count: int) -> None:
        for _ in range(count):
            if delay and 0 < expiry <= delay:
                return
            body = b"%d." % (len(self.things) + 1) + b"x" * size
            key = b"jobs/delay=%ds" % delay if delay else b"jobs"
            said = self.say("prod", b"set %b 0 %d %d\r\n%b" % (key, expiry, len(body), body))
            assert said == b"STORED\r\n"
            unix_ms = self.stage.unix_ms
            self.last += 1
            thing = Thing(body, unix_ms, unix_ms + expiry * 1000 if expiry else 0)
            if delay:
                thing.due_ms = unix_ms + delay * 1000
            else:
                thing.marker = self.last
            self.things.append(thing)

    @rule(who=WHO, how=st.sampled_from(["", "", "/open", "/dead/open"]), count=st.integers(1, 8))
    def fetch(self, who: str, how: str, count: int) -> None:
        for _ in range(1 if how else count):
            if self.held_by(who):
                return
            said = self.say(who, b"get jobs" + how.encode())
            if said == b"END\r\n":
                return
            body = said.split(b"\r\n")[1]
            thing = next(t for t in self.things if t.body == body)
            assert not thing.holder
            assert not thing.is_done
            thing.holder = who if how else ""
            thing.is_done = not how
            self.now()

    @rule(
        who=WHO,
        word=st.sampled_from(["close", "close", "abort", "defer", "abort/delay=2s", "abort/dead"]),
    )
    def end(self, who: str, word: str) -> None:
        thing = self.held_by(who)
        if thing is None or (thing.is_dead and word != "close"):
            return
        over = 0 < thing.expires_ms <= self.stage.unix_ms
        assert self.say(who, b"get jobs/" + word.encode()) == b"END\r\n"
        thing.holder = ""
        if word == "close":
            thing.is_done = True
        else:
            thing.attempts += word != "defer"
            thing.is_dead = word == "abort/dead"
            if word == "abort/delay=2s" and not over:
                thing.due_ms = self.stage.unix_ms + 2000
            elif word == "abort/delay=2s":
                thing.is_done = thing.may_be_gone = True  # nobody says which it is
        self.now()

    @rule()
    def flush(self) -> None:
        assert self.say("prod", b"flush jobs") == b"END\r\n"
        for thing in self.things:
            if not thing.holder and not thing.is_dead:
                thing.is_done, thing.due_ms = True, 0
        self.now()

    @rule(ms=st.sampled_from([10, 600, 1500, 3000, 6000]))
    def pass_time(self, ms: int) -> None:
        self.stage.pass_time(ms)
        for thing in self.things:
            # Put off beyond its expiry, it is gone when it is due.
            if 0 < thing.due_ms <= self.stage.unix_ms and self.is_expired(thing):
                thing.may_be_gone = True
        self.now()

    @rule(retain=st.sampled_from(sorted(RETAIN)))
    def change(self, retain: str) -> None:
        self.now() if self.things else None
        self.retain = RETAIN[retain]
        self.stage.set_queue(retain=retain)
        self.now()

    @rule(how=st.sampled_from(["restart", "kill", "cut_power"]))
    def come_back(self, how: str) -> None:
        self.stage.work()
        getattr(self.stage, how)()
        for thing in self.things:
            thing.holder = ""
        self.now()

    @rule(how=st.sampled_from([tidy, tidy, reclaim]))
    def keep_house(self, how: object) -> None:
        self.stage.work()
        for queue in list(self.stage.broker.queues.values()):
            if isinstance(queue.log, JournalLog):
                (tidy if how is tidy else reclaim)(self.stage, queue.log)

    # -- observers --------------------------------------------------------------------------

    @rule(
        who=OBSERVER, most=st.sampled_from([1, 1, 2, 5, 10_000]),
        anew=st.sampled_from([False, False, True]),
    )  # fmt: skip
    def look(self, who: str, most: int, anew: bool) -> None:
        after = 0 if anew else self.after[who]
        key = b"jobs/peek/after=%d/n=%d/full" % (after, most)
        shown = values(self.say(who, b"gets " + key))
        markers = [each.number for each in shown]
        assert markers == sorted(set(markers)), "in order, and each once"
        assert len(shown) <= most
        by_marker = {t.marker: t for t in self.things if t.marker}
        for each in shown:
            thing = by_marker[each.number]
            assert each.key == key
            assert each.number > after
            assert each.body == thing.body
            assert (each.state, each.attempts) == thing.state
            assert not self.is_expired(thing), "what is past its expiry is passed over"
        up_to = markers[-1] if markers else self.last
        assert {m for m in self.must_be_seen() if after < m <= up_to} <= set(markers)
        if markers:
            self.after[who] = markers[-1]

    @invariant()
    def stats_tell_the_markers(self) -> None:
        if not hasattr(self, "stage") or not self.stage.broker.queues:
            return
        said = self.say("prod", b"stats markers").decode()
        stats = dict(re.findall(r"STAT queue_jobs_(\w+) (\d+)", said))
        assert int(stats["marker_latest"]) == self.last
        assert int(stats["marker_earliest"]) <= min(self.must_be_seen(), default=self.last + 1)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            try:
                if not has_failed():
                    end(self.stage)
            finally:
                self.patch.undo()


@pytest.mark.slow
def test_what_is_retained_is_seen_once_by_marker() -> None:
    run(RetainMachine, 300)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(RetainMachine, soak)
