"""A queue against a small model written from the spec, through anything that can happen to it.

Times are multiples of ten, waits end at fives: so nothing that the spec leaves open (a lease and a
wait that end in the same millisecond) decides about the outcome.

Promise one-holder: random histories against a model.
Promise order: model, kill under load.
Promises: late-confirm, waiters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.index.waiters import Waiter, Want
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.errors import ClientError
from tests.model.queue_model import QueueModel, Thing, Wait
from tests.support.compiled import attributes_of
from tests.support.core_harness import NAME, CoreHarness, dead_as_fetched, standing
from tests.support.end_of_life import end_in_hand
from tests.support.machines import has_failed, run, run_for_long
from tests.support.soak import Soak

SNAPSHOTS_RETAINED = 12
LIMITS = st.fixed_dictionaries(
    {
        "lease_ms": st.sampled_from([None, 20, 30, 100, 1000]),
        "max_items": st.sampled_from([None, None, None, 0, 1, 3]),
        "max_bytes": st.sampled_from([None, None, None, 6, 15]),
        "discard_old_when_full": st.booleans(),
        "max_age_ms": st.sampled_from([None, None, 50, 300]),
        "max_leased": st.sampled_from([None, 1, 2]),
        "max_attempts": st.sampled_from([None, 1, 2, 3]),
        "retry_delay_ms": st.sampled_from([0, 0, 0, 20]),
        "retry_backoff": st.sampled_from([1, 2]),
        "retry_delay_max_ms": st.sampled_from([50, 1000]),
    }
)
CHANGING = [
    "lease_ms", "max_items", "max_bytes", "max_age_ms", "max_leased", "max_attempts",
    "retry_delay_ms",
]  # fmt: skip
WHO = st.sampled_from(["anna", "bert", "carl"])
NTH = st.integers(0, 9)
WANT = st.sampled_from([Want.OPEN, Want.OPEN, Want.TAKE, Want.PEEK])
DEAD = st.sampled_from([False, False, False, True])
LATER = st.sampled_from(
    [None, None, None, (20, False), (50, False), (0, False), (100, True), (20, True), (-10, True)]
)
BY_TOKEN_MS = st.sampled_from([0, 0, 20, 100, 1000])
KEY = st.sampled_from(["", "", "A", "A", "B", "A,B", "B,A", "B,C"])
KEYS = st.builds(KeySettings, matches_any=st.booleans(), unordered=st.booleans())
SHORT_MS = st.sampled_from([10, 20, 50, 100])
LONG_MS = st.sampled_from([10, 30, 100, 1000])

# Counters that have tests of their own.
NOT_COUNTED = {
    "closes_without_open", "confirmed", "dead", "gaps", "service_ms", "waiting_ms",
}  # fmt: skip


class QueueMachine(RuleBasedStateMachine):
    """The queue `jobs` and its model through many lives."""

    def __init__(self) -> None:
        super().__init__()
        self.serial = 0
        self.leases: dict[int, Lease] = {}  # by item, in the order in which they were granted
        self.waiters: dict[int, Waiter] = {}
        self.tokens: dict[int, int] = {}  # issued, and the record that reserved them
        self.snapshots: dict[int, tuple[dict[int, Thing], int, bool, int]] = {}

    @initialize(limits=LIMITS, keys=KEYS)
    def begin(self, limits: dict[str, Any], keys: KeySettings) -> None:
        self.q = CoreHarness(Policy(**limits, keys=keys))
        offset_ms = self.q.broker.clock.offset_ms
        self.model = QueueModel(Policy(**limits, keys=keys), 0, offset_ms, offset_ms)

    # -- storing ----------------------------------------------------------------------------

    @rule(
        sizes=st.lists(st.integers(0, 4), min_size=1, max_size=4),
        expires_in_ms=st.sampled_from([0, 0, 0, 10, 50, 200, -10]),
        only_if_empty=st.sampled_from([False, False, True]),
        later=LATER,
        key=KEY,
    )
    def put(
        self, sizes: list[int], expires_in_ms: int, only_if_empty: bool,
        later: tuple[int, bool] | None, key: str,
    ) -> None:  # fmt: skip
        for size in sizes:
            self.serial += 1
            body = b"%d%s" % (self.serial, b"." * size)
            expires_ms = self.q.unix_ms + expires_in_ms if expires_in_ms else 0
            delay = self.delay(later)
            if self.model.refuses(expires_ms, delay):
                self.model.exists = True
                if not only_if_empty or not (self.model.ready or self.model.leased):
                    self.be_refused(body, expires_ms, delay)
            elif only_if_empty:
                stored = self.q.add(body, expires_ms, delay)
                assert stored == self.model.add(body, expires_ms, delay)
            else:
                stored = self.q.put(body, expires_ms=expires_ms, delay=delay, key=key)
                assert stored == self.model.put(body, expires_ms, delay, key)
            self.compare_answers()

    def be_refused(self, body: bytes, expires_ms: int, delay: Delay | None) -> None:
        with pytest.raises(ClientError, match="before it is due"):
            self.q.put(body, expires_ms=expires_ms, delay=delay)

    def delay(self, later: tuple[int, bool] | None) -> Delay | None:
        if later is None:
            return None
        ms, is_date = later
        return Delay(self.model.unix_ms + ms, True) if is_date else Delay(ms)

    # -- fetching ---------------------------------------------------------------------------

    @rule(whos=st.lists(WHO, min_size=1, max_size=4), dead=DEAD, by_token_ms=BY_TOKEN_MS)
    def open(self, whos: list[str], dead: bool, by_token_ms: int) -> None:
        for who in whos:
            self.open_one(who, dead, by_token_ms)

    def open_one(self, who: str, dead: bool, by_token_ms: int) -> None:
        lease = self.q.may_open(who, dead, by_token_ms)
        thing = self.model.open(who, dead, by_token_ms) if self.model.exists else None
        assert (lease is None) == (thing is None), (lease, thing)
        if lease is not None and thing is not None:
            assert lease.item.body == thing.body, "the first in order"
            self.granted(lease, thing)

    @rule(who=WHO, dead=DEAD, only_look=st.booleans())
    def take(self, who: str, dead: bool, only_look: bool) -> None:
        if only_look:
            self.peek(dead)
            return
        body = self.q.take(who, dead)
        thing = self.model.take(who, dead) if self.model.exists else None
        assert body == (thing.body if thing is not None else None)

    def peek(self, dead: bool) -> None:
        thing = self.model.peek(dead)
        assert self.q.peek(dead) == (thing.body if thing is not None else None)

    @rule(
        waits=st.lists(st.tuples(WHO, WANT), min_size=1, max_size=4),
        dead=DEAD,
        wait_ms=st.sampled_from([25, 105, 1005]),
        by_token_ms=BY_TOKEN_MS,
    )
    def wait(
        self, waits: list[tuple[str, Want]], dead: bool, wait_ms: int, by_token_ms: int
    ) -> None:
        for who, want in waits:
            self.wait_as(who, want, dead, wait_ms, by_token_ms if want is Want.OPEN else 0)

    def wait_as(
        self, who: str, want: Want, dead: bool, wait_ms: int, by_token_ms: int
    ) -> None:
        """As the server does it: wait only if there is nothing to be had at once."""
        if want is Want.PEEK and self.model.peek(dead) is not None:
            self.peek(dead)
        elif want is not Want.PEEK and self.model.open(who, dead, by_token_ms) is not None:
            thing = next(t for t in self.model.leased if t.id not in self.leases)
            lease = self.q.may_open(who, dead, by_token_ms)
            assert lease is not None
            self.granted(lease, thing)
        else:
            self.serial += 1
            self.waiters[self.serial] = self.q.wait(who, wait_ms, want, dead, by_token_ms)
            self.waiters[self.serial].caller = self.serial
            due_ms = self.model.now_ms + wait_ms
            self.model.waits.append(Wait(self.serial, want, who, dead, due_ms, by_token_ms))

    def granted(self, lease: Lease, thing: Thing) -> None:
        assert lease.item.id == thing.id not in self.leases, "leased to one holder at a time"
        assert lease.attempts == thing.attempts
        assert lease.token not in self.tokens, "no token is issued twice"
        assert lease.token < self.q.reader.tokens_below, "reserved before it is issued"
        self.tokens[lease.token] = self.q.reader.tokens_lsn
        self.leases[thing.id] = lease

    # -- ending a delivery ------------------------------------------------------------------

    @precondition(lambda self: self.model.leased)
    @rule(
        nths=st.lists(NTH, min_size=1, max_size=3),
        how=st.sampled_from(["close", "abort", "abort", "defer", "why"]),
        later=LATER,
    )
    def end(self, nths: list[int], how: str, later: tuple[int, bool] | None) -> None:
        for nth in nths:
            if self.model.leased:
                self.end_one(nth, how, self.delay(later))
                self.compare_answers()

    def end_one(self, nth: int, how: str, delay: Delay | None) -> None:
        thing = self.model.leased[nth % len(self.model.leased)]
        self.end_lease(self.leases.pop(thing.id), thing, how, delay)

    def end_lease(
        self, lease: Lease, thing: Thing, how: str, delay: Delay | None = None
    ) -> None:
        if how == "close":
            self.q.close(lease)
            self.model.confirm(thing)
        else:
            if how == "why":
                self.q.bury(lease)
            else:
                self.q.reader.nack(lease, self.q.now_ms, how.encode(), delay)
            self.model.give_back(thing, how, delay)

    @precondition(lambda self: self.tokens and self.model.exists)
    @rule(nth=NTH, how=st.sampled_from(["close", "abort", "defer", "why", "touch"]))
    def use_a_token(self, nth: int, how: str) -> None:
        """Any that was ever issued: only one whose lease is not over does anything."""
        token = sorted(self.tokens)[-1 - nth % len(self.tokens)]
        lease = self.q.named(token)
        item = next((i for i, each in self.leases.items() if each.token == token), 0)
        thing = self.model.things[item] if item else None
        ended = thing is None or not thing.by_token or thing.deadline_ms <= self.model.now_ms
        assert (lease is None) == ended, "a stale token is never accepted, and a good one always"
        if lease is None or thing is None:
            return
        assert lease.item.id == item
        if how == "touch":
            self.q.touch(lease, 50)
            self.model.renew(thing, 50)
        else:
            self.end_lease(self.leases.pop(item), thing, how)
            self.compare_answers()

    @precondition(lambda self: self.model.leased)
    @rule(nth=NTH, lease_ms=LONG_MS)
    def touch(self, nth: int, lease_ms: int) -> None:
        thing = self.model.leased[nth % len(self.model.leased)]
        self.q.touch(self.leases[thing.id], lease_ms)
        self.model.renew(thing, lease_ms)

    @rule(who=WHO)
    def hang_up(self, who: str) -> None:
        self.tick()
        for number, waiter in list(self.waiters.items()):
            if waiter.holder is self.q.who(who):
                self.q.broker.give_up(waiter)
                del self.waiters[number]
        self.q.hang_up(who)
        opened = [i for i in self.leases if self.model.things[i].holder == who]
        for item in opened:
            del self.leases[item]
        self.model.hang_up(who, opened)
        self.pass_time(0)

    @precondition(lambda self: len(self.waiters) > 1)
    @rule(nth=NTH)
    def give_up(self, nth: int) -> None:
        self.tick()
        if not self.waiters:
            return
        number = sorted(self.waiters)[nth % len(self.waiters)]
        self.q.broker.give_up(self.waiters.pop(number))
        self.model.waits = [w for w in self.model.waits if w.number != number]
        self.model.serve()
        self.pass_time(0)

    # -- what an operator does --------------------------------------------------------------

    @precondition(lambda self: self.model.exists)
    @rule(paused=st.booleans())
    def pause(self, paused: bool) -> None:
        before = len(self.q.records)
        self.q.pause(paused)
        assert len(self.q.records) > before or paused == self.model.paused
        self.model.pause(paused)

    @precondition(lambda self: self.model.exists)
    @rule(nths=st.lists(NTH, min_size=1, max_size=3), dead=st.booleans())
    def remove(self, nths: list[int], dead: bool) -> None:
        """One of those that are there, or one that is not."""
        self.tick()
        for nth in nths:
            ids = [*self.model.things, self.model.next_id]
            id_ = ids[nth % len(ids)]
            if dead and nth % 2:
                assert self.q.redrive(id_) == self.model.redrive(id_)
                self.compare_answers()
            elif dead:
                assert self.q.purge(id_) == self.model.purge(id_)
            elif nth % 3:
                assert self.q.cancel(id_) == self.model.cancel(id_)
                self.pass_time(0)  # whoever waits for its key is served in the next turn
            else:
                lsn = Admin(self.q.queue).retry(id_, self.q.now_ms)
                assert (lsn is not None) == self.model.retry(id_)
                self.compare_answers()

    # -- the whole queue --------------------------------------------------------------------

    @precondition(lambda self: self.model.exists)
    @rule(whole=st.sampled_from([False, False, True]))
    def empty(self, whole: bool) -> None:
        (self.delete if whole else self.flush)()

    def flush(self) -> None:
        self.tick()
        self.q.flush()
        self.model.flush()

    def delete(self) -> None:
        assert self.q.delete() == self.model.exists
        if self.model.exists:
            self.leases.clear()
            self.tokens.clear()
            self.snapshots.clear()
        self.model.delete()

    @rule(limits=LIMITS, which=st.sets(st.sampled_from(CHANGING), min_size=1))
    def reload(self, limits: dict[str, Any], which: set[str]) -> None:
        changed = {name: value for name, value in limits.items() if name in which}
        self.q.reload(**changed)
        self.model.policy = replace(self.model.policy, **changed)
        self.model.serve()

    # -- time -------------------------------------------------------------------------------

    @rule(ms=st.one_of(SHORT_MS, LONG_MS))
    def pass_time(self, ms: int) -> None:
        self.q.pass_time(ms)
        self.model.unread = set()
        if self.model.exists:
            reader = self.q.reader
            self.model.unread = {*reader.ready.disk_refs.ids}.difference(reader.ends.ids)
        self.model.pass_time(ms)

    @rule()
    def tick(self) -> None:
        self.pass_time(0)
        self.compare_answers()
        due = self.q.broker.next_due()
        assert due is None or due > self.q.now_ms, "no busy loop"
        if self.model.exists:
            for lease in self.q.reader.leases:
                assert lease.deadline_ms is None or lease.deadline_ms > self.q.now_ms

    @rule(ms=SHORT_MS)
    def be_held_up(self, ms: int) -> None:
        """Time passes and no tick comes in it, be it that a wait would have ended."""
        ends = [w.due_ms for w in self.model.waits]
        if self.model.policy.keys.matches_any:
            return  # one that waits for its key and has expired is in the way of others by then
        if min(ends, default=1 << 60) > self.model.now_ms + ms:
            self.q.now_ms += ms
            self.model.now_ms += ms

    @rule(ms=st.sampled_from([-1000, -50, 20, 100, 1000]))
    def set_the_wall_clock(self, ms: int) -> None:
        self.tick()
        self.model.offset_ms += ms
        self.q.step_clock(ms)
        self.model.pass_time(0)

    # -- restarts ---------------------------------------------------------------------------

    @precondition(lambda self: self.model.exists)
    @rule(lost=st.sampled_from([0, 0, 1, 3, 8]))
    def restart(self, lost: int) -> None:
        """Killed (nothing is lost), or a power cut that loses the last steps."""
        self.tick()
        self.take_snapshot()
        lsns = sorted(self.snapshots)
        lsn = lsns[max(0, len(lsns) - 1 - lost)]
        things, next_id, paused, total = self.snapshots[lsn]
        self.q = self.q.restarted(self.q.records[:lsn])
        self.model.restart(things, next_id, paused, total)
        self.model.waits.clear()
        self.model.overdue.clear()
        self.leases = {lease.item.id: lease for lease in self.q.reader.leases}
        self.waiters.clear()
        assert {lease.token for lease in self.leases.values()} <= self.tokens.keys()
        # A token is shown when the record that reserved it is synced: these were shown to nobody.
        self.tokens = {t: reserved for t, reserved in self.tokens.items() if reserved <= lsn}
        self.snapshots = {n: s for n, s in self.snapshots.items() if n <= lsn}
        self.model.counts.clear()
        self.pass_time(0)
        self.model.counts["expired"] = self.q.reader.counters.expired

    def take_snapshot(self) -> None:
        """What there is now, unless it depends on which expired items were cleared away yet."""
        if self.model.exists and not any(map(self.model.is_expired, self.model.unlent)):
            things = {item: replace(thing) for item, thing in self.model.things.items()}
            model = self.model
            snapshot = (things, model.next_id, model.paused, model.total)
            self.snapshots[len(self.q.records)] = snapshot
            if len(self.snapshots) > SNAPSHOTS_RETAINED:
                del self.snapshots[min(self.snapshots)]

    # -- always -----------------------------------------------------------------------------

    @invariant()
    def the_queue_is_as_the_spec_says(self) -> None:
        self.waiters_are_answered_first_come_first_served()
        self.nothing_is_lost_and_nothing_invented()
        self.no_two_are_leased_for_one_key()
        self.each_item_is_leased_to_its_holder_until_its_deadline()
        self.attempts_are_exact_and_forgotten_with_their_item()
        self.counters_are_exact()
        self.what_is_due_is_asked_for_in_time()
        self.take_snapshot()

    def compare_answers(self) -> None:
        """Who waited was answered in the right order, with the right item, once."""
        while self.model.exists and self.q.read_back():
            pass
        self.forget_ended()
        woken = self.q.broker.take_to_resume()
        got = []
        of_the_dead = {number: waiter.dead for number, waiter in self.waiters.items()}
        for waiter in woken:
            number = waiter.caller
            assert isinstance(number, int)
            item = waiter.lease.item if waiter.lease is not None else waiter.item
            got.append((number, item.body if item is not None else None))
            assert self.waiters.pop(number) is waiter, "answered once, and only who waits"
        wanted = self.model.answers  # each line has its order; the spec sets none between the two
        for dead in (False, True):
            assert [a for a in got if of_the_dead[a[0]] is dead] == [
                a for a in wanted if of_the_dead[a[0]] is dead
            ]
        self.model.answers.clear()
        for waiter in woken:
            lease = waiter.lease
            if lease is not None and waiter.want is Want.OPEN and lease in lease.holder.leases:
                self.granted(lease, self.model.things[lease.item.id])

    def waiters_are_answered_first_come_first_served(self) -> None:
        self.compare_answers()
        assert set(self.waiters) == {w.number for w in self.model.waits}

    def forget_ended(self) -> None:
        held = {item: lease for item, lease in self.leases.items() if lease in lease.holder.leases}
        self.leases = held

    def nothing_is_lost_and_nothing_invented(self) -> None:
        model = self.model
        assert (NAME in self.q.broker.queues) == model.exists
        if not model.exists:
            return
        reader = self.q.reader
        assert reader.paused == model.paused
        stands = standing(reader)
        by_id = {item.id: item for _, item in stands}
        places = {t.id: (t.place, t.marker) for t in model.things.values()}
        stood = [(place, item.marker) for place, item in stands]
        assert stood == sorted(places[i] for i in by_id), "in order of place"
        assert list(reader.delays.ids) == sorted(t.id for t in model.delayed)
        assert reader.delays.bytes == sum(len(t.body) for t in model.delayed)
        assert self.q.queue.total_items == model.total
        ready, unlent = [t.id for t in model.ready], {t.id for t in model.unlent}
        assert set(ready) <= set(by_id) <= unlent, "expired ones may be there until a tick"
        assert all(by_id[i].body == model.things[i].body for i in ready)
        assert [item.id for item in dead_as_fetched(reader)] == [t.id for t in model.dead]
        deaths = {i: (d.attempts, d.reason.decode()) for i, d in reader.dead.deaths.items()}
        assert deaths == {t.id: (t.attempts, t.reason) for t in model.things.values() if t.died}
        assert self.q.queue.next_number == model.next_id
        counted = self.q.queue.checkpoint().live_items
        assert counted == len(stands) + len(model.leased) + len(model.dead + model.delayed)

    def no_two_are_leased_for_one_key(self) -> None:
        values = [v for t in self.model.leased if not t.died for v in self.model.values(t)]
        assert len(values) == len(set(values))

    def each_item_is_leased_to_its_holder_until_its_deadline(self) -> None:
        if self.model.exists:
            found = {
                lease.item.id: (lease.holder.name, lease.deadline_ms)
                for lease in self.q.reader.leases
            }
            assert found == {t.id: (t.holder, t.deadline_ms) for t in self.model.leased}
            assert set(found) == set(self.leases)
        held = {name: len(holder.leases) for name, holder in self.q.holders.items()}
        assert held == {
            name: sum(t.holder == name for t in self.model.leased) for name in self.q.holders
        }
        for name, holder in self.q.holders.items():
            assert len(holder.overdue) == self.model.overdue[name]

    def attempts_are_exact_and_forgotten_with_their_item(self) -> None:
        if self.model.exists:
            reader, things = self.q.reader, self.model.things
            alive = {i: t for i, t in things.items() if not t.died}
            expected = {i: t.attempts for i, t in alive.items() if t.attempts}
            gone = {i for i, t in alive.items() if not t.holder and self.model.is_expired(t)}
            assert {i: n for i, n in reader.attempts.items() if i not in gone} == {
                i: n for i, n in expected.items() if i not in gone
            }
            assert {i for i, _ in reader.attempts.items()} <= set(expected)
            assert set(reader.watch.watched) <= {i for i, t in alive.items() if t.expires_ms}

    def counters_are_exact(self) -> None:
        if self.model.exists:
            counters = self.q.reader.counters
            names = set(attributes_of(type(counters))) - NOT_COUNTED
            if any(self.model.is_expired(t) for t in self.model.unlent):
                names -= {"expired"}  # cleared away now or at the next tick
            found = {name: getattr(counters, name) for name in names}
            assert found == {name: self.model.counts[name] for name in names}

    def teardown(self) -> None:
        if hasattr(self, "q") and not has_failed():
            for waiter in self.waiters.values():
                self.q.broker.give_up(waiter)
            end_in_hand(self.q)

    def what_is_due_is_asked_for_in_time(self) -> None:
        due = self.model.next_due()
        asked = self.q.broker.next_due()
        assert due is None or (asked is not None and asked <= due), (asked, due)


@pytest.mark.slow
def test_a_queue_does_what_the_spec_says_whatever_happens() -> None:
    run(QueueMachine, 1000)


@pytest.mark.soak
def test_the_same_for_long(soak: Soak) -> None:
    run_for_long(QueueMachine, soak)
