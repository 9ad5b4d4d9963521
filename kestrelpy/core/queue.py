"""A queue: a log, its limits, and the readers of what is put into it.

An item's id and its place in the line are one number, from one counter: what takes a place later
(a delayed item that is due) takes the next number, and no item ever has that id.

One rule: an item is numbered, applied and logged in one step; what a client is told waits for the
record that this step returns.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NoReturn

from journal.checkpoint import Checkpoint
from journal.epochs import Nominal, keep_latest
from journal.ledger import NONE_OPEN
from journal.moving import Origin
from journal.upkeep import State
from kestrelpy.core.delays import Delay
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.keyed import SWEEP_ITEMS_MAX
from kestrelpy.core.log import Log
from kestrelpy.core.outgoing import send_on
from kestrelpy.core.placed import Placed
from kestrelpy.core.policy import Policy
from kestrelpy.core.reader import Reader
from kestrelpy.core.residency import UNLIMITED, Memory
from kestrelpy.core.returns import put_off
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.core.waiters import Waiter
from kestrelpy.core.wall import Wall
from kestrelpy.errors import ClientError, ServerError

NOT_STORED: Final = -1
_NO_LIMIT: Final = (1 << 63) - 1
_COMPLAINT_MS: Final = 60_000  # one line a minute about a client's mistake is enough
_AGE_CHECK_MS_MAX: Final = 60_000
# Items dropped for one put: a limit that was lowered by a million is reached over many puts.
DISCARDED_ITEMS_MAX: Final = 1000


class Queue:
    """One queue by its name. `generation` tells it from earlier queues of that name."""

    __slots__ = (
        "_complained_ms", "alarm", "created_ms", "declared", "deleted", "epochs", "generation",
        "is_gone", "log", "name", "next_number", "origins", "policy", "reader", "server_id",
        "total_items", "wall",
    )  # fmt: skip

    def __init__(
        self,
        name: bytes,
        generation: int,
        policy: Policy,
        log: Log,
        wall: Wall,
        woken: list[Waiter],
        timers: Timers[Any],
        now_ms: int,
        memory: Memory,
        hungry: list[Reader],
        declared: bytes = b"",
    ) -> None:
        """`declared` are settings by a client, which only the shell reads: it makes the policy."""
        self.name = name
        self.declared = declared
        self.generation = generation
        self.policy = policy
        self.log = log
        self.wall = wall
        self.alarm: Alarm[Any] = Alarm(timers, self)
        self.reader = Reader(name, policy, log, wall, woken, self.alarm, memory, hungry)
        self.next_number = 1  # of an item, and of a place that is none's id
        self.total_items = 0  # that were ever put
        self.created_ms = now_ms
        self.deleted = False
        self.is_gone = False  # its files, too
        self.server_id = b""
        self.epochs: dict[bytes, int] = {}  # by schedule: its last time that was put, in s
        self.origins: dict[int, Origin] = {}  # open ones, by the item here that was made of each
        self._complained_ms = -_COMPLAINT_MS

    # -- storing ----------------------------------------------------------------------------

    def put(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        nominal: Nominal | None = None, delay: Delay | None = None,
    ) -> int:  # fmt: skip
        """Store an item (`expires_ms` wall clock, 0: never); the record to wait for, or NOT_STORED.

        `key` is canonical; `nominal` is the time of a schedule that it is put for, which the same
        record says. Raises ServerError when it is too large or the journal has failed, ClientError
        when it would expire before it is due.
        """
        log, policy = self.log, self.policy
        size = len(body)
        if log.failure is not None or log.no_room or size > policy.max_item_bytes:
            self.refuse_put(size)
        wall_ms = now_ms + self.wall.offset_ms
        if policy.max_age_ms is not None:
            oldest = wall_ms + policy.max_age_ms
            expires_ms = min(expires_ms, oldest) if expires_ms else oldest
        if delay is not None and 0 < expires_ms <= delay.due_ms(wall_ms):
            self._refuse_delay(expires_ms, delay.due_ms(wall_ms))
        if policy.bounded and not self.make_room(size, now_ms):
            return NOT_STORED
        number = self.next_number
        if delay is not None and delay.due_ms(wall_ms) > wall_ms:
            item = Item(number, 0, body, flags, wall_ms, expires_ms, 0, key)
            return self._put_off(item, delay, now_ms)
        item = Item(number, number, body, flags, wall_ms, expires_ms, 0, key)
        self._apply_put(number, size)
        if nominal is not None:
            self._apply_nominal(nominal)
        item.lsn = log.put(item, nominal)
        reader = self.reader
        reader.line.keep(item)
        if reader.waiters:
            reader.serve(now_ms)
        return item.lsn

    def _put_off(self, item: Item, delay: Delay, now_ms: int) -> int:
        """Store an item that is not due yet."""
        self._apply_put(item.id, item.size)
        self.reader.marks.hide(item.id)
        item.lsn = self.log.put_later(item, delay.due_ms(item.stored_ms))
        put_off(self.reader, item, delay, now_ms)
        return item.lsn

    def _refuse_delay(self, expires_ms: int, due_ms: int) -> NoReturn:
        name, late_ms = self.name.decode("ascii"), due_ms - expires_ms
        raise ClientError(
            f"an item of {name} would expire {late_ms} ms before it is due: give it a shorter "
            "delay, or a later expiry (max_age counts from being stored)"
        )

    def add(
        self, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
        delay: Delay | None = None,
    ) -> int:
        """Store an item if none is ready, delayed or lent."""
        if self.log.failure is not None or len(body) > self.policy.max_item_bytes:
            self.refuse_put(len(body))
        self.reader.first(now_ms)  # what has expired is not there
        reader = self.reader
        if reader.ready.count or len(reader.leases) or reader.elsewhere.count:
            return NOT_STORED
        return self.put(body, flags, expires_ms, now_ms, key, delay=delay)

    def refuse_put(self, size: int) -> NoReturn:
        """Say why nothing of this size is stored now."""
        if self.log.failure is not None:
            self.raise_failed()
        limit = self.policy.max_item_bytes
        if size > limit:
            raise ServerError(f"item too large ({size} bytes, limit {limit})")
        raise ServerError(self.log.no_room)

    def make_room(self, size: int, now_ms: int) -> bool:
        """Is there room for `size` bytes, after dropping the oldest if that is allowed?

        Where that would drop too many at once, it is enough if the queue does not grow.
        """
        policy, ready = self.policy, self.reader.ready
        items_max = policy.max_items if policy.max_items is not None else _NO_LIMIT
        bytes_max = policy.max_bytes if policy.max_bytes is not None else _NO_LIMIT
        if items_max < 1 or size > bytes_max:
            return False
        delays = self.reader.delays  # they count; what is dropped to make room is ready
        items_max -= delays.count
        bytes_max -= delays.bytes
        if ready.count < items_max and ready.bytes + size <= bytes_max:
            return True
        self.reader.sweep(now_ms, SWEEP_ITEMS_MAX)  # what has expired takes no room
        self.reader.first(now_ms)
        bytes_before = ready.bytes
        for _ in range(DISCARDED_ITEMS_MAX):
            self.reader.first(now_ms)  # and that may only show when the head has been read back
            if ready.count < items_max and ready.bytes + size <= bytes_max:
                return True
            if not policy.discard_old_when_full or not ready.count:
                return False
            self._discard_first(now_ms + self.wall.offset_ms)
        return ready.bytes + size <= max(bytes_max, bytes_before)

    def _discard_first(self, wall_ms: int) -> None:
        """Drop the head to make room."""
        reader = self.reader
        item = reader.line.pop_any(wall_ms)
        if item is not None:
            reader.keyed.drop(item)
            reader._apply_done(item.id, item.size)
            reader.counters.discarded += 1
            reader.log.discarded(item, wall_ms)

    def raise_failed(self) -> NoReturn:
        """Say that this queue's journal has failed."""
        raise ServerError(
            f"journal failed, queue {self.name.decode('ascii')} is closed until a restart: "
            f"{self.log.failure}"
        )

    # -- the whole queue --------------------------------------------------------------------

    def flush(self, now_ms: int) -> int:
        """Everything ready is gone; returns the record to wait for."""
        if self.log.failure is not None:
            self.raise_failed()
        return self.reader.flush(self.next_number - 1, now_ms)

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Other limits and rules from now on.

        `durable` stays what it was until a restart, and how keys are made and match, while there
        are items.
        """
        before = self.policy
        if self.reader.live:
            policy = replace(policy, keys=before.keys)
        self.reader.keyed.keys.matches_any = policy.keys.matches_any
        self.policy = policy
        self.reader.policy = policy
        self.log.set_sync(policy.sync_ms)
        self._tell_log()
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            send_on(self.reader, self.reader.dead.deaths)
        self.alarm.need(self.next_due(now_ms))
        if self.reader.waiters:
            self.reader.serve(now_ms)

    def declare(self, declared: bytes, policy: Policy, now_ms: int) -> int:
        """Keep these settings, with the rules they make; returns the record to wait for."""
        self._apply_declared(declared)
        lsn = self.log.declared(declared, now_ms + self.wall.offset_ms)
        self.set_policy(policy, now_ms)
        return lsn

    def pass_over(self, nominal: Nominal, now_ms: int) -> int:
        """Nothing is put for this schedule's times up to this one; the record to wait for.

        Raises ServerError when the journal has failed or has no room for it.
        """
        if self.log.failure is not None:
            self.raise_failed()
        if self.log.no_room:
            raise ServerError(self.log.no_room)
        self._apply_nominal(nominal)
        return self.log.nominal(nominal, now_ms + self.wall.offset_ms)

    def attach(self, log: Log) -> None:
        """Write to this log from now on."""
        self.log = log
        self.reader.log = log
        log.attached(self._records_to_come, self._first_open)
        self._tell_log()

    def _records_to_come(self) -> int:
        """That must find room: returns of leases by token, releases of what is delayed, and
        settlements of open origins."""
        reader = self.reader
        return len(reader.leases.entries) + reader.delays.count + len(self.origins)

    def _first_open(self) -> int:
        """The lsn of the first put whose origin is open."""
        return next((origin.lsn for origin in self.origins.values()), NONE_OPEN)

    def _tell_log(self) -> None:
        """A queue that only lives in memory cannot leave anything to its log."""
        self.log.archive_to = self.policy.archive_to
        in_memory = self.log.backlog is None
        self.reader.residency.limit(UNLIMITED if in_memory else self.policy.max_memory_bytes)

    def tick(self, now_ms: int, steps: int) -> int:
        """Do what is due, in at most `steps` steps; returns how many were taken."""
        self.alarm.silence()
        taken = self._release_due(now_ms, steps) if self.reader.delays.count else 0
        taken += self.reader.tick(now_ms, steps - taken)
        due = self.next_due(now_ms)
        if due is not None and due <= now_ms:
            due = now_ms + 1  # there is more than `steps`: what else is due comes before that
        self.alarm.need(due)
        return taken

    def _release_due(self, now_ms: int, steps: int) -> int:
        """What is due becomes available, in order of due time; how many did."""
        delays, offset_ms = self.reader.delays, self.wall.offset_ms
        for taken in range(steps):
            found = delays.pop_due(now_ms, offset_ms)
            if found is None:
                return taken
            self.release(*found, now_ms)
        return steps

    def release(self, id_: int, size: int, now_ms: int) -> int:
        """An item that was delayed is available: it takes the next number as its place.

        Returns the record to wait for.
        """
        reader, log, place = self.reader, self.log, self.next_number
        self.next_number = place + 1
        reader.marks.give(place, id_)
        unlogged, lsn = reader.delays.unlogged, log.lsn_appended
        if id_ in unlogged:  # there is no room for it, and a restart knows of no delay
            unlogged.remove(id_)
        else:
            lsn = log.released(id_, place, now_ms + self.wall.offset_ms)
        item = reader.delays.items.pop(id_, None)
        if item is None:
            reader.line.stand(place, id_, size)
            reader.line.placed(place, lsn)
        else:
            item.marker = item.marker or place
            reader.line.take_back(item, place)
        return lsn

    @property
    def last_number(self) -> int:
        """The latest that an item or a place was given."""
        return self.next_number - 1

    @property
    def is_empty(self) -> bool:
        """Does it hold nothing, for nobody?"""
        reader = self.reader
        return not (reader.live or reader.waiters or self.origins)

    def is_too_old(self, now_ms: int) -> bool:
        """Is it empty and older than its policy keeps such queues?"""
        age_ms = self.policy.max_queue_age_ms
        return (
            age_ms is not None
            and now_ms - self.created_ms >= age_ms
            and self.is_empty
            and not self.reader.paused  # it would lend again under the same name
            and not self.epochs  # it knows which times of a schedule are not put again
            and self.log.failure is None  # a new queue of that name would acknowledge again
        )

    def may_complain(self, now_ms: int) -> bool:
        """May another line about this queue's clients go to the log?"""
        if now_ms - self._complained_ms < _COMPLAINT_MS:
            return False
        self._complained_ms = now_ms
        return True

    def next_due(self, now_ms: int) -> int | None:
        """When `tick` has something to do; None: nothing."""
        due = self.reader.next_due()
        age_ms = self.policy.max_queue_age_ms
        if age_ms is not None:
            ripe = self.created_ms + age_ms
            if ripe <= now_ms:
                ripe = now_ms + max(1, min(age_ms, _AGE_CHECK_MS_MAX))
            due = ripe if due is None else min(due, ripe)
        return due

    def checkpoint(self) -> Checkpoint:
        """The state a segment opens with."""
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

    def state(self) -> State:
        """All there is to know of it but the bodies, as a copy."""
        reader = self.reader
        return State(
            self.checkpoint(), reader.live.copy(), reader.live_bytes, reader.attempts.copy(),
            list(reader.dead.deaths.values()), list(reader.leases.entries.values()),
            paused=reader.paused, declared=self.declared, epochs=dict(self.epochs),
            origins=self.origins.copy(),
            delayed=reader.delays.entries(self.wall.offset_ms), placed=Placed(reader),
            held=dict(reader.keyed.held),
        )  # fmt: skip

    # -- applying ---------------------------------------------------------------------------

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.next_number = id_ + 1
        self.total_items += 1
        self.reader._apply_put(id_, body_bytes)

    def _apply_nominal(self, nominal: Nominal) -> None:
        keep_latest(self.epochs, nominal)

    def _apply_opened(self, id_: int, origin: Origin) -> None:
        self.origins[id_] = origin

    def _apply_settled(self, id_: int) -> None:
        self.origins.pop(id_, None)

    def _apply_declared(self, declared: bytes) -> None:
        self.declared = declared
