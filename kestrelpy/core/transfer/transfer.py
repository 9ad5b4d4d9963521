"""One item on its way to another queue: the copy is there, and the original is not gone from here.

    COPYING ──copy on disk──▶ LEFT ──its record on disk──▶ SETTLED      the usual way
       │                       │
       ├─ a journal fails ─────┴──▶ IN_DOUBT ──the source's files are gone──▶ SETTLED
       ├─ the source is deleted,
       │  and its log is closed ──▶ ORPHANED ──the source's files are gone──▶ SETTLED
       └─ the copy is lost ───────▶ STRANDED ──the target's files are gone──▶ RETURNED

In COPYING the transfer waits for the record of the copy, in LEFT for the record that ends the
original; in the other states it waits for the removal of files. If a source that can still write is
deleted, its LEFT waits for the record of the deletion. COPIED is no state: a copy that is on disk
takes the next step at once. A transfer that a restart finds begins in LEFT.

One rule: `NEXT` names every step. A state and an event that are not in it are a mistake of ours.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from journal.format import Origin
from kestrelpy.core.index import Lease
from kestrelpy.core.queue import AnyQueue
from kestrelpy.core.transfer.request import TransferRequest


class TransferState(IntEnum):
    """The state of a transfer."""

    COPYING = 0  # the copy may not be on disk yet; the original is leased to the mover
    LEFT = 1  # the copy is on disk, the end of the original may not be
    ORPHANED = 2  # only the removal of the source's files can still end the original
    IN_DOUBT = 3  # the copy is on disk, and a restart would find the original as well
    STRANDED = 4  # the original is leased to the mover, and no client gets the copy
    SETTLED = 5  # the original is gone
    RETURNED = 6  # the original is back


class Event(IntEnum):
    """What a transfer learns. An event of the source counts once the copy is on disk."""

    COPY_STORED = 0  # the copy is on disk, and the source can record the end of the original
    COPY_LOST = 1  # the target's journal failed, or was closed, before the copy was on disk
    END_STORED = 2  # the record that ends the original is on disk
    SOURCE_FAILED = 3  # the source's journal failed
    SOURCE_DELETED = 4  # the source is deleted, and its log has that or takes a record of it
    SOURCE_CLOSED = 5  # the source is deleted, and its log takes no record of that
    SOURCE_STAYS = 6  # the source is deleted, and its files could not be removed
    SOURCE_GONE = 7  # the files of the source are gone
    TARGET_GONE = 8  # the files of the target are gone


class TransferEffect(IntEnum):
    """What a step does."""

    NONE = 0
    END_ORIGINAL = 1  # record that the original is in the target now
    END_SOURCE = 2  # record that the source is deleted
    CLOSE_ORIGIN = 3  # record in the target that the original is gone
    GIVE_UP = 4  # end the request: an item of it is in doubt
    RETURN_ORIGINAL = 5


COPYING: Final = TransferState.COPYING
LEFT: Final = TransferState.LEFT
_new: Final = tuple.__new__  # half the cost of calling a named tuple
OVER: Final = (TransferState.SETTLED, TransferState.RETURNED)
END_ORIGINAL: Final = TransferEffect.END_ORIGINAL

NEXT: Final[dict[tuple[TransferState, Event], tuple[TransferState, TransferEffect]]] = {
    (COPYING, Event.COPY_STORED): (LEFT, END_ORIGINAL),
    (COPYING, Event.COPY_LOST): (TransferState.STRANDED, TransferEffect.GIVE_UP),
    (COPYING, Event.SOURCE_FAILED): (TransferState.IN_DOUBT, TransferEffect.GIVE_UP),
    (COPYING, Event.SOURCE_DELETED): (LEFT, TransferEffect.END_SOURCE),
    (COPYING, Event.SOURCE_CLOSED): (TransferState.ORPHANED, TransferEffect.NONE),
    (COPYING, Event.SOURCE_STAYS): (TransferState.IN_DOUBT, TransferEffect.NONE),
    (COPYING, Event.SOURCE_GONE): (TransferState.SETTLED, TransferEffect.CLOSE_ORIGIN),
    (LEFT, Event.END_STORED): (TransferState.SETTLED, TransferEffect.CLOSE_ORIGIN),
    (LEFT, Event.SOURCE_FAILED): (TransferState.IN_DOUBT, TransferEffect.GIVE_UP),
    (LEFT, Event.SOURCE_CLOSED): (TransferState.ORPHANED, TransferEffect.NONE),
    (LEFT, Event.SOURCE_STAYS): (TransferState.IN_DOUBT, TransferEffect.NONE),
    (LEFT, Event.SOURCE_GONE): (TransferState.SETTLED, TransferEffect.CLOSE_ORIGIN),
    (TransferState.ORPHANED, Event.SOURCE_STAYS): (TransferState.IN_DOUBT, TransferEffect.NONE),
    (TransferState.ORPHANED, Event.SOURCE_GONE): (
        TransferState.SETTLED,
        TransferEffect.CLOSE_ORIGIN,
    ),
    (TransferState.IN_DOUBT, Event.SOURCE_GONE): (
        TransferState.SETTLED,
        TransferEffect.CLOSE_ORIGIN,
    ),
    (TransferState.STRANDED, Event.TARGET_GONE): (
        TransferState.RETURNED,
        TransferEffect.RETURN_ORIGINAL,
    ),
}


class Transfer:
    """One transfer. `copy` is the item in the target, `lsn` the record that it waits for.

    `lease` is the mover's lease of the original until that has left; `size` are the bytes of its
    body. `request` is None if a client handed the item off, and once the request counts the item no
    more.
    """

    __slots__ = ("copy", "lease", "lsn", "request", "size", "source", "state", "target")

    def __init__(
        self, source: AnyQueue, target: AnyQueue, copy: int, lsn: int, lease: Lease | None,
        request: TransferRequest | None = None, state: TransferState = COPYING,
    ) -> None:  # fmt: skip
        self.source = source
        self.target = target
        self.copy = copy
        self.lsn = lsn
        self.lease = lease
        self.request = request
        self.state = state
        self.size = lease.item.size if lease is not None else 0

    @property
    def original(self) -> Lease:
        """The lease of the original, which has not left yet."""
        assert self.lease is not None
        return self.lease

    @property
    def is_cut_off(self) -> bool:
        """True if the source was deleted, or made again since: with another subscription."""
        source, lease = self.source, self.lease
        if source.deleted or lease is None:
            return source.deleted
        return lease.owner is not (source.child if source.child is not None else source.reader)

    @property
    def awaits(self) -> AnyQueue:
        """The queue whose log, or whose files, the transfer waits for."""
        state = self.state
        if state is COPYING:
            return self.target
        if state is LEFT:
            return self.source
        return self.target.files if state is TransferState.STRANDED else self.source.files

    @property
    def as_target(self) -> bytes:
        """The copy, as the record that ends the original names it."""
        target, copy = self.target, self.copy
        there = _new(Origin, (target.files.server_id, target.name, copy, target.generation, 0, 0))
        return there.as_target

    def step(self, event: Event) -> TransferEffect:
        """Enter the state that follows; return what there is to do."""
        self.state, effect = NEXT[self.state, event]
        return effect

    def news(self, is_on_disk: bool) -> Event:
        """Return what a log says: the record `is_on_disk`, or its journal has failed before."""
        source = self.source
        if self.state is COPYING:
            if not is_on_disk:
                return Event.COPY_LOST
            if not self.is_cut_off:
                is_open = source.log.failure is None
                return Event.COPY_STORED if is_open else Event.SOURCE_FAILED
        elif is_on_disk:
            return Event.END_STORED
        elif not source.files.is_going:
            return Event.SOURCE_FAILED
        files = source.files
        if files.is_gone:
            return Event.SOURCE_GONE
        if files.stays:
            return Event.SOURCE_STAYS
        is_closed = files.is_going and files.is_stuck
        return Event.SOURCE_CLOSED if is_closed else Event.SOURCE_DELETED
