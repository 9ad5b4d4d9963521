"""Each id is stored once in its window, each scope remembers its newest epoch, and versions have no
gaps, whatever crashes.

Producers send with ids, scopes and versions at random, at the edges of the windows; consumers take
the items; snapshots are written and chunks merged, segments removed; processes end or are killed,
the power is cut. The model is the spec. A power cut keeps a beginning of the puts that were not
answered, of any length, so from then on the model is a set of possibilities, until answers tell.

Promise id: random histories against a model with kills, power cuts before the sync, snapshots,
    merged and forgotten chunks; a power cut at any verb of a snapshot and a merge; idempotent
    producers under kill of the real process; a hundred racing connections; transcripts.
Promise: version.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from journal.snapshot import dedupe_merge as merging
from kestrelpy.core.log.log import JournalLog
from tests.support.end_of_life import end
from tests.support.long_tests import share_of
from tests.support.machines import has_failed
from tests.support.tidying import take_snapshot
from tests.support.transfer_harness import TransferHarness

WINDOW_MS = 60_000
WORLDS_MAX = 8  # a further power cut makes up to five of each that may be true
SCOPE_WINDOW_MS = 90_000
IDS = st.sampled_from([b"", b"a", b"b", b"c"])
SCOPES = st.sampled_from([b"", b"", b"s", b"t"])
KEYS = st.sampled_from([b"", b"K", b"L"])
VERBS = st.sampled_from(["set", "add", "cas", "replace", "expect"])
STEPS = st.sampled_from([1, 1000, 30_000, WINDOW_MS - 1, WINDOW_MS, SCOPE_WINDOW_MS - 1])


@dataclass(frozen=True)
class Ask:
    """A request of a producer."""

    verb: str
    id: bytes
    scope: bytes
    epoch: int
    key: bytes
    version: int

    @property
    def line(self) -> bytes:
        verb = b"set" if self.verb == "expect" else self.verb.encode()
        target = b"jobs"
        if self.id:
            target += b"/id=" + self.id
            if self.scope:
                target += b"/scope=%b/epoch=%d" % (self.scope, self.epoch)
        if self.key:
            target += b"/key=" + self.key
        if self.verb == "expect":
            target += b"/expect=%d" % self.version
        return b"%b %b 0 0 1" % (verb, target) + (
            b" %d" % self.version if self.verb == "cas" else b""
        )


ASKS = st.builds(Ask, VERBS, IDS, SCOPES, st.integers(0, 2), KEYS, st.integers(0, 3)).filter(
    lambda ask: bool(ask.key)
    or ask.verb == "set"
    or (ask.verb == "add" and bool(ask.id))
)


@dataclass
class Known:
    """The ids, scopes and versions that the queue remembers according to the spec."""

    ids: dict[bytes, int] = field(default_factory=dict)
    scopes: dict[bytes, tuple[int, int, set[bytes]]] = field(default_factory=dict)
    versions: dict[bytes, tuple[int, int]] = field(default_factory=dict)

    def answer(self, ask: Ask, now_ms: int) -> bytes:
        """Return the answer to this request, and remember it if it is stored."""
        if ask.id and self._is_seen(ask, now_ms):
            return b"NOT_STORED\r\n" if ask.verb == "add" else b"STORED\r\n"
        version, written_ms = self.versions.get(ask.key, (0, 0))
        if now_ms - written_ms >= WINDOW_MS:
            version = 0
        if ask.key and not self._is_right(ask, version):
            if ask.verb != "cas":
                return b"NOT_STORED\r\n"
            return b"EXISTS\r\n" if version else b"NOT_FOUND\r\n"
        if ask.key:
            self.versions[ask.key] = (version + 1, now_ms)
        if ask.id and not ask.scope:
            self.ids[ask.id] = now_ms
        elif ask.id:
            epoch, used_ms, seen = self.scopes.get(ask.scope, (-1, 0, set()))
            is_same = epoch == ask.epoch and now_ms - used_ms < SCOPE_WINDOW_MS
            self.scopes[ask.scope] = (
                ask.epoch, now_ms, (seen if is_same else set()) | {ask.id}
            )  # fmt: skip
        return b"STORED\r\n"

    def _is_seen(self, ask: Ask, now_ms: int) -> bool:
        if not ask.scope:
            return ask.id in self.ids and now_ms - self.ids[ask.id] < WINDOW_MS
        epoch, used_ms, seen = self.scopes.get(ask.scope, (-1, 0, set()))
        if epoch < 0 or now_ms - used_ms >= SCOPE_WINDOW_MS:
            return False
        return ask.epoch < epoch or (ask.epoch == epoch and ask.id in seen)

    def _is_right(self, ask: Ask, version: int) -> bool:
        if ask.verb == "add":
            return version == 0
        if ask.verb == "replace":
            return version > 0
        return ask.verb == "set" or version == ask.version


def differing(worlds: list[Known]) -> list[Known]:
    """Return the possibilities without repetitions."""
    return [world for at, world in enumerate(worlds) if world not in worlds[:at]]


class OnceMachine(RuleBasedStateMachine):
    """One queue."""

    def __init__(self) -> None:
        super().__init__()
        self.town = TransferHarness()
        self.town.set_queue(
            "jobs", dedupe_window=f"{WINDOW_MS}ms", scope_window=f"{SCOPE_WINDOW_MS}ms"
        )
        self.worlds = [Known()]  # one of these is true

    def answered(self, ask: Ask, body: bytes, answer: bytes) -> None:
        left, told = [], set()
        for world in self.worlds:
            before = deepcopy(world)
            expected = world.answer(ask, self.town.unix_ms)
            told.add(expected)
            if expected == answer:
                left.append(world)
        assert left, f"{ask.line!r} was answered {answer!r}, not {told}; before: {before}"
        self.worlds = differing(left)

    @rule(ask=ASKS)
    def put(self, ask: Ask) -> None:
        self.answered(ask, b"x", self.town.say("producer", ask.line, b"x"))

    @rule(ask=ASKS, times=st.integers(1, 3))
    def repeat(self, ask: Ask, times: int) -> None:
        for _ in range(times + 1):
            self.put(ask)

    @rule(ms=STEPS)
    def wait(self, ms: int) -> None:
        self.town.pass_time(ms)

    @rule()
    def consume(self) -> None:
        self.town.say("consumer", b"get jobs")

    @rule()
    def fill(self) -> None:
        """Others store so much that segments are sealed, and it is consumed."""
        for _ in range(4):
            self.town.say("other", b"set jobs 0 0 30000", b"x" * 30000)
        for _ in range(4):
            self.town.say("consumer", b"get jobs")
        self.town.segments("jobs")

    @rule(merges=st.booleans())
    def snapshot(self, merges: bool) -> None:
        queue = self.town.broker.queues.get(b"jobs")
        log = queue.log if queue is not None else None
        if not isinstance(log, JournalLog) or log.journal.active is None:
            return
        maintenance = log.store.maintenance
        job = take_snapshot(self.town, log)
        merge = maintenance.begin_merge(job, lambda: None) if merges else None
        if merge is not None:
            for path in maintenance.finish_merge(merge, merge.run(self.town.disk)):
                self.town.disk.remove(path)

    @rule(way=st.sampled_from(["restart", "kill", "cut"]), seed=st.integers(0, 9999))
    def come_back(self, way: str, seed: int) -> None:
        if way == "restart":
            self.town.restart()
        else:
            self.die(way, seed)

    def die(self, way: str, seed: int) -> None:
        if way == "kill":
            self.town.come_back(self.town.disk.kill_clone(), False)
        else:
            self.town.come_back(self.town.disk.crash_clone(Random(seed), "random"), True)

    @precondition(lambda self: len(self.worlds) <= WORLDS_MAX)
    @rule(asks=st.lists(ASKS, min_size=1, max_size=4), seed=st.integers(0, 9999))
    def power_fails_before_the_sync(self, asks: list[Ask], seed: int) -> None:
        self.town.say("producer", b"set jobs 0 0 1", b"x")
        self.town.hold_syncs()
        worlds = deepcopy(self.worlds)
        for ask in asks:
            self.town.say("producer", ask.line, b"x")
            for world in self.worlds:
                world.answer(ask, self.town.unix_ms)
            worlds += deepcopy(self.worlds)
        self.die("cut", seed)
        self.town.go()
        self.worlds = differing(worlds)

    def teardown(self) -> None:
        if not has_failed():
            end(self.town)


@pytest.mark.slow
def test_stored_once_whatever_crashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_MERGED_FEWEST", 2)
    run_state_machine_as_test(
        OnceMachine,
        settings=settings(
            max_examples=share_of(80), stateful_step_count=25, deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )  # fmt: skip
