"""The actions of an operator on a queue: pause it, and remove or move single items.

    READY, DELAYED ---cancel---> gone            LEASED: no action touches a leased item
    DELAYED        ---retry----> READY
    DEAD           ---purge----> gone
    DEAD           ---redrive--> READY, at a new place
    not readable   ---give up--> gone

A paused queue stores, confirms, nacks and shows items as ever; it leases none, nor dead letters.

One rule: decide, apply, log; the returned record is synced before any client is told.
"""

from __future__ import annotations

from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.log import on_disk, records
from kestrelpy.core.queue.child_queue import AnyQueue, ChildQueue
from kestrelpy.core.subscription import Where
from kestrelpy.errors import ServerError


class Admin:
    """The actions of an operator on one queue."""

    __slots__ = ("_queue",)

    def __init__(self, queue: AnyQueue) -> None:
        self._queue = queue

    def pause(self, paused: bool, now_ms: int) -> int:
        """Lease nothing from now on, or lease again; return the record to wait for.

        Raise ServerError when the journal has failed or has no room for a record of it.
        """
        log, reader = self._queue.log, self._queue.reader
        if log.failure is not None:
            self._queue.raise_failed()
        if paused == reader.paused:
            return log.lsn_appended  # the record of it may still be on its way to the disk
        if log.no_room:
            raise ServerError(log.no_room)
        reader.paused = paused
        lsn = log.append_standing(
            reader.own(records.paused(paused, now_ms + self._queue.clock.offset_ms))
        )
        if not paused and reader.waiters:
            reader.serve(now_ms)
        return lsn

    def cancel(
        self, id_: int, body_bytes: int, now_ms: int, key: bytes = NO_KEY
    ) -> int:
        """Remove an item that is ready or delayed; return the record to wait for.

        `body_bytes` and `key` are those in the log, for an item that only the log has.
        """
        reader = self._queue.reader
        size = reader.take_out(id_, body_bytes, key)
        unix_ms = now_ms + self._queue.clock.offset_ms
        return reader.append(records.cancelled(id_, size, unix_ms))

    def retry(self, id_: int, now_ms: int) -> int | None:
        """Make a delayed item available now; return the record to wait for.

        None: the item is not delayed. Raise ServerError when the journal has failed.
        """
        if self._queue.log.failure is not None:
            self._queue.raise_failed()
        reader = self._queue.reader
        if reader.where(id_) is not Where.DELAYED:
            return None
        _, size = reader.delays.find(id_, self._queue.clock)
        item, unlogged = reader.delays.items.get(id_), id_ in reader.delays.unlogged
        reader.delays.remove(id_, size)
        if item is not None:
            reader.delays.items[id_] = item
        if unlogged:
            reader.delays.unlogged.add(id_)
        lsn = self._queue.release(id_, size, now_ms)
        if reader.waiters:
            reader.serve(now_ms)
        return lsn

    def purge(self, id_: int, now_ms: int) -> int | None:
        """Remove a dead letter that is not leased; return the record to wait for.

        None: the item is not dead, or it is leased.
        """
        reader = self._queue.reader
        if reader.where(id_) is not Where.DEAD:
            return None
        unix_ms = now_ms + self._queue.clock.offset_ms
        return reader.append(records.cancelled(id_, reader.take_out(id_), unix_ms))

    def would_give_up(self, id_: int) -> bool:
        """True if `give_up` would end this item."""
        reader = self._queue.reader
        item = reader.item(id_)
        is_here = id_ in reader.leases or (item is not None and item.is_whole)
        return id_ in reader.unreadable and not is_here

    def give_up(self, id_: int, now_ms: int) -> bool:
        """End an item that cannot be read; nothing if it can be, or is gone.

        One in memory can be: clients get it. One that is leased stays its client's.
        """
        reader, is_lost = self._queue.reader, self.would_give_up(id_)
        reader.unreadable.discard(id_)
        if not is_lost:
            return False
        size = 0
        if reader.where(id_) in (Where.LOST, Where.GONE):
            reader._apply_done(id_, size)  # no list has it any more
        else:
            size = reader.take_out(id_)
        reader.append(records.cancelled(id_, size, now_ms + self._queue.clock.offset_ms))
        files = self._queue.files if isinstance(self._queue, ChildQueue) else self._queue
        if (log := on_disk(files.log)) is not None and not files.is_needed(id_):
            log.store.unreadable.discard(id_)
        return True

    def redrive(self, id_: int, now_ms: int) -> int | None:
        """Make a dead letter ready again, after all other items, with no attempts and no expiry.

        Return the record to wait for. None: the item is not dead, or it is leased.
        """
        reader = self._queue.reader
        if reader.where(id_) is not Where.DEAD:
            return None
        death = reader.dead.deaths[id_]
        place, item = self._queue.take_place(), reader.dead.at(id_)
        reader.dead.forget(id_, False)
        reader._apply_ageless(id_)
        unix_ms = now_ms + reader.clock.offset_ms
        lsn = reader.append(records.redriven(id_, place, unix_ms))
        if item is None:
            reader.ready_items.stand(place, id_, death.body_bytes)
            reader.ready_items.placed(place, lsn)
            reader.ready_items.look_ahead()
        else:
            item = reader.bound(item)
            item.lsn = max(item.lsn, lsn)  # the item is shown when that record is stored
            reader.ready_items.put_back(item, place)
        return lsn
