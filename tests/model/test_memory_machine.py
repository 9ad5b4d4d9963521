"""A queue with next to no memory does what one with endless memory does, item by item.

Both have real journals with tiny segments on memory disks. An item that has to be read back comes
at a random later moment; snapshots are written, segments rewritten and removed, processes killed in
between.

Promise memory: random histories on little memory against endless memory, with late reads, crashes,
    flushes, expiry; `python -m bench backlog`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from journal.format.key import text_of
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.subscription.subscription import ABORTED, DEFERRED, Subscription
from kestrelpy.core.subscription.where import Where
from tests.support.disk_harness import NAME, WALL_MS, DiskHarness
from tests.support.end_of_life import end_life
from tests.support.machines import has_failed, run, run_for_long
from tests.support.soak import Soak

WHO = st.sampled_from(["anna", "bert"])
NTH = st.integers(0, 9)
KEY = st.sampled_from([b"", text_of(b"A"), text_of(b"A") + text_of(b"B"), text_of(b"B")])


LATER = st.sampled_from([None, None, None, Delay(10), Delay(50), Delay(WALL_MS + 30, True)])


class MemoryMachine(RuleBasedStateMachine):
    """The same commands to both."""

    @initialize(
        memory_bytes=st.sampled_from([0, 400, 1500, 3000]),
        max_attempts=st.sampled_from([None, 2]),
        max_items=st.sampled_from([None, None, 12]),
        lease_ms=st.sampled_from([None, 50]),
        piece=st.sampled_from([128, 512, 1 << 18]),
        matches_any=st.booleans(),
    )
    def begin(
        self, memory_bytes: int, max_attempts: int | None, max_items: int | None,
        lease_ms: int | None, piece: int, matches_any: bool,
    ) -> None:  # fmt: skip
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr("journal.snapshot.cadence.RECORDS_MAX", 20)
        self.patch.setattr("journal.read.readahead.PIECE_BYTES", piece)
        self.patch.setattr("journal.read.seek.PIECE_BYTES", piece)
        self.patch.setattr("journal.read.lookup.PIECE_BYTES", piece)
        self.patch.setattr("journal.read.lookup.PIECE_BYTES_OF_ONE", piece)
        self.patch.setattr("journal.read.lookup.NEAR_BYTES", piece)
        self.patch.setattr("journal.read.lookup.NEAR_ITEMS", 3)
        self.patch.setattr("kestrelpy.core.subscription.ready_items._SLACK_BYTES", 200)
        self.patch.setattr("kestrelpy.core.index.memory_budget.FREE_BYTES", 0)
        self.patch.setattr("kestrelpy.core.index.memory_budget.GRAIN_BYTES", 500)
        self.patch.setattr("kestrelpy.core.subscription.ready_items.REFILL_ITEMS", 3)
        self.patch.setattr("kestrelpy.core.subscription.subscription.REFILL_ITEMS", 3)
        self.patch.setattr("kestrelpy.core.index.dead_letters.MEMORY_BYTES_MAX", 0)
        policy = Policy(
            lease_ms=lease_ms, max_attempts=max_attempts, max_items=max_items,
            discard_old_when_full=True, keys=KeySettings(matches_any=matches_any),
        )  # fmt: skip
        # What has expired on disk counts until it is read, and has its place on all its values.
        self.expiring = max_items is None and not matches_any
        self.endless = DiskHarness(policy)
        self.small = DiskHarness(replace(policy, max_memory_bytes=memory_bytes))
        self.serial = 0
        # By item: bytes of its body, when it expires, its key.
        self.puts: dict[int, tuple[int, int, bytes]] = {}
        self.held: list[tuple[Lease, Lease]] = []

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            try:
                if not has_failed():
                    self.everything_comes_in_the_same_sequence()
                    for life in self.harnesses:
                        end_life(life)
            finally:
                self.patch.undo()
                for life in self.harnesses:
                    life.background.forget()

    @property
    def harnesses(self) -> tuple[DiskHarness, DiskHarness]:
        return self.endless, self.small

    @rule(
        sizes=st.lists(st.sampled_from([0, 10, 200, 1200]), min_size=1, max_size=6),
        expires_in_ms=st.sampled_from([0, 0, 0, 20, 100]),
        later=LATER,
        key=KEY,
    )
    def put(self, sizes: list[int], expires_in_ms: int, later: Delay | None, key: bytes) -> None:
        for size in sizes:
            self.serial += 1
            body = b"%d" % self.serial + b"." * size
            is_expiring = expires_in_ms and self.expiring
            expires_ms = self.small.unix_ms + expires_in_ms if is_expiring else 0
            delay = later if not expires_ms else None
            one, other = (life.put(body, expires_ms, delay, key) for life in self.harnesses)
            assert one == other
            if one:
                self.puts[self.endless.jobs.last_number] = len(body), expires_ms, key

    @rule(
        who=WHO,
        dead=st.sampled_from([False, False, False, True]),
        count=st.integers(1, 5),
        lease_ms=st.sampled_from([0, 0, 40, 500]),
    )
    def open(self, who: str, dead: bool, count: int, lease_ms: int) -> None:
        by_token_ms = 0 if dead else lease_ms
        for _ in range(count):
            one, other = (life.open(who, dead, by_token_ms) for life in self.harnesses)
            assert (one is None) == (other is None), (one, other)
            if one is not None and other is not None:
                for attribute in (
                    "id", "marker", "body", "flags", "stored_ms", "expires_ms", "key",
                ):  # fmt: skip
                    assert getattr(one.item, attribute) == getattr(other.item, attribute)
                assert one.attempts == other.attempts
                self.held.append((one, other))
                for life, lease in zip(self.harnesses, (one, other), strict=True):
                    life.reader.ready_items.said(lease)

    @rule(dead=st.booleans())
    def peek(self, dead: bool) -> None:
        assert self.endless.peek(dead) == self.small.peek(dead)

    @rule(
        nths=st.lists(NTH, min_size=1, max_size=6),
        how=st.sampled_from(["close", "abort", "defer", "bury"]),
        later=LATER,
    )
    def end(self, nths: list[int], how: str, later: Delay | None) -> None:
        for nth in nths:
            if not self.held:
                return
            held = self.held.pop(nth % len(self.held))
            for life, lease in zip(self.harnesses, held, strict=True):
                if how == "close":
                    life.reader.confirm(lease, life.now_ms)
                elif how == "bury":
                    life.reader.dead_letter(lease, life.now_ms, b"why")
                else:
                    reason = ABORTED if how == "abort" else DEFERRED
                    life.reader.nack(lease, life.now_ms, reason, later)

    @rule(nths=st.lists(NTH, min_size=1, max_size=3), lease_ms=st.sampled_from([10, 100]))
    def renew(self, nths: list[int], lease_ms: int) -> None:
        for nth in nths:
            if self.held:
                for life, lease in zip(
                    self.harnesses, self.held[nth % len(self.held)], strict=True
                ):
                    life.reader.renew(lease, lease_ms, life.now_ms)

    @rule(who=WHO)
    def hang_up(self, who: str) -> None:
        for life in self.harnesses:
            life.broker.hang_up(life.who(who), life.now_ms)
        self.forget_ended()

    @rule(ms=st.sampled_from([1, 20, 60]))
    def pass_time(self, ms: int) -> None:
        for life in self.harnesses:
            life.pass_time(ms)
        self.forget_ended()

    @rule()
    def flush(self) -> None:
        if self.serial % 3 == 0:
            for life in self.harnesses:
                life.jobs.flush(life.now_ms)

    @rule(body=st.binary(max_size=3))
    def add(self, body: bytes) -> None:
        parked = any(life.reader.ready.blocked for life in self.harnesses)
        if not parked and self.endless.peek() is None and self.small.peek() is None:
            one, other = (life.add(body) for life in self.harnesses)
            assert (one > 0) == (other > 0)
            if one > 0:
                self.puts[self.endless.jobs.last_number] = len(body), 0, b""

    @rule(paused=st.sampled_from([False, False, True]))
    def pause(self, paused: bool) -> None:
        for life in self.harnesses:
            Admin(life.jobs).pause(paused, life.now_ms)

    @rule(nths=st.lists(NTH, min_size=1, max_size=4), dead=st.sampled_from([False, False, True]))
    def remove(self, nths: list[int], dead: bool) -> None:
        """Of the same items, whoever of the two has them in memory."""
        for nth in nths:
            reader = self.endless.reader
            ids = [*reader.dead.deaths] if dead else [*reader.live]
            id_ = ids[nth % len(ids)] if ids else 1
            if dead:
                one, other = (Admin(life.jobs).purge(id_, life.now_ms) for life in self.harnesses)
                assert (one is None) == (other is None)
            elif not 0 < self.puts.get(id_, (0, 0, b""))[1] <= self.small.unix_ms:
                assert self.cancelled(self.endless, id_) == self.cancelled(self.small, id_)

    def cancelled(self, life: DiskHarness, id_: int) -> bool:
        where = life.reader.where(id_)
        assert where is not Where.LOST
        if where in (Where.LEASED, Where.DEAD, Where.GONE):
            return False
        if where is Where.DELAYED and id_ % 2:
            assert Admin(life.jobs).retry(id_, life.now_ms)
            return True
        size, _, key = self.puts[id_]
        Admin(life.jobs).cancel(id_, size, life.now_ms, key)
        return True

    @rule()
    def commit(self) -> None:
        for life in self.harnesses:
            life.commit()

    @rule(nths=st.lists(NTH, max_size=5))
    def something_comes_back(self, nths: list[int]) -> None:
        for nth in nths:
            self.endless.do_some(nth)
            self.small.do_some(nth)

    @rule()
    def do_all(self) -> None:
        for life in self.harnesses:
            life.commit()
            life.do_all()

    @rule(power=st.booleans(), seed=NTH)
    def end_of_a_process(self, power: bool, seed: int) -> None:
        for life in self.harnesses:
            life.commit()
        leased = [one for one, _ in self.held if one.by_token]
        for life in self.harnesses:
            life.cut_power(seed) if power else life.kill()
            assert not life.damages
            found = [life.reader.leases.by_token(lease.token) for lease in leased]
            assert [lease.item.id for lease in life.reader.leases if lease.by_token] == [
                lease.item.id for lease in sorted(leased, key=by_deadline)
            ]
            for lease, again in zip(leased, found, strict=True):
                assert again is not None
                assert (again.item.id, again.attempts) == (lease.item.id, lease.attempts)
                assert again.item.size == len(lease.item.body) or not lease.item.is_whole
                assert again.deadline_ms == lease.deadline_ms
        self.held = list(
            zip(*([life.reader.leases.by_token(lease.token) for lease in leased]
            for life in self.harnesses), strict=True)
        )  # fmt: skip

    def forget_ended(self) -> None:
        self.held = [pair for pair in self.held if pair[0] in pair[0].holder.leases]
        assert all(other in other.holder.leases for _, other in self.held)

    def everything_comes_in_the_same_sequence(self) -> None:
        self.pause(False)
        self.forget_ended()
        self.end([0] * len(self.held), "close", None)
        self.pass_time(1000)
        assert self.endless.take_all() == self.small.take_all()
        for life in self.harnesses:
            ready = life.reader.ready
            assert (ready.count, ready.bytes, ready.resident_bytes) == (0, 0, 0)
            assert not life.damages

    @invariant()
    def what_is_counted_is_there(self) -> None:
        if hasattr(self, "small"):
            for life in self.harnesses:
                check(life.reader)


def by_deadline(lease: Lease) -> tuple[int, int]:
    return lease.deadline_ms or 0, lease.item.id


def check(reader: Subscription) -> None:
    """Check that the figures of the ready list are true."""
    ready = reader.ready
    items = list(ready)
    assert len(items) == ready.resident
    assert len({i.id for i in items}) == len(items), "no item is there twice"
    assert all(i.is_whole for i in items)
    assert sum(len(i.body) for i in items) == ready.resident_bytes
    assert sum(len(lease.item.body) for lease in reader.leases) == reader.leased_bytes
    places = [i.id for i in items if i.id not in reader.out_of_order]
    assert all(i < ready.frontier for i in places), "no item in memory is after the frontier"
    there = {i for i in reader.live if i not in reader.leases and i not in reader.dead.deaths}
    delayed = set(reader.delays.ids)
    assert delayed <= set(reader.out_of_order)
    entries = reader.delays.entries(ClockOffset())
    assert sum(entry.body_bytes for entry in entries) == reader.delays.bytes
    there -= delayed
    disk_refs = {i for _, i, _ in ready.disk_refs}
    beyond = {i for i in there - set(reader.out_of_order) if i >= ready.frontier}
    parked, whole = set(reader.key_gate.keys.blocked), reader.key_gate.whole
    here = there - beyond - disk_refs - parked
    assert {i.id for i in items} == here, "what is before it is in memory"
    assert ready.blocked == len(parked)
    assert set(whole) <= parked <= set(reader.out_of_order) - disk_refs
    assert sum(i.size for i in whole.values()) == reader.key_gate.whole_bytes
    assert ready.disk_refs.count == len(disk_refs)
    apart = set(reader.out_of_order)
    assert disk_refs <= apart <= there | delayed, "what stands apart is neither leased nor dead"
    assert ready.beyond == len(beyond)
    assert (ready.frontier < 1 << 62) == bool(beyond)
    assert set(reader.watch.watched) <= {i.id for i in items} | set(whole) | {
        lease.item.id for lease in reader.leases
    }
    if not reader.live:
        assert reader.live_bytes == 0
    assert reader.residency.allowed >= 0


def test_a_rule_that_fails_is_reported_and_not_what_is_missing_after_it() -> None:
    machine = MemoryMachine()
    machine.begin(400, None, None, None, 512, False)
    with pytest.raises(AssertionError, match="the start has failed"):
        try:
            del machine.small.broker.queues[NAME]
            raise AssertionError("the start has failed")
        finally:
            machine.teardown()


@pytest.mark.slow
def test_little_memory_changes_nothing() -> None:
    run(MemoryMachine, 300)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(MemoryMachine, soak)
