"""One queue in a broker, without a disk: a test moves its time and reads its log as sentences.

    q = make_queue(max_attempts=3)
    q.put(b"first", b"second")
    lease = q.open("anna")
    q.abort(lease)
    assert q.ready == [b"first", b"second"]
    assert q.story == "put 1 first, put 2 second, returned 1 attempts 1 abort"

It stands for the core as the server drives it.
Real: the broker, the queue `jobs` and its log.
Replaced: the journal keeps its records in memory (`PendingJournal`), the clock is `now_ms`.

One rule: everything goes through the broker, as it does in the server; waiters are served and due
work is done by `broker.next_due` and `broker.tick` alone.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from journal.format.checkpoint import Checkpoint
from journal.format.describe import sentence
from journal.format.key import text_of
from journal.format.kinds import Kind
from journal.format.meta import said_of_put
from journal.format.record import Record
from journal.read.readahead import ReadAhead
from journal.store import LogStore, Sizes
from journal.write.writer import Journal
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index.dead_letters import DeadLetters
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.index.memory_budget import UNLIMITED
from kestrelpy.core.index.ready_list import Ready
from kestrelpy.core.index.waiters import Waiter, Want
from kestrelpy.core.item import Item
from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.admin import Admin
from kestrelpy.core.queue.queue import NOT_STORED, Queue
from kestrelpy.core.replay.replay import Replay
from kestrelpy.core.subscription.ready_items import item_of
from kestrelpy.core.subscription.subscription import ABORTED, DEFERRED, Subscription
from kestrelpy.core.subscription.where import Where
from kestrelpy.operations.modes import UP
from kestrelpy.operations.ports import Site
from kestrelpy.operations.queue_admin import QueueAdmin
from tests.support.compiled import attributes_of
from tests.support.journals import FOLDER, IDENTITY, check_times
from tests.support.memory_disk import MemoryDisk

NAME = b"jobs"
WALL_MS = 1_700_000_000_000  # the wall clock when the steady one shows 0


class PendingJournal:
    """A journal that writes nothing: its drafts stay pending, and are its `records`.

    It holds a real journal and does not subclass it, so that the compiled class works as well.
    """

    def __init__(self, queue: Queue, found: list[Record] | None = None) -> None:
        self._records: list[Record] = list(found or [])
        self._found = len(self._records)
        self.journal = Journal(
            MemoryDisk(), FOLDER, IDENTITY, Sizes(), queue.checkpoint, lsn_last=self._found
        )

    @property
    def records(self) -> list[Record]:
        """Return the records that were found and those that were appended since."""
        known = self._records
        fresh = self.journal._pending[len(known) - self._found :]
        check_times(fresh)
        for draft in fresh:
            kind, item, number, small, time_ms, meta, body, reader, _ = draft
            known.append(
                Record(
                    kind, item, number, small, time_ms, meta, body, reader, len(known) + 1, 1, 0, 0
                )
            )
        return known


class PendingReadAhead(ReadAhead):
    """Reads back from the records that a `PendingJournal` has, at once."""

    def __init__(self, pending: PendingJournal) -> None:
        self._pending = pending
        super().__init__(pending.journal)

    def take(self, item: int, most: int) -> list[Record]:
        puts = [r for r in self._pending.records if r.kind == Kind.PUT and r.item >= item]
        return puts[:most]

    def put_of(self, item: int) -> Record:
        return next(r for r in self._pending.records if r.kind == Kind.PUT and r.item == item)


class PendingStore(LogStore):
    """A store over a `PendingJournal`."""

    def __init__(self, pending: PendingJournal) -> None:
        super().__init__(pending.journal)
        self.pending = pending
        self.read_ahead = PendingReadAhead(pending)

    def another_read_ahead(self) -> ReadAhead:
        return PendingReadAhead(self.pending)


class CoreHarness:
    """The queue `jobs` in a broker of its own. `now_ms` is the steady clock."""

    def __init__(
        self, policy: Policy, now_ms: int = 0, unix_ms: int = WALL_MS, queues_max: int = 100
    ) -> None:
        self.policy = policy
        self.now_ms = now_ms
        self.holders: dict[str, Holder] = {}
        self.dirty: list[JournalLog] = []
        self.broker = Broker(
            lambda name, declared: self.policy_of(name), self._make_log,
            ClockOffset(unix_ms - now_ms), queues_max,
        )

    def policy_of(self, name: bytes) -> Policy:
        """The policy of a queue or a child; a test may have others by name."""
        return self.policy

    def _make_log(self, queue: Queue) -> Log:
        return JournalLog(
            PendingStore(PendingJournal(queue)), self.dirty, self.policy.sync_ms, queue.state
        )

    # -- what is there ----------------------------------------------------------------------

    @property
    def queue(self) -> Queue:
        return self.broker.queues[NAME]

    @property
    def reader(self) -> Subscription:
        return self.queue.reader

    @property
    def unix_ms(self) -> int:
        return self.now_ms + self.broker.clock.offset_ms

    @property
    def ready(self) -> list[bytes]:
        """The bodies that are ready, in the order in which they would be fetched."""
        return [item.body for _, item in standing(self.reader)]

    @property
    def dead(self) -> list[bytes]:
        """The bodies of dead letters that are not leased, in the order of fetching."""
        return [item.body for item in dead_as_fetched(self.reader)]

    @property
    def leased(self) -> list[bytes]:
        """The bodies of leased items, oldest item first."""
        return [lease.item.body for lease in sorted(self.reader.leases, key=by_place)]

    @property
    def records(self) -> list[Record]:
        log = self.queue.log
        assert isinstance(log, JournalLog)
        assert isinstance(log.store, PendingStore)
        return log.store.pending.records

    @property
    def story(self) -> str:
        """The logged records as sentences, without reservations of tokens."""
        return ", ".join(sentence(r) for r in self.records if r.kind != Kind.TOKENS)

    def who(self, name: str) -> Holder:
        if name not in self.holders:
            self.holders[name] = Holder(name)
        return self.holders[name]

    # -- what a client does -----------------------------------------------------------------

    def put(
        self, *bodies: bytes, expires_ms: int = 0, delay: Delay | None = None, key: str = ""
    ) -> bool:
        """Store each; return True if the last one was stored. `expires_ms` is wall clock, `key` as
        on the wire."""
        values = tuple(text_of(value.encode()) for value in key.split(",")) if key else ()
        lsn = NOT_STORED
        for body in bodies:
            queue = self.broker.queues.get(NAME) or self.broker.create(NAME, self.now_ms)
            named = queue.policy.keys.key_of(NAME, values, body)
            lsn = queue.put(body, 0, expires_ms, self.now_ms, named, delay=delay)
        return lsn != NOT_STORED

    def add(self, body: bytes, expires_ms: int = 0, delay: Delay | None = None) -> bool:
        queue = self.broker.queues.get(NAME) or self.broker.create(NAME, self.now_ms)
        return queue.add(body, 0, expires_ms, self.now_ms, delay=delay) != NOT_STORED

    def may_open(
        self, who: str = "anna", dead: bool = False, lease_ms: int = 0
    ) -> Lease | None:
        """Return the lease of a fetch without a wait; earlier waiters are served first."""
        queue = self.broker.queues.get(NAME)
        if queue is None or queue.reader.waiters.first(dead) is not None:
            return None
        lease = queue.reader.open(self.who(who), self.now_ms, dead, lease_ms)
        while lease is None and self.read_back():
            lease = queue.reader.open(self.who(who), self.now_ms, dead, lease_ms)
        return lease

    def read_back(self) -> bool:
        """Read back at once whatever is needed; return True if any item came."""
        moved = False
        for reader in self.broker.take_to_read():
            backlog, before = reader.read_ahead, unread(reader)
            assert isinstance(backlog, PendingReadAhead)
            if reader.dead.sought:
                reader.ready_items.revive(backlog.put_of(reader.dead.sought))
            if reader.ready.beyond:
                reader.ready_items.refill(self.unix_ms)
            fetch(reader)
            moved |= unread(reader) != before
            reader.serve(self.now_ms)
        return moved

    def open(self, who: str = "anna", dead: bool = False, lease_ms: int = 0) -> Lease:
        """Lease an item; with `lease_ms` by token."""
        lease = self.may_open(who, dead, lease_ms)
        assert lease is not None, "nothing was lent"
        return lease

    def take(self, who: str = "anna", dead: bool = False) -> bytes | None:
        """Fetch an item with a plain get."""
        lease = self.may_open(who, dead)
        if lease is None:
            return None
        self.close(lease)
        return lease.item.body

    def peek(self, dead: bool = False) -> bytes | None:
        queue = self.broker.queues.get(NAME)
        if queue is None:
            return None
        item = queue.reader.first(self.now_ms, dead)
        while item is None and self.read_back():
            item = queue.reader.first(self.now_ms, dead)
        return item.body if item is not None else None

    def close(self, lease: Lease) -> int:
        return owner(lease).confirm(lease, self.now_ms)

    def abort(self, lease: Lease) -> int:
        return owner(lease).nack(lease, self.now_ms, ABORTED)

    def defer(self, lease: Lease) -> int:
        return owner(lease).nack(lease, self.now_ms, DEFERRED)

    def bury(self, lease: Lease, reason: bytes = b"why") -> int:
        return owner(lease).dead_letter(lease, self.now_ms, reason)

    def named(self, token: int) -> Lease | None:
        """Return the lease of this token, if it lasts."""
        return self.reader.by_token.find(token, self.now_ms)

    def touch(self, lease: Lease, lease_ms: int) -> None:
        owner(lease).renew(lease, lease_ms, self.now_ms)

    def hang_up(self, who: str = "anna") -> None:
        self.holders[who] = self.broker.hang_up(self.who(who), self.now_ms)

    def wait(
        self, who: str, wait_ms: int = 1000, want: Want = Want.OPEN, dead: bool = False,
        lease_ms: int = 0,
    ) -> Waiter:  # fmt: skip
        return self.broker.wait(
            want, NAME, self.who(who), dead, who, self.now_ms + wait_ms, lease_ms=lease_ms
        )

    def answers(self) -> list[tuple[str, bytes | None]]:
        """Return the waiters that were answered since the last call, with their items, in order."""
        return [(str(w.caller), body_of(w)) for w in self.broker.take_to_resume()]

    def pause(self, paused: bool = True) -> int:
        return Admin(self.queue).pause(paused, self.now_ms)

    def cancel(self, id_: int) -> bool:
        """Remove an item that waits, as the server does it: its size is that of its put."""
        where, item = self.reader.where(id_), self.reader.item(id_)
        if where not in (Where.IN_MEMORY, Where.LOGGED, Where.DELAYED):
            return False
        if where is Where.IN_MEMORY and item is not None and 0 < item.expires_ms <= self.unix_ms:
            return False
        put = [r for r in self.records if r.kind == Kind.PUT and r.item == id_][-1]
        said = said_of_put(put.meta)
        if where is Where.LOGGED and 0 < said.expires_ms <= self.unix_ms:
            return False
        Admin(self.queue).cancel(id_, len(put.body), self.now_ms, said.key)
        return True

    def purge(self, id_: int) -> bool:
        return Admin(self.queue).purge(id_, self.now_ms) is not None

    def redrive(self, id_: int) -> bool:
        redriven = Admin(self.queue).redrive(id_, self.now_ms) is not None
        self.reader.serve(self.now_ms)
        return redriven

    def flush(self) -> None:
        self.queue.flush(self.now_ms)

    def delete(self) -> bool:
        return self.broker.delete(NAME, self.now_ms) is not None

    # -- what time and the operator do ------------------------------------------------------

    def pass_time(self, ms: int) -> None:
        """Let time pass without a client: ticks come when `next_due` asks for them."""
        until_ms = self.now_ms + ms
        for _ in range(10_000):
            self.read_back()
            due = self.broker.next_due()
            if due is None or due > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = max(self.now_ms, due)
            self.broker.tick(self.now_ms)
        raise AssertionError("ten thousand ticks, and still something is due")

    def step_clock(self, ms: int) -> None:
        """Step the wall clock, as an operator does."""
        self.broker.step_clock(self.broker.clock.offset_ms + ms)
        self.pass_time(0)

    @property
    def operations(self) -> QueueAdmin:
        """The actions of an operator on the queue, while the server is up."""
        return QueueAdmin(self.broker, cast(Site, SimpleNamespace(mode=UP)))

    def reload(self, **settings: Any) -> None:
        """Apply other limits and rules from now on; those not named stay."""
        self.policy = replace(self.policy, **settings)
        for queue in self.broker.queues.values():
            queue.set_policy(self.policy, self.now_ms)

    # -- a restart --------------------------------------------------------------------------

    def restarted(
        self, records: list[Record] | None = None, checkpoint: Checkpoint | None = None,
        unix_ms: int | None = None, beat_ms: int | None = None,
    ) -> CoreHarness:  # fmt: skip
        """Return the queue that a killed server finds in the log, or in these records of it.

        `unix_ms` is the wall clock by then (None: it was not set), `beat_ms` the last beat (None:
        of this very moment, 0: none).
        """
        found = self.records if records is None else records
        queue = self.queue
        wall_ms = self.unix_ms if unix_ms is None else unix_ms
        again = CoreHarness(self.policy, self.now_ms, wall_ms)
        last_ms = self.now_ms + queue.clock.running_ms if beat_ms is None else beat_ms
        again.broker.clock.begin(last_ms, again.now_ms)
        fresh = again.broker.fresh(NAME, queue.generation, again.now_ms)
        fresh.know(IDENTITY)
        replay = Replay(fresh)
        replay.run(found)
        replay.finish(checkpoint, len(found))
        fresh.attach(
            JournalLog(
                PendingStore(PendingJournal(fresh, found)),
                again.dirty, self.policy.sync_ms, fresh.state,
            )
        )
        again.broker.adopt(fresh, again.now_ms)
        if fresh.reader.ready.count:
            fresh.reader.schedule_read()  # as the data directory does
        return again


def make_queue(now_ms: int = 0, unix_ms: int = WALL_MS, **settings: Any) -> CoreHarness:
    """An empty queue with these settings of `Policy`, and the defaults for the others."""
    made = CoreHarness(Policy(**settings), now_ms, unix_ms)
    made.broker.create(NAME, now_ms)
    return made


def no_queue(**settings: Any) -> CoreHarness:
    """A server without any queue yet."""
    return CoreHarness(Policy(**settings))


def in_sequence(line: Ready) -> list[tuple[int, Item]]:
    """Return the items that a ready list would hand out; the list does not change."""
    clone = Ready()
    for slot in attributes_of(Ready):
        value = getattr(line, slot)
        containers = ("_swept", "_line", "_returned", "_removed", "_back")
        setattr(clone, slot, copy.copy(value) if slot in containers else value)
    clone.blocked = clone.blocked_bytes = 0  # those that wait for their key are in no line
    found = []
    while (first := clone.pop()) is not None:
        found.append(first)
    assert clone.count == clone.bytes == 0, "it counts what it holds"
    return found


def unread(reader: Subscription) -> tuple[int, int, int]:
    """Return the counts of items that only the log has."""
    return reader.ready.beyond, reader.ready.disk_refs.count, reader.dead.missing


def fetch(reader: Subscription) -> None:
    """Read back the out-of-order items that are next."""
    backlog = reader.read_ahead
    wanted = reader.ready_items.begin_fetch()
    if wanted:
        assert isinstance(backlog, PendingReadAhead)
        reader.ready_items.fetched([backlog.put_of(id_) for id_ in wanted])


def standing(reader: Subscription) -> list[tuple[int, Item]]:
    """All that is ready, by place: in the line, or waiting for its key."""
    line = in_sequence(all_read(reader).ready)
    keyed, backlog = reader.key_gate, reader.read_ahead
    parked: dict[int, Item] = {}
    for row in keyed.keys._rows.values():
        for id_, place, size in [] if isinstance(row, int) else list(row):
            item = keyed.whole.get(id_)
            if item is None:
                assert isinstance(backlog, PendingReadAhead)
                item = reader.bound(item_of(backlog.put_of(id_)))
            assert item.size == size
            parked[place] = item
    assert {item.id for item in parked.values()} == set(keyed.keys.blocked)
    assert sum(item.size for item in parked.values()) == keyed.keys.blocked_bytes
    assert (reader.ready.blocked, reader.ready.blocked_cost) == (len(parked), keyed.cost)
    return sorted([*line, *parked.items()])


def all_read(reader: Subscription) -> Subscription:
    """The reader, with everything that is ready in memory."""
    reader.residency.limit(UNLIMITED)
    reader.residency.allowed = UNLIMITED
    while reader.ready.beyond or reader.ready.disk_refs.count:
        before = unread(reader)
        reader.ready_items.refill(0, UNLIMITED)
        fetch(reader)
        assert unread(reader) != before, "what is left to the log can be read back"
    return reader


def dead_as_fetched(reader: Subscription) -> list[Item]:
    """Return the dead letters that are not leased, in the order in which they would be fetched."""
    line = DeadLetters()
    for slot in attributes_of(DeadLetters):
        value = getattr(reader.dead, slot)
        setattr(line, slot, value if isinstance(value, int) else value.copy())
    backlog = reader.read_ahead
    found = []
    while line.count:
        if line.missing:
            assert isinstance(backlog, PendingReadAhead)
            marker = reader.markers.of(line.missing, 0)
            line.store(reader.bound(item_of(backlog.put_of(line.missing), marker)), False)
        popped = line.pop()
        assert popped is not None
        found.append(popped[1])
    return found


def facts(item: Item) -> tuple[int, int, bytes, int, int, int, int]:
    """All that an item is."""
    return (
        item.id, item.marker, item.body, item.flags, item.stored_ms, item.expires_ms, item.lsn
    )  # fmt: skip


def state_after_a_restart(queue: Queue) -> dict[str, object]:
    """Return all facts that a restart must not change; it ends the leases by connection."""
    reader = queue.reader
    line = standing(reader)
    line += [(e.place, e.item) for e in reader.leases if not (e.dead or e.by_token)]
    hidden = reader.markers.hidden
    dead = [(reader.dead.deaths[i.id].order, i) for i in dead_as_fetched(reader)]
    dead += [(e.place, e.item) for e in reader.leases if e.dead]
    dead.sort(key=lambda each: each[0])
    deaths = reader.dead.deaths.items()
    return {
        "line": [
            (p, facts(i) if p == i.id else facts(i)[:-1])  # a restart waits for no release
            for p, i in sorted(line, key=lambda each: each[0])
        ],
        "attempts": dict(reader.attempts.items()),
        "dead": [facts(item)[:-1] for _, item in dead],
        "deaths": {item: (d.attempts, d.reason, d.died_ms) for item, d in deaths},
        "leased": dict(reader.leases.entries),
        "delayed": sorted(reader.delays.entries(reader.clock)),
        "places of leases": {e.item.id: e.place for e in reader.leases if e.by_token},
        "hidden": list(hidden),
        "markers": [(m, i) for m, i in reader.markers if i in hidden],
        "bytes": reader.live_bytes,
        "paused": reader.paused,
        "live": list(reader.live),
        "next number": queue.next_number,
        "total items": queue.total_items,
    }


def owner(lease: Lease) -> Subscription:
    assert isinstance(lease.owner, Subscription)
    return lease.owner


def by_place(lease: Lease) -> int:
    return lease.place


def body_of(waiter: Waiter) -> bytes | None:
    """Return the body that a waiter was answered with."""
    item = waiter.lease.item if waiter.lease is not None else waiter.item
    return item.body if item is not None else None
