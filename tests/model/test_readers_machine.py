"""One parent and up to three children: each reader is as the spec says, and the requests to one do
not change another.

Puts for all and for one, delays, opens and all ends of a delivery, flushes, cursors moved on,
children named, begun earlier and deleted; processes end and are killed, the power is cut with
records that no sync has covered, snapshots are taken, segments rewritten and gone. The queue may
retain done items, and then children begin with those. After each step, or only now and then, so
that a child misses much, an observer of each reader is shown exactly the items of the model.

Promise child: random histories of one parent and its children against a model with kills, power
    cuts, delays, moves and removed segments; transcripts, with kills and power cuts; the recipe
    `audit`.
Promise first-mention: random histories of one parent and its children against a model; kills and
    power cuts.
"""

from __future__ import annotations

import copy
import re
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kestrelpy.core.log.log import JournalLog
from tests.support.end_of_life import end
from tests.support.long_tests import share_of
from tests.support.machines import has_failed, run_for_long
from tests.support.server_harness import ServerHarness
from tests.support.soak import Soak
from tests.support.tidying import tidy

PARENT = "orders"
PARTS = ("a", "b", "c")
_VALUE = re.compile(rb"VALUE \S+ 0 (\d+)(?: (\d+) \d+ - (\d+) (\w+) - -)?\r\n")
READER = st.sampled_from([PARENT, *(f"{PARENT}+{part}" for part in PARTS)])
CHILD = st.sampled_from([f"{PARENT}+{part}" for part in PARTS])


@dataclass
class Thing:
    """One item as one reader has it. `place` 0: it is delayed until `due_ms`; `marker` 0: it was
    never available."""

    id: int
    body: bytes
    place: int
    marker: int
    due_ms: int = 0
    attempts: int = 0
    is_leased: bool = False
    is_dead: bool = False

    @property
    def state(self) -> bytes:
        if self.is_leased or self.is_dead:
            return b"lent" if self.is_leased else b"dead"
        return b"ready" if self.place else b"delayed"


@dataclass
class Line:
    """One reader, as the spec knows it: its items by id."""

    things: dict[int, Thing] = field(default_factory=dict)

    @property
    def ready(self) -> list[Thing]:
        found = [t for t in self.things.values() if t.state == b"ready"]
        return sorted(found, key=lambda thing: thing.place)

    @property
    def leased(self) -> Thing | None:
        return next((t for t in self.things.values() if t.is_leased), None)

    @property
    def seen(self) -> list[tuple[int, bytes, bytes, int]]:
        """The view of an observer: markers, bodies, states and attempts."""
        there = [t for t in self.things.values() if t.marker]
        return sorted((t.marker, t.body, t.state, t.attempts) for t in there)


@dataclass
class World:
    """The queue: its own line, and its children's in the order in which they were named."""

    lines: dict[str, Line] = field(default_factory=lambda: {PARENT: Line()})
    retained: dict[int, Thing] | None = None  # put for all and retained, as it was when it came
    last: int = 0
    now_ms: int = 0

    def put(self, body: bytes, names: list[str], delay_ms: int) -> None:
        self.last += 1
        due_ms = self.now_ms + delay_ms if delay_ms else 0
        place = 0 if delay_ms else self.last
        for name in names:
            self.lines[name].things[self.last] = Thing(self.last, body, place, place, due_ms)
        if self.retained is not None and PARENT in names:
            self.retained[self.last] = Thing(self.last, body, place, place)

    def pass_time(self, ms: int) -> None:
        """Let time pass. A first release is in all lines at once, a later one in its own line."""
        end = self.now_ms + ms
        while (due_ms := min(self._dues(), default=end + 1)) <= end:
            self.now_ms = max(self.now_ms, due_ms)
            waiting = [
                t for line in self.lines.values() for t in line.things.values()
                if t.state == b"delayed" and t.due_ms <= self.now_ms
            ]  # fmt: skip
            for thing in sorted(waiting, key=lambda t: (t.due_ms, t.id)):
                if not thing.place:
                    self._release(thing)
        self.now_ms = end

    def _dues(self) -> list[int]:
        return [
            t.due_ms for line in self.lines.values() for t in line.things.values()
            if t.state == b"delayed"
        ]  # fmt: skip

    def _release(self, thing: Thing) -> None:
        self.last += 1
        again = [thing]
        if not thing.marker:
            found = [line.things.get(thing.id) for line in self.lines.values()]
            again = [t for t in found if t is not None and not t.marker]
        if self.retained is not None and thing.id in self.retained and not thing.marker:
            again.append(self.retained[thing.id])
        for each in again:
            each.place = self.last
            each.marker = each.marker or self.last

    def crash(self) -> None:
        """Leases by connection end with the process, and count no attempt."""
        for line in self.lines.values():
            for thing in line.things.values():
                thing.is_leased = False

    def seen(self, name: str) -> list[tuple[int, bytes, bytes, int]]:
        """Return the view of an observer of this reader; done items have no attempts."""
        seen, there = self.lines[name].seen, self.lines[name].things
        if name == PARENT and self.retained is not None:
            done = [t for t in self.retained.values() if t.marker and t.id not in there]
            seen += [(t.marker, t.body, b"done", 0) for t in done]
        return sorted(seen)

    def begin(self, name: str, first: int) -> None:
        """Make a child that sees the markers from `first` on: the retained ones, or else those that
        some reader still has."""
        line = Line()
        found = [t for line in self.lines.values() for t in line.things.values()]
        if self.retained is not None:
            found = [t for t in found if t.id in self.retained and not t.marker]
            found += [t for t in self.retained.values() if t.marker]
        for thing in found:
            if thing.marker >= first or not thing.marker:
                line.things[thing.id] = Thing(
                    thing.id, thing.body, thing.marker, thing.marker,
                    0 if thing.marker else thing.due_ms,
                )  # fmt: skip
        self.lines[name] = line


class ReadersMachine(RuleBasedStateMachine):
    """A server with one queue that has children; each reader has a client of its own."""

    @initialize(
        memory=st.sampled_from(["64MiB", "1"]), each=st.sampled_from([1, 1, 5, 30]),
        retains=st.booleans(),
    )  # fmt: skip
    def begin(self, memory: str, each: int, retains: bool) -> None:
        self.stage = ServerHarness()
        self.looks_each = each
        self.steps = 0
        self.stage.set_queue(max_memory=memory, retain="forever" if retains else "none")
        self.world = World(now_ms=self.stage.now_ms, retained={} if retains else None)
        self.count = 0
        self.stage.say("p", b"set orders 0 0 5", b"first")
        self.world.put(b"first", [PARENT], 0)
        self.stage.client("p").take()

    # -- what clients do --------------------------------------------------------------------

    def _say(self, name: str, *lines: bytes) -> bytes:
        return self.stage.say(name.replace("+", "-"), *lines)

    def _line(self, name: str) -> Line:
        """The model of it; naming a child makes it."""
        if name not in self.world.lines:
            self.world.lines[name] = Line()
        return self.world.lines[name]

    @rule(delay=st.sampled_from([0, 0, 0, 300, 1000]), size=st.sampled_from([0, 1, 30]))
    def put(self, delay: int, size: int) -> None:
        self.count += 1
        body = b"%d" % self.count + b"x" * size
        key = b"orders/delay=%dms" % delay if delay else b"orders"
        assert self._say("p", b"set %b 0 0 %d" % (key, len(body)), body) == b"STORED\r\n"
        self.world.put(body, [*self.world.lines], delay)

    @rule(name=CHILD, delay=st.sampled_from([0, 0, 500]))
    def put_for_one(self, name: str, delay: int) -> None:
        self.count += 1
        body = b"own %d" % self.count
        key = name.encode() + (b"/delay=%dms" % delay if delay else b"")
        assert self._say("p", b"set %b 0 0 %d" % (key, len(body)), body) == b"STORED\r\n"
        self._line(name)
        self.world.put(body, [name], delay)

    @rule(name=CHILD)
    def mention(self, name: str) -> None:
        line = self._line(name)
        said = self._say("p", b"get %b/peek" % name.encode())
        if line.leased is None:
            assert (said == b"END\r\n") == (not line.ready), said

    @rule(name=CHILD, back=st.integers(0, 8))
    def mention_from(self, name: str, back: int) -> None:
        if name in self.world.lines:
            return
        first = max(self.world.last - back, 0)
        self.world.begin(name, first)
        self._say("p", b"get %b/from=%d/peek" % (name.encode(), first))

    @rule(name=READER)
    def open(self, name: str) -> None:
        line = self._line(name)
        if line.leased is not None:
            return
        said = self._say(name, b"get %b/open" % name.encode())
        if not line.ready:
            assert said == b"END\r\n", said
            return
        first = line.ready[0]
        assert b"\r\n%b\r\nEND" % first.body in said, (said, first)
        first.is_leased = True

    @rule(name=READER)
    def close(self, name: str) -> None:
        line = self.world.lines.get(name, Line())
        leased = line.leased
        if leased is not None:
            assert self._say(name, b"get %b/close" % name.encode()) == b"END\r\n"
            del line.things[leased.id]

    @rule(name=READER, how=st.sampled_from(["abort", "defer", "abort/dead", "defer/delay=700ms"]))
    def give_back(self, name: str, how: str) -> None:
        line = self.world.lines.get(name, Line())
        leased = line.leased
        if leased is None:
            return
        assert self._say(name, b"get %b/%b" % (name.encode(), how.encode())) == b"END\r\n"
        leased.is_leased = False
        leased.attempts += "abort" in how
        leased.is_dead = "dead" in how
        if "delay" in how:
            leased.place, leased.due_ms = 0, self.world.now_ms + 700

    @rule(name=READER)
    def hang_up(self, name: str) -> None:
        line = self.world.lines.get(name, Line())
        leased = line.leased
        if leased is not None:
            self.stage.hang_up(name.replace("+", "-"))
            leased.is_leased = False
            leased.attempts += 1

    @rule(name=READER)
    def flush(self, name: str) -> None:
        if name not in self.world.lines:
            return
        assert self._say("p", b"flush %b" % name.encode()) == b"END\r\n"
        line = self._line(name)
        line.things = {i: t for i, t in line.things.items() if t.is_leased or t.is_dead}

    @rule(name=CHILD, back=st.integers(0, 6))
    def upto(self, name: str, back: int) -> None:
        if name not in self.world.lines:
            return
        marker = max(self.world.last - back, 1)
        line = self._line(name)
        request = b"delete %b/upto=%d" % (name.encode(), marker)
        assert self._say("p", request) == b"DELETED\r\n"
        leased = line.leased
        line.things = {
            i: t for i, t in line.things.items()
            if t.is_dead or t.state == b"delayed" or t.marker > marker
        }  # fmt: skip
        if leased is not None and leased.id not in line.things:
            said = self._say(name, b"get %b/close" % name.encode())
            assert said.startswith(b"CLIENT_ERROR lease expired"), said

    @rule(name=CHILD)
    def delete_child(self, name: str) -> None:
        if name in self.world.lines:
            assert self._say("p", b"delete %b" % name.encode()) == b"DELETED\r\n"
            del self.world.lines[name]

    # -- what time and the machine do -------------------------------------------------------

    @rule(ms=st.sampled_from([1, 200, 500, 1000]))
    def pass_time(self, ms: int) -> None:
        self.stage.pass_time(ms)
        self.world.pass_time(ms)

    @rule(how=st.sampled_from(["restart", "kill", "cut_power"]))
    def come_back(self, how: str) -> None:
        getattr(self.stage, how)()
        self.world.crash()

    @rule(count=st.integers(1, 3), name=READER)
    def lose_what_no_sync_covered(self, count: int, name: str) -> None:
        """Puts, and an open with its close, that were never acknowledged."""
        before = copy.deepcopy(self.world)
        self.stage.hold_syncs()
        for _ in range(count):
            self._say("q", b"set orders 0 0 4", b"lost")
        if name in self.world.lines and self.world.lines[name].leased is None:
            self._say("z", b"get %b" % name.encode())
        for client in self.stage.clients.values():
            client.take()
        self.stage.cut_power()
        self.world = before
        self.world.crash()

    @precondition(lambda self: self.world.last > 1)
    @rule()
    def take_a_snapshot(self) -> None:
        log = self.stage.queue(PARENT).log
        assert isinstance(log, JournalLog)
        if log.journal.commit.lsn_written not in log.store.maintenance.snapshots:
            tidy(self.stage, log)

    # -- what everybody sees ----------------------------------------------------------------

    @invariant()
    def everything_is_as_the_model(self) -> None:
        self.steps += 1
        if self.steps % self.looks_each == 0:
            self.every_reader_is_as_the_model()
            self.every_segment_counts_what_somebody_needs()

    def teardown(self) -> None:
        if hasattr(self, "world") and not has_failed():
            self.every_reader_is_as_the_model()
            self.every_segment_counts_what_somebody_needs()
            end(self.stage)

    def every_reader_is_as_the_model(self) -> None:
        for name, line in self.world.lines.items():
            assert self._seen_by_observer(name) == self.world.seen(name), name
            reader = self.stage.queue(name).reader
            assert reader.ready.count == len(line.ready), name
            assert reader.delays.count == sum(t.state == b"delayed" for t in line.things.values())

    def every_segment_counts_what_somebody_needs(self) -> None:
        queue = self.stage.queue(PARENT)
        assert isinstance(queue.log, JournalLog)
        retained = queue.needed_now()
        needed = {t.id for line in self.world.lines.values() for t in line.things.values()}
        assert set(retained) == needed
        for segment in queue.log.journal.segments:
            there = retained.count_between(segment.item_first, segment.item_last)
            assert segment.live == (there if segment.item_first else 0), segment

    def _seen_by_observer(self, name: str) -> list[tuple[int, bytes, bytes, int]]:
        """All of it; an answer may hold less than it was asked for, and the next goes on."""
        seen, after = list[tuple[int, bytes, bytes, int]](), 0
        while True:
            request = b"gets %b/peek/after=%d/n=1000/full" % (name.encode(), after)
            more = self._seen(self._say("eye", request))
            if not more:
                return seen
            seen += more
            after = more[-1][0]

    @staticmethod
    def _seen(answer: bytes) -> list[tuple[int, bytes, bytes, int]]:
        found, at = [], 0
        while answer[at:] != b"END\r\n":
            match = _VALUE.match(answer, at)
            assert match is not None and match[2], answer[at : at + 100]
            size = int(match[1])
            body = answer[match.end() : match.end() + size]
            found.append((int(match[2]), body, match[4], int(match[3])))
            at = match.end() + size + 2
        return found


@pytest.mark.slow
def test_every_reader_has_what_is_its_own() -> None:
    run_state_machine_as_test(
        ReadersMachine,
        settings=settings(
            max_examples=share_of(40), stateful_step_count=40, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )  # fmt: skip


@pytest.mark.soak
def test_every_reader_has_what_is_its_own_for_long(soak: Soak) -> None:
    run_for_long(ReadersMachine, soak)
