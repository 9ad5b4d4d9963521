"""Single items removed on request: a waiting item is cancelled, a dead letter purged.

    it waits ──▶ cancelled            leased, dead, gone ──▶ None
    the item stored under an id ──▶ the same: the id itself stays remembered, so that a repeated
                                    put does not bring the item back
    a dead letter that is not leased ──▶ purged

One rule: the record of a removal holds the item's size, so an item that only the log has is read
first; its state is checked again after the read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

from journal.store import Put
from kestrelpy.core import NO_KEY, Admin, AnyQueue, Broker, Browse, Where
from kestrelpy.errors import ServerError
from kestrelpy.operations.modes import check_changes
from kestrelpy.operations.ports import ItemReader, Site
from kestrelpy.operations.rests import Rests

_WAITS: Final = (Where.IN_MEMORY, Where.LOGGED, Where.DELAYED)


class Removal:
    """Removes items of one queue, for one client.

    `clock` returns the steady time in ms: it goes on while an item is read.
    """

    __slots__ = ("_clock", "_queue", "_reader", "_site")

    def __init__(
        self, queue: AnyQueue, reader: ItemReader, clock: Callable[[], int], site: Site
    ) -> None:
        self._queue = queue
        self._reader = reader
        self._clock = clock
        self._site = site

    @staticmethod
    def check(broker: Broker, site: Site, name: bytes) -> AnyQueue | None:
        """Return the queue, if items may be removed there; None: there is none. Raise Refused."""
        check_changes(site.mode, "removes")
        queue = broker.queues.get(name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        return queue

    def purge(self, id_: int) -> Rests | None:
        """Remove a dead letter; None: it is not dead, or it is leased."""
        lsn = Admin(self._queue).purge(id_, self._clock())
        return Rests(self._queue.log, lsn) if lsn is not None else None

    def is_logged(self, id_: int) -> bool:
        """True if the item has to be read before it is cancelled: `read_and_cancel`."""
        return self._queue.reader.where(id_) is Where.LOGGED

    def unstored(self, id_: int) -> Rests | None:
        """Return what must be on disk before the item can be read; None: nothing."""
        log = self._queue.log
        return Rests(log, log.lsn_appended) if id_ > log.item_stored else None

    def would_remove(self, id_: int) -> Generator[bytes, None, bool]:
        """Return whether `purge` or `cancel` would remove this item now; nothing is changed."""
        queue, where = self._queue, self._queue.reader.where(id_)
        if where is Where.DEAD:
            return True
        expires_ms = 0
        if where is Where.LOGGED:
            put = yield from self._reader.find(queue, id_)
            if put is None and self.is_logged(id_):
                self._raise_unreadable(id_)
            expires_ms = put.expires_ms if put is not None else 0
            where = queue.reader.where(id_)
        if where is Where.LOST:
            self._raise_unreadable(id_)
        if where not in _WAITS or queue.deleted:
            return False
        if where is Where.IN_MEMORY and (item := queue.reader.item(id_)) is not None:
            expires_ms = item.expires_ms
        unix_ms = self._clock() + queue.clock.offset_ms
        return not (expires_ms and Browse(queue).has_expired(id_, expires_ms, unix_ms))

    def read_and_cancel(self, id_: int) -> Generator[bytes, None, Rests | None]:
        """Read an item and remove it; None: it does not wait any more."""
        queue = self._queue
        put = yield from self._reader.find(queue, id_)
        check_changes(self._site.mode, "removes")
        if queue.log.failure is not None:
            queue.raise_failed()
        unix_ms = self._clock() + queue.clock.offset_ms
        if put is not None and Browse(queue).has_expired(id_, put.expires_ms, unix_ms):
            return None  # it is removed when a consumer reaches it
        if put is None and self.is_logged(id_):
            self._raise_unreadable(id_)
        return self.cancel(id_, put)

    def cancel(self, id_: int, put: Put | None = None) -> Rests | None:
        """Remove an item that waits; None: it does not. `put` is what the log says of it."""
        queue, now_ms = self._queue, self._clock()
        where = queue.reader.where(id_)
        if where is Where.LOST:
            self._raise_unreadable(id_)
        if where not in _WAITS or queue.deleted:
            return None
        item = queue.reader.item(id_) if where is Where.IN_MEMORY else None
        unix_ms = now_ms + queue.clock.offset_ms
        if item is not None and 0 < item.expires_ms <= unix_ms:
            return None  # it is removed when a consumer reaches it
        size, key = (len(put.body), put.key) if put is not None else (0, NO_KEY)
        return Rests(queue.log, Admin(queue).cancel(id_, size, now_ms, key))

    def _raise_unreadable(self, id_: int) -> None:
        name = self._queue.name.decode("ascii")
        raise ServerError(f"item {id_} of {name} cannot be read, so it stays: see the log")
