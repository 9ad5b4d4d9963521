"""A queue: a log, its limits, and the subscriptions to its items.

    refused? ─▶ due, expiry ─▶ id seen? ─▶ version right? ─▶ room ─▶ number, apply, log ─▶ ready,
                                                                                    or delayed

One rule: an item is numbered, applied and logged in one step; a client's reply waits for the record
that this step returns. A refused item has changed nothing but what a limit dropped to make room.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NoReturn

from journal.format import (
    AGAIN,
    GONE,
    Checkpoint,
    ItemHeader,
    Origin,
    RawDraft,
    Watermark,
    declared_draft,
    have_one_log,
    named,
    watermark_drafts,
)
from journal.sets import IdSet
from journal.store import NONE_OPEN, QueueCopy
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.index import NEVER, UNLIMITED, Delay, MemoryBudget, Waiter, Written
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY, KeySettings
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.age_round import AGE_CHECK_MS_MAX, AgeRound
from kestrelpy.core.queue.dedupe_window import NOT_DUE
from kestrelpy.core.queue.due_items import DueItems
from kestrelpy.core.queue.fanout import FanOut
from kestrelpy.core.queue.lazy_sweep import LazySweep
from kestrelpy.core.queue.record_reserve import RecordReserve
from kestrelpy.core.queue.recount import ASKED_MAX, Recount
from kestrelpy.core.queue.retention import QueueRetention
from kestrelpy.core.queue.state import QueueState
from kestrelpy.core.subscription import Placed, Subscription
from kestrelpy.core.timers import NEVER_MS, Timers
from kestrelpy.errors import NoRoomYet, ServerError

# `put` returns one of these, and no record, when it stores nothing: there is no room, the id was
# seen before, the key has another version, or none.
NOT_STORED: Final = -1
DUPLICATE: Final = -2
EXISTS: Final = -3
NOT_FOUND: Final = -4
# Its id was seen before, with another body or key.
REUSED: Final = -5
# A put that expects this is stored if its key has any version.
ANY_VERSION: Final = -1
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Queue(QueueState):
    """A queue with a log of its own."""

    __slots__ = ("age_round", "due", "fanout", "lazy_sweep", "recount", "reserve", "retention")

    def __init__(
        self, name: bytes, generation: int, policy: Policy, log: Log, clock: ClockOffset,
        to_resume: list[Waiter], timers: Timers[Any], now_ms: int, memory: MemoryBudget,
        to_read: list[Any], declared: bytes = b"",
    ) -> None:  # fmt: skip
        """`declared` are a client's settings: only the shell reads them, and makes the policy."""
        super().__init__(
            name, generation, policy, log, clock, to_resume, timers, now_ms, memory, to_read,
            declared,
        )
        self.lazy_sweep = LazySweep(self)  # finds the items that expire in lazy children
        self.fanout = FanOut(self, self.lazy_sweep)
        self.due = DueItems(self, self.fanout, self.lazy_sweep, self.is_needed)
        self.retention = QueueRetention(self)
        self.reserve = RecordReserve(self)
        self.recount = Recount(self, self.needed_now)
        self.age_round = AgeRound(self)

    # -- storing ----------------------------------------------------------------------------

    def put(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        nominal: Watermark | None = None, delay: Delay | None = None,
        header: ItemHeader | None = None, expects: int | None = None,
    ) -> int:  # fmt: skip
        """Store an item (`expires_ms` wall clock, 0: never); return the record to wait for.

        Return NOT_STORED when the queue is full; DUPLICATE, REUSED, EXISTS or NOT_FOUND when its id
        was seen before, or the version of its key is not the one that `expects` names.
        `key` is canonical; `nominal` is the run time of the schedule that puts the item; an origin
        in its `header` is open from then on. Raise ServerError when it is too large or the journal
        failed, ClientError when it would expire before it is due.
        """
        log, policy, size, unix_ms = self.log, self.policy, len(body), now_ms + self.clock.offset_ms
        if log.failure is not None or log.no_room or size > policy.max_item_bytes:
            self.refuse_put(size)
        if not log.has_room(size + records.meta_most(header, key), delay is not None):
            raise NoRoomYet(log.waiting_room, self.name)
        if policy.max_age_ms is not None or delay is not None:
            expires_ms = self.reader.expiry(expires_ms, delay, unix_ms)
        written = self.dedupe.versions.of(key, policy, unix_ms) if key else NEVER
        is_known = key != NO_KEY or (header is not None and bool(header.id))
        if is_known and self.dedupe.is_empty and not log.may_remember():
            raise NoRoomYet(log.waiting_room, self.name)
        if is_known and (expects is not None or header is not None):
            refusal = self._refusal(header, key, body, written, expects, unix_ms)
            if refusal:
                return refusal
        if policy.bounded and not self.make_room(size, now_ms):
            if policy.never_fits(size):
                self.refuse_put(size)
            return NOT_STORED
        if self.passes_on and not self.children and self.retained is None:
            return log.lsn_appended  # no subscription gets it: nothing is stored or remembered
        number, passes_on = self.next_number, self.passes_on
        if is_known:
            header = self._remember(header, key, body, written, unix_ms)
        if delay is not None and delay.due_ms(unix_ms) > unix_ms:
            item = Item(number, 0, body, flags, unix_ms, expires_ms, 0, key, header)
            return self._put_later(item, delay, now_ms)
        item = Item(number, number, body, flags, unix_ms, expires_ms, 0, key, header)
        if passes_on:
            self._apply_passed(number)
        else:
            self._apply_put(number, size)
        item.lsn = log.append(records.put(item, 0, nominal))
        if nominal is not None:
            self._apply_nominal(nominal)
            log.stand(nominal.draft(unix_ms), item.lsn)
        if header is not None and header.origin is not None:
            self.open_origin(item, header.origin)
        if passes_on:
            self.fanout.forward(item, now_ms)
            return item.lsn
        (reader := self.reader).ready_items.add(item)
        if reader.waiters.count:
            reader.serve(now_ms)
        if self.children:
            self.fanout.arrive(item, now_ms)
        return item.lsn

    @property
    def takes_runs(self) -> bool:
        """True if a put of nothing but flags and a body is only numbered, logged and ready: then
        `put_run` does the same for several as `put` for each."""
        log, policy = self.log, self.policy
        return not (
            log.failure is not None
            or log.no_room
            or policy.max_age_ms is not None
            or policy.bounded
            or policy.keys.rule is not None
            or self.passes_on
            or self.children
            or self.reader.waiters.count
        )

    def put_run(self, bodies: list[bytes], body_bytes: int, flags: int, now_ms: int) -> int:
        """Store items of `body_bytes` together; return the record of the last one, which follows
        those of the others. Only while it `takes_runs`, and none is too large."""
        unix_ms, first = now_ms + self.clock.offset_ms, self.next_number
        items, number = list[Item](), first
        for body in bodies:
            items.append(Item(number, number, body, flags, unix_ms, 0))
            number += 1
        self._apply_run(first, len(items), body_bytes)
        lsn = self.log.append_run(records.puts(items), body_bytes)
        if lsn:  # a queue in memory has no records
            at = lsn - len(items)
            for item in items:
                item.lsn = at = at + 1
        self.reader.ready_items.add_run(items, body_bytes)
        return lsn

    def _refusal(
        self, header: ItemHeader | None, key: bytes, body: bytes, written: Written,
        expects: int | None, unix_ms: int,
    ) -> int:  # fmt: skip
        """Return why an item is not stored, by its id and the version of its key; 0: it may be.

        Raise ServerError when the version is needed and was lost.
        """
        ids = self.dedupe.ids
        if header is not None and header.id and ids.has_seen(
            header, self.policy, unix_ms, key, written.item
        ):
            self.reader.counters.duplicates += 1
            return REUSED if ids.is_altered(key, body) else DUPLICATE
        versions = self.dedupe.versions
        if expects is not None and versions.lost_item and not versions.is_known(
            written, self.policy, unix_ms
        ):
            raise ServerError(
                f"versions of queue {self.name.decode('ascii')} are damaged and this key's is not "
                "known: see the log of the last start; a plain set gives it one that was never used"
            )
        version = written.version
        if expects is None or expects == version or (expects == ANY_VERSION and version):
            return 0
        return EXISTS if version else NOT_FOUND

    def _remember(
        self, header: ItemHeader | None, key: bytes, body: bytes, written: Written, unix_ms: int
    ) -> ItemHeader:
        """Remember the next item by its id and key; return its header, with its version."""
        versions = self.dedupe.versions
        if versions.lost_item and not versions.is_known(written, self.policy, unix_ms):
            written = versions.unused()
        version, previous, _ = written
        if header is None:  # the item has a key, and no other header
            header = _new(ItemHeader, (b"", b"", 0, version + 1, previous, None, (), False))
            versions._apply_written(key, version + 1, self.next_number, unix_ms)
        else:
            if key:
                header = _new(ItemHeader, (*header[:3], version + 1, previous, *header[5:]))
            if header.scope:
                self.dedupe.renew(header, self.policy, self.log, unix_ms)
            self._apply_header(header, key, self.next_number, unix_ms, body)
        if self.dedupe.due_ms == NOT_DUE:
            self.dedupe.begin_sweeping(self.policy, unix_ms - self.clock.offset_ms)
        return header

    def _put_later(self, item: Item, delay: Delay, now_ms: int) -> int:
        """Store an item that is not due yet."""
        if not self.passes_on:
            self._apply_put(item.id, item.size)
            self.reader.markers.hide(item.id)
        else:
            self._apply_passed(item.id)
            if self.retained is not None:
                self.reader.markers.hide(item.id)
        due = delay.due_ms(item.stored_ms), None, delay.runs_ms(self.clock, now_ms)
        item.lsn = self.log.append(records.put(item, *due))
        if item.origin is not None:
            self.open_origin(item, item.origin)
        if not self.passes_on:
            self.reader.delay(item, delay, now_ms, bool(self.children))
        elif not self.children:
            self.fanout.forward(item, now_ms)
        if self.children:
            self.fanout.arrive_later(item, delay, now_ms)
        return item.lsn

    def open_origin(self, item: Item, origin: Origin) -> None:
        """Open the origin of an item, which may be there still; in this very log it is not."""
        if not origin.is_of(self.name):
            self._apply_opened(item.id, origin.put_by(item.lsn))

    def add(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        delay: Delay | None = None, header: ItemHeader | None = None,
    ) -> int:  # fmt: skip
        """Store an item if none is ready, delayed or leased; an unreadable item counts as one."""
        if self.log.failure is not None or len(body) > self.policy.max_item_bytes:
            self.refuse_put(len(body))
        if self.reader.holds_any(now_ms):
            return NOT_STORED
        return self.put(body, flags, expires_ms, now_ms, key, delay=delay, header=header)

    def refuse_put(self, size: int) -> NoReturn:
        """Raise the error that says why nothing of this size is stored now."""
        self.reader.refuse_put(size)

    def make_room(self, size: int, now_ms: int) -> bool:
        """True if there is room for `size` bytes, after dropping the oldest if that is allowed."""
        if self.passes_on:  # its own ready list takes nothing, however full it is
            return self.policy.max_bytes is None or size <= self.policy.max_bytes
        return self.reader.make_room(size, now_ms)

    @property
    def files(self) -> Queue:
        """The queue whose journal has its items: itself."""
        return self

    def take_place(self) -> int:
        """Return the next number, as the place of an item that becomes available here alone."""
        return self.fanout.take_place()

    @property
    def is_going(self) -> bool:
        """True if the queue is deleted, and not a tombstone that stays for its children."""
        return self.deleted and not self.is_tombstone

    @property
    def is_stuck(self) -> bool:
        """True if its log accepts no more records, or none until there is room. (A shortage
        passes.)
        """
        return self.log.failure is not None or self.log.is_full

    def goes_with(self, queue: Queue) -> bool:
        """True if its files go with those of `queue`, which has the same name and no earlier
        generation."""
        return self.name == queue.name and self.generation <= queue.generation

    def why_mistaken(self, name: bytes, target: Queue | None, other: bytes) -> str:
        """Return why no item of the queue or child `name` goes to `other`; empty: it may. This
        queue and `target` have their logs; `target` is None if there is no `other`.

        A log takes an origin with its own name for an item of its own; this origin would be an item
        of another queue.
        """
        is_one = not self.is_replaced if target is None else target is self
        if is_one or not have_one_log(name, other):
            return ""
        here, there = name.decode("ascii"), other.decode("ascii")
        return (
            f"items of {here} do not go to {there}: one is of a queue {self.name.decode('ascii')} "
            "that was deleted, the other of a later one; name another queue"
        )

    def tell_deleted(self, now_ms: int) -> int:
        """Record, once, that the queue's own subscription is gone; return the record to wait for.
        """
        if self.deleted_lsn:
            return self.deleted_lsn
        unix_ms = now_ms + self.clock.offset_ms
        draft = named(0, b"", self.last_number, GONE, unix_ms)
        self.log.append_recounted(draft, self.needed_now)
        self.log.set_sync(0)  # DELETED waits for the sync, even if STORED did not
        self.deleted_lsn = self.log.lsn_appended
        self.log.wait_durable(self.deleted_lsn)
        return self.deleted_lsn

    def make_again(self, declared: bytes, policy: Policy, now_ms: int) -> None:
        """Begin anew after a deletion: with a subscription of its own that has no items yet.

        The children go on in the same log. The settings that clients declared for the deleted queue
        go.
        """
        old, log, unix_ms = self.reader, self.log, now_ms + self.clock.offset_ms
        self._apply_again(self.last_number)
        self.reader = reader = Subscription(
            self.name, self.policy, log, self.clock, old.to_resume, self.alarm, self.memory,
            old.to_read, 0, old.tokens,
        )  # fmt: skip
        reader.needs = self
        if self.unseen is not None:
            reader.delays.shared = self.unseen.due
        log.append(named(0, b"", self.floor, AGAIN, unix_ms))
        if self.declared or self.metadata:
            self._apply_declared(b"", b"")
            log.append_standing(declared_draft(b"", b"", unix_ms))
        if old.paused:
            log.append_standing(reader.own(records.paused(False, unix_ms)))
        self.declared = declared
        self.created_ms = now_ms
        self.deleted_lsn = 0
        self.retained = None
        self.set_policy(policy, now_ms)

    # -- its subscriptions --------------------------------------------------------------------

    def is_needed(self, id_: int) -> bool:
        """True if any subscription still needs this item."""
        return self.recount.is_needed(id_)

    def may_be_needed(self, id_: int) -> bool:
        """As `is_needed`. True as well if that would ask too many children: then the log counts
        soon."""
        return self.recount.is_needed(id_, ASKED_MAX)

    def needed_now(self) -> IdSet:
        """Return the items that any subscription needs now, as a set that stays as it is."""
        if not self.children:
            return self.reader.live.copy()
        self.reserve.forget()  # many items may have gone
        # A child needs all arrivals that it has not looked at.
        return IdSet.union([*(reader.live for reader in self.readers), self.fanout.arrivals().ids])

    def append_lessening(self, draft: RawDraft, now_ms: int) -> int:
        """Append a record after which some items may not be needed any more; return its lsn."""
        return self.recount.append(draft, now_ms)

    def know_unreadable(self, ids: IdSet) -> None:
        """Note these items, which can no longer be read, for all subscriptions that need them; the
        caller reports them."""
        self.catch_up()
        for reader in self.readers:
            if (lost := ids.both(reader.live)).count:
                reader.know_unreadable(lost)

    def need_look(self, unix_ms: int) -> None:
        """Look at the children at `unix_ms` at the latest."""
        self.lazy_sweep.need(unix_ms)

    def count_anew(self) -> None:
        """Count anew the records that the log must have room for."""
        self.reserve.forget()

    # -- the whole queue --------------------------------------------------------------------

    def flush(self, now_ms: int) -> int:
        """Remove everything ready or delayed; return the record to wait for.

        Raise ServerError when the journal has failed.
        """
        if self.log.failure is not None:
            self.raise_failed()
        return self.reader.flush(self.next_number - 1, now_ms)

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Apply other limits and rules from now on.

        `durable` stays as it was until a restart; the rules for making and matching keys stay as
        they were while there are items.
        """
        before = self.policy
        if policy.keys is not before.keys and self.reader.live:
            policy = replace(policy, keys=before.keys)
        self.reader.key_gate.keys.matches_any = policy.keys.matches_any
        self.policy = self.reader.policy = policy
        self.log.set_sync(policy.sync_ms)
        self._tell_log()
        if (before.retain_ms, before.retain_bytes) != (policy.retain_ms, policy.retain_bytes):
            self.retention.let_go(now_ms, True)
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            self.reader.outbox.send_on(self.reader.dead.deaths)
        self.alarm.need(self.next_due(now_ms))
        if self.reader.waiters:
            self.reader.serve(now_ms)

    def set_keys(self, keys: KeySettings) -> None:
        """Apply other rules for keys from now on; the queue holds no items."""
        self.reader.set_keys(keys)
        self.policy = self.reader.policy

    def declare(
        self, declared: bytes, policy: Policy, now_ms: int, metadata: bytes | None = None
    ) -> int:
        """Store these settings, and apply their policy; return the record to wait for.

        `metadata` None: it stays as it is.
        """
        metadata = self.metadata if metadata is None else metadata
        self._apply_declared(declared, metadata)
        lsn = self.log.append_standing(
            declared_draft(declared, metadata, now_ms + self.clock.offset_ms)
        )
        self.set_policy(policy, now_ms)
        self.fanout.set_passing(policy.fanout_only, now_ms)
        return lsn

    def skip(self, nominal: Watermark, now_ms: int) -> int:
        """Record that nothing is put for this schedule's run times up to this one.

        Return the record to wait for. Raise ServerError when the journal has failed or has no room
        for it.
        """
        if self.log.failure is not None:
            self.raise_failed()
        if self.log.no_room:
            raise ServerError(self.log.no_room)
        self._apply_nominal(nominal)
        return self.log.append_standing(nominal.draft(now_ms + self.clock.offset_ms))

    def standing(self, unix_ms: int) -> list[RawDraft]:
        """Return the records that hold for the queue, whatever segments they are in."""
        drafts = self._switches(unix_ms)
        return [*drafts, *watermark_drafts(self.watermarks, unix_ms)]

    def _switches(self, unix_ms: int) -> list[RawDraft]:
        """Return the records of kinds in `STANDING` that make a new queue what this one is."""
        drafts: list[RawDraft] = []
        if self.reader.paused:
            drafts.append(records.paused(True, unix_ms))
        if self.declared or self.metadata:
            drafts.append(declared_draft(self.declared, self.metadata, unix_ms))
        return drafts

    def attach(self, log: Log, readable: IdSet | None = None) -> None:
        """Write to this log from now on. `readable` are the items that a start found in it."""
        self.log = log
        self.reader.needs = self if self.children else None
        for reader in self.readers:
            reader.attach(log)
        self.know(log.identity or self.server_id)
        if not log.identity:
            self.dedupe.fresh.store_nothing()
        log.attached(self.reserve, self._first_open, self.dedupe.holds, self.retention.lose)
        self._tell_log(readable)

    def know(self, secret: bytes) -> None:
        """Hash ids and keys with this secret.

        Set it before any is remembered, or to the secret that those were hashed with.
        """
        self.dedupe.set_secret(secret, self.floor)

    def _first_open(self) -> int:
        """Return the lsn of the first record that must stay in the log until two snapshots have it:
        a put whose origin is open, a put that alone may hold a remembered id or version, or the
        record that named a child."""
        if not self.dedupe.is_empty:
            return 0
        first = next((origin.lsn for origin in self.origins.values()), NONE_OPEN)
        return min([first, *(child.named_lsn for child in self.children.values())])

    def _tell_log(self, readable: IdSet | None = None) -> None:
        """Give the policy's settings to the log; a queue in memory leaves no items to its log."""
        self.log.archive_to = self.policy.archive_to
        self.log.sync_in_turn = self.policy.sync_in_turn
        in_memory = self.log.read_ahead is None
        self.reader.residency.limit(UNLIMITED if in_memory else self.policy.max_memory_bytes)
        self.retention.begin(readable)

    def tick(self, now_ms: int, steps: int) -> int:
        """Do due work in at most `steps` steps; return the steps taken."""
        self.alarm.silence()
        if self.retained is not None:
            self.retention.look(now_ms)
        self.rung = rung = self.lazy_sweep.ringing(now_ms)
        readers, taken = [self.reader, *rung], self.fanout.go_on(now_ms)
        for reader in readers:  # an item that is due and past its expiry is not released
            if reader.ends.entry_count:
                taken += reader.sweep(now_ms, max(steps - taken, 0))
        taken += self.due.release_due(readers, now_ms, max(steps - taken, 0))
        for reader in readers:
            taken += reader.tick(now_ms, max(steps - taken, 0))
        self.lazy_sweep.ring_again(rung, now_ms)
        self.recount.look(now_ms)
        self.dedupe.sweep(self.policy, self.log, now_ms)
        due = self.next_due(now_ms)
        if due is not None and due <= now_ms:
            due = now_ms + 1  # more is due than `steps` allow: other due work comes first
        self.alarm.need(due)
        return taken + len(rung)

    def release(self, id_: int, size: int, now_ms: int) -> int:
        """Make a delayed item available; return the record to wait for."""
        return self.due.release(id_, size, now_ms)

    def is_too_old(self, now_ms: int) -> bool:
        """True if the queue is empty and older than its policy allows an empty queue to be."""
        age_ms = self.policy.max_queue_age_ms
        return (
            age_ms is not None
            and now_ms - self.created_ms >= age_ms
            and self.is_empty
            and not self.children  # they wait for the next items
            and not self.reader.paused  # a new queue of that name would lease again
            and not self.watermarks  # it knows the run times of schedules that are not put again
            and self.dedupe.is_empty  # and the ids and versions
            and self.log.failure is None  # a new queue of that name would acknowledge again
        )

    def next_due(self, now_ms: int) -> int | None:
        """Return when `tick` has something to do; None: nothing."""
        dues = [self.reader.next_due(), self.child_timers.next_due(), self.recount.due_ms]
        if self.children:
            dues += self.lazy_sweep.next_due(), self.fanout.next_due()
        if self.unseen is not None and self.unseen.due.count:
            dues.append(self.unseen.due.next_due(self.clock) or 0)
        if (readable := self.retained) is not None and readable.look_ms is not None:
            dues.append(readable.look_ms)
        first = min(each for each in dues if each is not None)
        due = first if first < NEVER_MS else None
        self.dedupe.begin_sweeping(self.policy, now_ms)
        if self.dedupe.due_ms != NOT_DUE:
            due = self.dedupe.due_ms if due is None else min(due, self.dedupe.due_ms)
        age_ms = self.policy.max_queue_age_ms
        if age_ms is not None:
            ripe = self.created_ms + age_ms
            ripe = ripe if ripe > now_ms else now_ms + max(1, min(age_ms, AGE_CHECK_MS_MAX))
            due = ripe if due is None else min(due, ripe)
            if self.children:
                due = min(due, self.age_round.next_due(now_ms, age_ms))
        return due

    def checkpoint(self) -> Checkpoint:
        """Return the state that a segment opens with."""
        reader = self.reader
        return Checkpoint(
            name=self.name,
            next_item=self.next_number,
            next_place=self.next_number,
            tokens=reader.tokens_below,
            total_items=self.total_items,
            live_items=len(reader.live),
            generation=self.generation,
            server=self.server_id,
        )

    def state(self) -> QueueCopy:
        """Return all that is known of the queue but the bodies, as a copy."""
        reader = self.reader
        arrivals = self.fanout.arrivals()
        readers = [child.state(self.clock, arrivals) for child in self.children.values()]
        return QueueCopy(
            self.checkpoint(), reader.live.copy(), reader.live_bytes, reader.attempts.copy(),
            list(reader.dead.deaths.values()), list(reader.leases.entries.values()),
            standing=self._switches(0),
            watermarks=dict(self.watermarks), origins=self.origins.copy(),
            delayed=reader.delays.entries(self.clock), placed=Placed.of(reader),
            held=dict(reader.held_keys), memory=self.dedupe.remembered(self.policy),
            readers=readers,
            passes_on=self.passes_on, is_tombstone=self.is_tombstone, floor=self.floor,
            retained=self.readable.copy() if self.retained else None,
            ageless=reader.ageless.copy(),
        )  # fmt: skip
