"""The state of one subscription: its items, and the state of each.

      READY ---open---> LEASED ---confirm---> done
        ^                |  \\
        +---- nack ------+   +--- attempts used up ---> DEAD
        ^                |
        +--- DELAYED <---+                  READY past its expiry ---> expired

The ready list in memory is a copy of a part of the state, as large as memory allows.

One rule: only `_apply_x` changes which items there are; it takes no clock and cannot fail, so
replay calls the same.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final, NoReturn, Protocol, TypeVar

from journal.errors import OF_QUEUE, Damage
from journal.format import RawDraft
from journal.sets import IdCounts, IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.counters import QueueCounters
from kestrelpy.core.index import (
    ITEM_COST,
    UNLIMITED,
    DeadLetters,
    Delay,
    Delays,
    ExpiryWatch,
    Holder,
    Leases,
    LoggedExpiries,
    MarkerIndex,
    MemoryBudget,
    MemoryShare,
    Ready,
    TokenRange,
    Waiter,
    Waiters,
)
from kestrelpy.core.item import Item
from kestrelpy.core.log import Log, records
from kestrelpy.core.policy import Policy
from kestrelpy.core.timers import Alarm
from kestrelpy.errors import ClientError, ItemRefused, ServerError

# Lease tokens reserved by one synced record.
TOKENS_RESERVED: Final = 1 << 20
T = TypeVar("T")
_COMPLAINT_MS: Final = 60_000  # one line a minute about a client's mistake is enough


class Needs(Protocol):
    """The items that the subscriptions of one log need."""

    def may_be_needed(self, id_: int) -> bool:
        """True if any subscription may still need this item; if not, the log counts soon."""

    def needed_now(self) -> IdSet:
        """Return all items that any subscription needs, as a set that does not change later."""

    def append_lessening(self, draft: RawDraft, now_ms: int) -> int:
        """Append a record after which some items may not be needed any more; return its lsn."""


class SubscriptionState:
    """The data of a subscription. Its verbs are in `Subscription` and in the parts it consists of.

    `placings` are places, each with the record that gave it while that may not be stored yet.
    `sought_keys` are blocked items past their expiry, with their keys, None while those are being
    read. `restored` are delayed since before the start: only the log has their expiries. `ageless`
    were redriven and have no expiry, whatever their puts state.
    """

    __slots__ = (
        "_complained_ms", "_next_token", "_tokens_below", "ageless", "alarm", "attempts", "clock",
        "counters",
        "damages", "dead", "delays", "ends", "expiries", "held_keys", "leased_bytes", "leases",
        "live", "live_bytes", "log", "markers", "moving", "name", "needs", "needs_read", "notes",
        "number", "out_of_order", "outgoing", "paused", "placings", "policy", "read_ahead", "ready",
        "residency", "restored", "sought_keys", "to_read", "to_resume", "token_holder", "tokens",
        "tokens_lsn", "unread", "unreadable", "waiters", "watch",
    )  # fmt: skip

    def __init__(
        self,
        name: bytes,
        policy: Policy,
        log: Log,
        clock: ClockOffset,
        to_resume: list[Waiter],
        alarm: Alarm[Any],
        memory: MemoryBudget,
        to_read: list[Any],
        number: int = 0,
        tokens: TokenRange | None = None,
    ) -> None:
        """The subscription adds itself to `to_read` when it needs a read, and served waiters to
        `to_resume`."""
        self.name = name
        self.number = number  # in the records about it; 0: the queue's own consumers
        self.policy = policy
        self.needs: Needs | None = None  # of all subscriptions of the log; None: there is only one
        self.attach(log)
        self.clock = clock
        self.paused = False  # True while an operator lets it lease nothing
        self.to_resume = to_resume
        self.alarm = alarm
        # Neither leased nor dead, and not in id order in the log: delayed, placed or blocked.
        self.out_of_order = IdSet()
        self.ready = Ready(self.out_of_order)
        self.placings: deque[tuple[int, int]] = deque()
        self.watch = ExpiryWatch(alarm, clock)
        self.ends = LoggedExpiries(alarm, clock)  # of the other items that are known to expire
        self.sought_keys: dict[int, bytes | None] = {}
        self.restored, self.ageless = IdSet(), IdSet()
        self.held_keys: dict[int, bytes] = {}  # the keys of items that were nacked with a delay
        self.leases = Leases()
        self.leased_bytes = 0  # of the bodies of leased items that are in memory
        self.dead = DeadLetters()
        self.delays = Delays()
        self.markers = MarkerIndex()
        self.moving = 0  # items leased to the mover
        self.notes: list[str] = []  # lines for the log
        self.outgoing: list[int] = []  # dead items that are to go on to another queue
        self.waiters = Waiters()
        self.live = IdSet()
        self.expiries: dict[int, int] = {}  # by item: its expiry, where a lease has put that off
        self.live_bytes = 0  # of the bodies of all live items: ready, delayed, leased or dead
        self.attempts = IdCounts()
        self.residency = MemoryShare(memory, UNLIMITED)
        self.to_read = to_read
        self.needs_read = False
        self.unread = ""  # the reason why no read back succeeds now; "": there is none
        # Items that the log does not give any more: no client gets them until the next start.
        self.unreadable = IdSet()
        self.damages: list[Damage] = []
        self.counters = QueueCounters()
        self.token_holder = Holder("token")
        self.tokens = tokens or TokenRange()
        self.tokens_lsn = 0
        self._complained_ms = -_COMPLAINT_MS
        self._next_token = 1
        self._tokens_below = 1

    @property
    def cost(self) -> int:
        """The memory that the ready list and the bodies of leased items take, in bytes."""
        ready = self.ready
        resident = ready.resident_bytes + ready.resident * ITEM_COST
        return resident + ready.blocked_cost + self.leased_bytes

    @property
    def latest_marker(self) -> int:
        """The highest marker that an item of this subscription was given."""
        return max(self.live.last, self.markers.latest)

    @property
    def next_token(self) -> int:
        """The token of the next lease; 0: it is not reserved yet."""
        return self._next_token if self._next_token < self._tokens_below else 0

    @property
    def tokens_below(self) -> int:
        """The lowest token such that neither it nor a higher one has been issued."""
        return self.tokens.below

    @property
    def is_seeking(self) -> bool:
        """True if expired items end as soon as their keys have been read."""
        return bool(self.sought_keys) and self.log.failure is None and not self.unread

    def tidy(self) -> None:
        """Release memory that the ready list does not need after many items, or the last, went."""
        self.residency.shrink(self.cost)
        if not self.live.count:
            self.placings.clear()

    def know_unreadable(self, ids: IdSet) -> IdSet:
        """Note items that the log does not hold any more; return those that were not known."""
        new = ids.without(self.unreadable)
        if new.count:
            self.unreadable = IdSet.union([self.unreadable, new])
        return new

    def name_unreadable(self, ids: IdSet) -> None:
        """Report items that are live by the log's records and that it does not hold any more; each
        is reported once."""
        ids = self.know_unreadable(ids)
        if not ids.count:
            return
        items = "1 item" if ids.count == 1 else f"{ids.count} items"
        where, what = f"{OF_QUEUE}{self.name.decode('ascii')}", f"{items} cannot be read"
        first = ids.first_from(0)
        self.damages.append(Damage("corrupt", where, 0, 0, what, 1, 1, first, ids.last))

    def _reserve_tokens(self, unix_ms: int) -> None:
        self._next_token = self.tokens.take(TOKENS_RESERVED)
        self._tokens_below = self.tokens.below
        # One sequence of ranges for all subscriptions of the log.
        self.tokens_lsn = self.log.append(records.tokens(self._tokens_below, unix_ms))

    # -- its records ------------------------------------------------------------------------

    def attach(self, log: Log) -> None:
        """Write to this log from now on, and read back from it the items without room in memory."""
        self.log = log
        self.read_ahead = log.another_read_ahead() if self.number else log.read_ahead

    def append(self, draft: RawDraft) -> int:
        """Append a record of this subscription; return its lsn."""
        return self.log.append(draft if self.needs is None else self.own(draft))

    def own(self, draft: RawDraft) -> RawDraft:
        """Return the record as that of this subscription: with its number.

        The segment list counts an item as ended by the record that ends it for the last
        subscription that needs it, and by no other. So a segment stays while any may read it.
        """
        kind, item, number, small, time_ms, meta, body, reader, put_lsn = draft
        if (needs := self.needs) is not None:
            reader = self.number
            if put_lsn and needs.may_be_needed(item):
                put_lsn = 0
        return kind, item, number, small, time_ms, meta, body, reader, put_lsn

    # -- what its queue refuses -------------------------------------------------------------

    def raise_failed(self) -> NoReturn:
        """Raise ServerError: the journal has failed."""
        raise ServerError(
            f"journal failed, queue {self.name.decode('ascii')} is closed until a restart: "
            f"{self.log.failure}"
        )

    def may_complain(self, now_ms: int) -> bool:
        """True if another line about this queue's clients may go to the log; then the minute until
        the next one begins."""
        if now_ms - self._complained_ms < _COMPLAINT_MS:
            return False
        self._complained_ms = now_ms
        return True

    def refuse_put(self, size: int) -> NoReturn:
        """Raise the error that says why nothing of this size is stored now."""
        if self.log.failure is not None:
            self.raise_failed()
        if self.policy.never_fits(size):
            raise ItemRefused(self.policy.why_never(self.name, size))
        raise ServerError(self.log.no_room)

    def expiry(self, expires_ms: int, delay: Delay | None, unix_ms: int) -> int:
        """Return when an item expires that is put now with this expiry (0: never) and delay.

        Raise ClientError if that is before it is due.
        """
        if self.policy.max_age_ms is not None:
            oldest = unix_ms + self.policy.max_age_ms
            expires_ms = min(expires_ms, oldest) if expires_ms else oldest
        if delay is not None and 0 < expires_ms <= (due_ms := delay.due_ms(unix_ms)):
            raise ClientError(
                f"an item of {self.name.decode('ascii')} would expire {due_ms - expires_ms} ms "
                "before it is due: give it a shorter delay, or a later expiry (max_age counts from "
                "being stored)"
            )
        return expires_ms

    # -- reading back -----------------------------------------------------------------------

    def know_expiry(self, item: Item) -> None:
        """Note when an item expires that waits and is not in the ready list in memory."""
        if item.expires_ms:
            self.ends.add(item.id, item.expires_ms, item.size)
        elif not (item.is_whole or item.stored_ms):
            self.look_up(item.id)  # a bare item, from before the start

    def look_up(self, id_: int) -> None:
        """Have the put of this item read: only the log knows when the item expires."""
        if self.read_ahead is not None:
            self.ready.disk_refs.unsure.add(id_)
            self.schedule_read()

    def stands(self, id_: int) -> None:
        """Note that a delayed item is ready, and only the log has its body."""
        if self.restored.count and self.restored.discard(id_):
            self.look_up(id_)

    def look_up_all(self, ids: IdSet) -> None:
        """`look_up` each of these."""
        if self.read_ahead is not None and ids.count:
            disk_refs = self.ready.disk_refs
            disk_refs.unsure = IdSet.union([disk_refs.unsure, ids]).copy()
            self.schedule_read()

    def schedule_read(self) -> None:
        """Mark that an item has to be read back."""
        if not self.needs_read:
            self.needs_read = True
            self.to_read.append(self)

    def catch_up(self) -> None:
        """Take in the arrivals since the last look: a queue's own subscription has them all."""

    def follow(self) -> None:
        """Get each arrival at once from now on, if the waiters or limits need that. A queue's own
        subscription gets each arrival in any case."""

    def left(self, expires_ms: int) -> None:
        """Note that an arrival that expires is in the log alone: items before it are read back."""
        if not self.ready.resident:
            self.schedule_read()

    def bound(self, item: Item) -> Item:
        """Return the item as it is here: its expiry may be another one in this subscription."""
        if not (self.ageless.count or self.expiries):
            return item
        expires_ms = self.expires_here(item.id, item.expires_ms)
        return item if expires_ms == item.expires_ms else item.ending(expires_ms)

    def expires_here(self, id_: int, expires_ms: int) -> int:
        """Return when an item expires in this subscription (0: never), given that of its put."""
        if self.ageless.count and id_ in self.ageless:
            return 0
        return self.expiries.get(id_, expires_ms)

    # -- applying: the same for a client's request and for replay ----------------------------

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.live.add(id_)
        self.live_bytes += body_bytes

    def _apply_run(self, first: int, count: int, body_bytes: int) -> None:
        self.live.add_range(first, first + count - 1)
        self.live_bytes += body_bytes

    def _apply_done(self, id_: int, body_bytes: int) -> None:
        if self.live.discard(id_):
            self.live_bytes -= body_bytes
        if self.out_of_order.count:
            self.out_of_order.discard(id_)
        if self.held_keys:
            self.held_keys.pop(id_, None)
        if self.markers.hidden.count:
            self.markers.forget(id_)
        if self.attempts:
            self.attempts.set(id_, 0)
        if self.expiries:
            self.expiries.pop(id_, None)
        if not self.live.count or self.live_bytes < 0:
            self.live_bytes = 0  # only the log knew the size of an item that was dropped unread
            if self.placings or self.residency.grains:
                self.tidy()
        if self.watch.watched:
            self.watch.forget(id_)
        if self.unreadable.count:
            self.unreadable.discard(id_)
        if self.ends.ids.count:
            self.ends.forget(id_)
        if self.ageless.count:
            self.ageless.discard(id_)
        if self.restored.count:
            self.restored.discard(id_)
        if self.sought_keys:
            self.sought_keys.pop(id_, None)

    def _apply_returned(self, id_: int, attempts: int) -> None:
        if attempts:
            self.attempts.set(id_, attempts)

    def _apply_dead(
        self, id_: int, attempts: int, reason: bytes, died_ms: int, body_bytes: int
    ) -> None:
        if self.attempts:
            self.attempts.set(id_, 0)
        self.watch.forget(id_)
        self.ends.forget(id_)
        self.held_keys.pop(id_, None)
        if self.residency.grains and not self.ready.resident:
            self.tidy()
        self.dead.add(id_, attempts, reason, died_ms, body_bytes)

    def _apply_ageless(self, id_: int) -> None:
        """Let a dead letter that is redriven have no expiry any more."""
        self.ageless.add(id_)
        self.expiries.pop(id_, None)

    def _apply_flushed(self, spared: IdSet, last_id: int, live_bytes: int) -> None:
        """Of all items up to `last_id`, retain `spared` and the dead letters: `live_bytes` in all.
        """
        stay, out_of_order = IdSet.union([spared, self.dead.ids]), self.out_of_order
        self.attempts.retain_only(stay, last_id)
        self.live.discard_range(1, last_id, stay)
        out_of_order.discard_range(1, out_of_order.last, stay.both(out_of_order))
        self.markers.retain_only(stay)
        self._forget_gone()
        self.retain_held_keys(spared)
        self.live_bytes = live_bytes

    def _apply_upto(self, marker: int, stay: IdSet, live_bytes: int) -> None:
        """Of all items up to the marker, retain `stay`; `live_bytes` of bodies are live then."""
        live, held = self.live, self.held_keys
        there = live.between(1, marker)
        gone = there.without(stay)
        live.discard_range(1, marker, there.both(stay))
        self.attempts.retain_only(live, marker)
        out_of_order = self.out_of_order
        out_of_order.discard_range(1, marker, out_of_order.between(1, marker).without(gone))
        for id_ in gone.both(self.markers.hidden):
            self.markers.forget(id_)
        for id_ in gone.both(self.ends.ids) if self.ends.ids.count else ():
            self.ends.forget(id_)
        if held:
            for id_ in gone:
                held.pop(id_, None)
        if self.expiries:
            for id_ in gone if gone.count < len(self.expiries) else [*self.expiries]:
                if id_ not in live:
                    self.expiries.pop(id_, None)
        self._forget_gone()
        self.live_bytes = live_bytes if live else 0
        self.tidy()

    def _forget_gone(self) -> None:
        """Forget what is known of items that are not live any more."""
        live = self.live
        if self.ageless.count:
            self.ageless = self.ageless.both(live)
        if self.restored.count:
            self.restored = self.restored.both(live)
        if self.unreadable.count:
            self.unreadable = self.unreadable.both(live)
        if self.sought_keys:
            self.sought_keys = {id_: key for id_, key in self.sought_keys.items() if id_ in live}

    def _apply_tokens(self, below: int) -> None:
        self.tokens.below = max(below, self.tokens.below)
        self._next_token = self._tokens_below = self.tokens.below

    def retain_held_keys(self, spared: IdSet) -> None:
        """Forget the keys of all delayed items but `spared`, and the expiries of those that are not
        live: the trash frees them, and few are looked at if few stay."""
        trash = self.residency.trash
        if self.expiries:
            trash.take(before := self.expiries)
            self.expiries = _only(before, self.live)
        if self.held_keys:
            trash.take(keys := self.held_keys)
            self.held_keys = _only(keys, spared)


def _only(known: dict[int, T], ids: IdSet) -> dict[int, T]:
    """Return what is known of these ids, after a look at the fewer of the two."""
    if ids.count < len(known):
        return {id_: known[id_] for id_ in ids if id_ in known}
    return {id_: each for id_, each in known.items() if id_ in ids}
