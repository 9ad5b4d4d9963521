"""The state of one queue: its numbers, its log, and the subscriptions to its items.

An item's id and its place in the ready list are one number, from one counter: an item that becomes
available later (delayed) takes the next number as its place, and no item ever has that id.

One rule: only `_apply_x` changes what a restart knows; replay calls the same.
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

from journal.format import ItemHeader, Origin, Watermark, raise_watermark
from journal.sets import IdSet
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.fanout import Child, Unseen
from kestrelpy.core.index import MemoryBudget, RetainedIds, Waiter
from kestrelpy.core.log import Log
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.dedupe_window import DedupeWindow
from kestrelpy.core.subscription import Subscription
from kestrelpy.core.timers import Alarm, Timers


class QueueState:
    """The data of a queue. `generation` tells it from earlier queues of its name."""

    __slots__ = (
        "alarm",
        "child_timers",
        "children",
        "clock",
        "created_ms",
        "declared",
        "dedupe",
        "deleted",
        "deleted_lsn",
        "eager",
        "floor",
        "generation",
        "heard_ms",
        "is_gone",
        "is_replaced",
        "is_tombstone",
        "lagging",
        "log",
        "memory",
        "metadata",
        "name",
        "next_number",
        "origins",
        "passes_on",
        "policy",
        "put_bytes",
        "reader",
        "readers_named",
        "retained",
        "rung",
        "server_id",
        "stays",
        "total_items",
        "unseen",
        "watermarks",
    )  # fmt: skip

    child: ClassVar[Child | None] = None  # it is none

    def __init__(
        self, name: bytes, generation: int, policy: Policy, log: Log, clock: ClockOffset,
        to_resume: list[Waiter], timers: Timers[Any], now_ms: int, memory: MemoryBudget,
        to_read: list[Any], declared: bytes = b"",
    ) -> None:  # fmt: skip
        """`declared` are a client's settings: only the shell reads them, and makes the policy."""
        self.name = name
        self.declared = declared
        self.metadata = b""  # a client's, as JSON; only HTTP reads it
        self.generation = generation
        self.policy = policy
        self.log = log
        self.clock = clock
        self.alarm: Alarm[Any] = Alarm(timers, self)
        self.reader = Subscription(name, policy, log, clock, to_resume, self.alarm, memory, to_read)
        self.retained: RetainedIds | None = None  # the items that stay in the log; None: live ones
        self.memory = memory
        self.children: dict[bytes, Child] = {}  # by their names after the `+`
        self.child_timers: Timers[Child] = Timers()  # when children have work to do
        # The children that are given each item as it comes; and those that get the latest items in
        # one of the next ticks, since very many clients wait.
        self.eager: dict[Child, None] = {}
        self.lagging: dict[Child, None] = {}
        self.rung: list[Child] = []  # the children that the last tick looked at
        self.unseen: Unseen | None = None  # numbers the lazy ones have not seen; None: no child yet
        self.readers_named = 0  # the highest number that a child was given
        self.put_bytes = 0  # of the items put for all, since there are children
        self.passes_on = False  # True if its own consumers get none of the items put for all
        self.is_tombstone = False  # True if it is deleted, and stays for its children alone
        self.is_replaced = False  # True for a tombstone whose name a later log has
        self.floor = 0  # its own consumers get items after this one; it was deleted before
        self.next_number = 1  # of an item, or of a place that is no item's id
        self.total_items = 0  # that were ever put
        self.created_ms = now_ms
        self.deleted = False
        self.deleted_lsn = 0  # of the record that says so, if its log has one
        self.stays = False  # True if it is deleted, and its files could not be removed
        self.is_gone = False  # True once its files are gone as well
        self.server_id = b""
        self.heard_ms = 0  # the latest time of the running clock that its log says
        self.watermarks: dict[bytes, int] = {}  # by schedule: the latest run time enqueued, in s
        self.origins: dict[int, Origin] = {}  # open ones, by the item here that was made of each
        self.dedupe = DedupeWindow(self.alarm, clock)

    @property
    def readers(self) -> list[Subscription]:
        """The subscription of its own consumers and those of its children, which may have to catch
        up."""
        return [self.reader, *self.children.values()]

    @property
    def last_number(self) -> int:
        """The latest number that an item or a place was given."""
        return self.next_number - 1

    @property
    def readable(self) -> IdSet:
        """The items whose puts must stay in the log: observers see them."""
        readable = self.retained
        return self.reader.live if readable is None else readable.up_to(self.next_number - 1)

    @property
    def is_empty(self) -> bool:
        """True if the queue holds no items, no waiters and no open origins."""
        reader = self.reader
        return not (reader.live or reader.waiters or self.origins)

    def catch_up(self) -> None:
        """Let every child take in the arrivals."""
        for child in self.children.values():
            child.catch_up()
        if self.unseen is not None:
            self.unseen.looked_at()

    def raise_failed(self) -> NoReturn:
        """Raise ServerError: this queue's journal has failed."""
        self.reader.raise_failed()

    # -- applying: the same for a client's request and for replay ----------------------------

    def _apply_put(self, id_: int, body_bytes: int) -> None:
        self.next_number = id_ + 1
        self.total_items += 1
        self.reader._apply_put(id_, body_bytes)

    def _apply_run(self, first: int, count: int, body_bytes: int) -> None:
        """`_apply_put` for `count` items, from `first` on."""
        self.next_number = first + count
        self.total_items += count
        self.reader._apply_run(first, count, body_bytes)

    def _apply_header(
        self, header: ItemHeader, key: bytes, id_: int, stored_ms: int, body: bytes
    ) -> None:
        if header.id:
            self.dedupe.ids._apply_seen(header, id_, stored_ms, key, body)
        if key:
            self.dedupe.versions._apply_written(key, header.version, id_, stored_ms)

    def _apply_passed(self, id_: int) -> None:
        """Note an item that was put and that the queue's own consumers do not get."""
        self.next_number = id_ + 1
        self.total_items += 1

    def _apply_nominal(self, nominal: Watermark) -> None:
        raise_watermark(self.watermarks, nominal)

    def _apply_again(self, number: int) -> None:
        """Note that this deleted queue was made again after the item `number`."""
        self.is_tombstone = self.deleted = self.passes_on = False
        self.floor = number
        self.dedupe.begin_anew(number)

    def _apply_opened(self, id_: int, origin: Origin) -> None:
        self.origins[id_] = origin

    def _apply_settled(self, id_: int) -> None:
        self.origins.pop(id_, None)

    def _apply_declared(self, declared: bytes, metadata: bytes) -> None:
        self.declared, self.metadata = declared, metadata
