"""A queue: a log, its limits, and the readers of what is put into it.

An item's id and its place in the line are one number, from one counter: what takes a place later
(a delayed item that is due) takes the next number, and no item ever has that id.

One rule: an item is numbered, applied and logged in one step; what a client is told waits for the
record that this step returns.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from journal.format.checkpoint import Checkpoint
from journal.format.item_header import ItemHeader
from journal.format.schedule import Watermark, raise_watermark
from journal.format.transfer import Origin
from journal.sets.id_set import IdSet
from journal.snapshot.dedupe_pending import Fresh
from journal.store import NONE_OPEN, State
from kestrelpy.core.clock import Wall
from kestrelpy.core.fanout.unseen import Missed
from kestrelpy.core.index.dedupe import NOT_DUE, Ids, begin_tending, remembered, tend
from kestrelpy.core.index.memory_budget import UNLIMITED, Memory
from kestrelpy.core.index.versions import Versions
from kestrelpy.core.index.waiters import Waiter
from kestrelpy.core.key_rule import KeySettings
from kestrelpy.core.log.log import Log
from kestrelpy.core.log.shared_log import SharedLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import fanout as fanning
from kestrelpy.core.queue import put as storing
from kestrelpy.core.queue import retention as retained
from kestrelpy.core.queue.idle_sweep import Idle
from kestrelpy.core.queue.retention import Retained
from kestrelpy.core.queue.snapshot_view import placed
from kestrelpy.core.queue.to_come import ToCome
from kestrelpy.core.subscription.outbox import send_on
from kestrelpy.core.subscription.subscription import Reader
from kestrelpy.core.timers import Alarm, Timers
from kestrelpy.errors import ServerError

_COMPLAINT_MS: Final = 60_000  # one line a minute about a client's mistake is enough
_AGE_CHECK_MS_MAX: Final = 60_000

if TYPE_CHECKING:
    from kestrelpy.core.fanout.child import Child
    from kestrelpy.core.queue.child_queue import Branch


class Queue:
    """One queue by its name. `generation` tells it from earlier queues of that name."""

    __slots__ = (
        "_complained_ms", "alarm", "children", "created_ms", "declared", "deleted", "eager",
        "epochs", "fresh", "generation", "idle", "ids", "is_gone", "is_remnant", "log", "memory",
        "missed", "name", "next_number", "origins", "own_number", "passes_on", "policy",
        "put_bytes", "reader", "readers_named", "retained", "server_id", "tended_ms", "to_come",
        "total_items", "versions", "wall",
    )  # fmt: skip

    def __init__(
        self, name: bytes, generation: int, policy: Policy, log: Log, wall: Wall,
        woken: list[Waiter], timers: Timers[Any], now_ms: int, memory: Memory,
        hungry: list[Reader], declared: bytes = b"",
    ) -> None:  # fmt: skip
        """`declared` are settings by a client, which only the shell reads: it makes the policy."""
        self.name = name
        self.declared = declared
        self.generation = generation
        self.policy = policy
        self.log = log
        self.wall = wall
        self.alarm: Alarm[Any] = Alarm(timers, self)
        self.reader = Reader(name, policy, log, wall, woken, self.alarm, memory, hungry)
        self.retained: Retained | None = None  # what is kept, done or not; None: what is alive
        self.memory = memory
        self.children: dict[bytes, Child] = {}  # by their names behind the `+`
        self.eager: list[Child] = []  # those that are given each item as it comes
        self.missed: Missed | None = None  # by the others; None: there never were any
        self.idle = Idle(self)  # what expires in them
        self.readers_named = 0  # the highest number that a child was given
        self.put_bytes = 0  # of what was put for all, since there are children
        self.own_number = 0  # of its line among the readers of its log: 0, unless it is a child
        self.passes_on = False  # does its own line take nothing of what is put for all?
        self.is_remnant = False  # deleted, and there for the sake of its children alone
        self.next_number = 1  # of an item, and of a place that is none's id
        self.total_items = 0  # that were ever put
        self.created_ms = now_ms
        self.deleted = False
        self.is_gone = False  # its files, too
        self.server_id = b""
        self.epochs: dict[bytes, int] = {}  # by schedule: its last time that was put, in s
        self.origins: dict[int, Origin] = {}  # open ones, by the item here that was made of each
        self.tended_ms = NOT_DUE
        self.fresh = Fresh()  # of the two below: what no file has yet
        self.ids = Ids(self.fresh)
        self.versions = Versions(self.fresh)
        self.to_come = ToCome(self)
        self._complained_ms = -_COMPLAINT_MS

    # -- storing ----------------------------------------------------------------------------

    put = storing.put
    add = storing.add
    refuse_put = storing.refuse_put
    make_room = storing.make_room

    fan_out = fanning.fan_out
    pass_on = fanning.pass_on
    pass_number = fanning.pass_number
    put_off_for_all = fanning.put_off_for_all
    catch_up = fanning.catch_up
    set_passing = fanning.set_passing
    is_needed = fanning.is_needed
    kept_now = fanning.kept_now
    release_due = fanning.release_due
    release_shared = fanning.release_shared

    @property
    def readers(self) -> list[Reader]:
        """Its own line, and its children as far as they know what arrived."""
        return [self.reader, *self.children.values()]

    @property
    def is_child(self) -> bool:
        """Is this a child of another one, whose log it reads?"""
        return False

    def note_less(self) -> None:
        """Many items went at once: of a child of a remnant perhaps the last."""

    @property
    def branches(self) -> list[Branch]:
        """Its children, each as a queue."""
        return [child.branch for child in self.children.values() if child.branch is not None]

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
        if policy.keys is not before.keys and self.reader.live:
            policy = replace(policy, keys=before.keys)
        self.reader.keyed.keys.matches_any = policy.keys.matches_any
        self.policy = policy
        self.reader.policy = policy
        self.log.set_sync(policy.sync_ms)
        self._tell_log()
        if (before.retain_ms, before.retain_bytes) != (policy.retain_ms, policy.retain_bytes):
            retained.let_go(self, now_ms, True)
        if (before.expire_to, before.dead_letter_to) != (policy.expire_to, policy.dead_letter_to):
            send_on(self.reader, self.reader.dead.deaths)
        self.alarm.need(self.next_due(now_ms))
        if self.reader.waiters:
            self.reader.serve(now_ms)

    def set_keys(self, keys: KeySettings) -> None:
        """Other rules for keys from now on; it holds no items."""
        assert not self.reader.live, "what is there has its key by the old rules"
        self.reader.keyed.keys.matches_any = keys.matches_any
        self.policy = self.reader.policy = replace(self.policy, keys=keys)

    def declare(self, declared: bytes, policy: Policy, now_ms: int) -> int:
        """Keep these settings, with the rules they make; returns the record to wait for."""
        self._apply_declared(declared)
        lsn = self.log.declared(declared, now_ms + self.wall.offset_ms)
        self.set_policy(policy, now_ms)
        self.set_passing(policy.fanout_only, now_ms)
        return lsn

    def pass_over(self, nominal: Watermark, now_ms: int) -> int:
        """Nothing is put for this schedule's times up to this one; the record to wait for.

        Raises ServerError when the journal has failed or has no room for it.
        """
        if self.log.failure is not None:
            self.raise_failed()
        if self.log.no_room:
            raise ServerError(self.log.no_room)
        self._apply_nominal(nominal)
        return self.log.nominal(nominal, now_ms + self.wall.offset_ms)

    def attach(self, log: Log, kept: IdSet | None = None) -> None:
        """Write to this log from now on. `kept` are the items that a start has found in it."""
        self.log = log
        self.reader.log = SharedLog(log, 0, self) if self.children else log
        for child in self.children.values():
            child.attach(log)
        self.know(log.identity or self.server_id)
        if not log.identity:
            self.fresh.keep_nothing()
        log.attached(self.to_come.count, self._first_open, partial(retained.lose, self))
        self._tell_log(kept)

    def know(self, secret: bytes) -> None:
        """What ids and keys are hashed with; before any is remembered, or what it was then."""
        self.ids.set_secret(secret)
        self.versions.set_secret(secret)

    def _first_open(self) -> int:
        """The lsn of what no start would know before two snapshots have it: a put whose origin is
        open, or that may be remembered only there, or what named a child."""
        if not (self.ids.is_empty and self.versions.is_empty):
            return 0
        first = next((origin.lsn for origin in self.origins.values()), NONE_OPEN)
        return min([first, *(child.named_lsn for child in self.children.values())])

    def _tell_log(self, kept: IdSet | None = None) -> None:
        """A queue that only lives in memory cannot leave anything to its log."""
        self.log.archive_to = self.policy.archive_to
        in_memory = self.log.backlog is None
        self.reader.residency.limit(UNLIMITED if in_memory else self.policy.max_memory_bytes)
        retained.retain(self, kept)

    @property
    def kept(self) -> IdSet:
        """The items whose puts must stay in the log: observers see them."""
        kept = self.retained
        return self.reader.live if kept is None else kept.up_to(self.next_number - 1)

    def tick(self, now_ms: int, steps: int) -> int:
        """Do what is due, in at most `steps` steps; returns how many were taken."""
        self.alarm.silence()
        if self.retained is not None:
            retained.look(self, now_ms)
        self.idle.look(now_ms)
        taken = self.release_due(now_ms, steps)
        for reader in self.readers:
            taken += reader.tick(now_ms, max(steps - taken, 0))
        tend(self, now_ms)
        due = self.next_due(now_ms)
        if due is not None and due <= now_ms:
            due = now_ms + 1  # there is more than `steps`: what else is due comes before that
        self.alarm.need(due)
        return taken

    def take_place(self, is_for_all: bool = False) -> int:
        """The next number, for an item that becomes available: in one line, or for all."""
        place = self.next_number
        if self.children and not is_for_all:
            self.pass_number(place)
        if self.retained is not None:
            self.retained.skip(place)
        self.next_number = place + 1
        return place

    def release(self, id_: int, size: int, now_ms: int) -> int:
        """An item that was delayed is available: it takes the next number as its place.

        Returns the record to wait for.
        """
        if self.missed is not None:
            return self.release_shared(self.reader, id_, size, now_ms)
        reader, log, place = self.reader, self.log, self.take_place()
        reader.marks.give(place, id_)
        unlogged, lsn = reader.delays.unlogged, log.lsn_appended
        if id_ in unlogged:  # there is no room for it, and a restart knows of no delay
            unlogged.remove(id_)
        else:
            lsn = log.released(id_, place, now_ms + self.wall.offset_ms)
        item = reader.delays.items.pop(id_, None)
        fanning.stand(reader, item, id_, size, place, lsn)
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
            and not self.children  # they are for what is put into it next
            and not self.reader.paused  # it would lend again under the same name
            and not self.epochs  # it knows which times of a schedule are not put again
            and self.ids.is_empty  # and which ids
            and self.versions.is_empty
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
        dues = [due for due in (r.next_due() for r in self.readers) if due is not None]
        if self.missed is not None and self.missed.due.count:
            dues.append(self.missed.due.next_due(self.wall.offset_ms) or 0)
        if (kept := self.retained) is not None and kept.look_ms is not None:
            dues.append(kept.look_ms)
        due = min(dues, default=None)
        begin_tending(self, now_ms)
        if self.tended_ms != NOT_DUE:
            due = self.tended_ms if due is None else min(due, self.tended_ms)
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
        self.catch_up()
        return State(
            self.checkpoint(), reader.live.copy(), reader.live_bytes, reader.attempts.copy(),
            list(reader.dead.deaths.values()), list(reader.leases.entries.values()),
            paused=reader.paused, declared=self.declared, watermarks=dict(self.epochs),
            origins=self.origins.copy(),
            delayed=reader.delays.entries(self.wall.offset_ms), placed=placed(reader),
            held=dict(reader.keyed.held), readers=fanning.readers_state(self),
            passes_on=self.passes_on, is_remnant=self.is_remnant, memory=remembered(self),
            retained=self.kept.copy() if self.retained else None,
        )  # fmt: skip

    # -- applying ---------------------------------------------------------------------------

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.next_number = id_ + 1
        self.total_items += 1
        self.reader._apply_put(id_, body_bytes)

    def _apply_stamp(
        self, stamp: ItemHeader, key: bytes, id_: int, stored_ms: int, reader: int = 0
    ) -> None:
        if stamp.id and not reader:
            self.ids._apply_seen(stamp, id_, stored_ms)
        if key and not reader:
            self.versions._apply_written(key, stamp.version, id_, stored_ms)

    def _apply_passed(self, id_: int) -> None:
        """A put of which its own line takes nothing."""
        self.next_number = id_ + 1
        self.total_items += 1

    def _apply_nominal(self, nominal: Watermark) -> None:
        raise_watermark(self.epochs, nominal)

    def _apply_opened(self, id_: int, origin: Origin) -> None:
        self.origins[id_] = origin

    def _apply_settled(self, id_: int) -> None:
        self.origins.pop(id_, None)

    def _apply_declared(self, declared: bytes) -> None:
        self.declared = declared
