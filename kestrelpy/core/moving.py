"""The steps of a move, each within one queue: taken, stored as a copy, gone, settled.

      READY or DEAD ──take──▶ lent to the mover ──leave──▶ gone: MOVED
            ▲                       │                      (the target has it on disk)
            └────── put_back ───────┘
                                       receive ──▶ READY in the target, its origin open
                                                   settle ──▶ closed

      DEAD ──redrive──▶ READY in the same queue, at a new place: REDRIVEN

What is lent to the mover is lent to nobody else, and no time ends that. It stands in no record: a
crash finds the item where it was, and the target's open origin if there is a copy.

One rule: an item leaves its queue only when its copy is on disk.
"""

from __future__ import annotations

from typing import Final

from journal.canonical import split
from journal.moving import Origin, moved, settled
from journal.record import Draft, Kind
from kestrelpy.core.item import Item, MovedItem
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.leases import Holder, Lease
from kestrelpy.core.queue import Queue
from kestrelpy.core.reader import Reader
from kestrelpy.errors import ClientError, ServerError

_NOBODY: Final = 0  # the token of a lease that nobody is shown


# -- in the source --------------------------------------------------------------------------------


def take_dead(reader: Reader, id_: int, mover: Holder) -> Lease | None:
    """This dead item, lent to the mover; None: its body has to be read back, which is asked for.

    It is dead, can be read, and nobody holds it.
    """
    item = reader.dead.take(id_)
    if item is None:
        reader.dead.wanted = id_
        reader.ask()
        return None
    death = reader.dead.deaths[id_]
    lease = _lend(reader, item, death.order, mover, death.attempts)
    lease.dead = True
    return lease


def take_first(reader: Reader, now_ms: int, mover: Holder) -> Lease | None:
    """The next item that is ready, lent to the mover; None: there is none, or not yet."""
    found = reader.pop(now_ms)
    if found is None:
        return None
    place, item = found
    if reader.elsewhere.count:
        reader.elsewhere.discard(item.id)
    if item.key:
        reader.keyed.lend(item)
    return _lend(reader, item, place, mover, reader.attempts.get(item.id))


def _lend(reader: Reader, item: Item, place: int, mover: Holder, attempts: int) -> Lease:
    lease = Lease(item, place, mover, reader, _NOBODY, attempts, 0, None)
    reader.leases.grant(lease)
    reader.lent_bytes += len(item.body)
    reader.moving += 1
    return lease


def put_back(reader: Reader, lease: Lease) -> None:
    """It does not move: it is where it was."""
    item = reader.end(lease)
    reader.moving -= 1
    if lease.dead:
        reader.dead.give_back(item)
    else:
        reader.line.take_back(item, lease.place)


def leave(reader: Reader, lease: Lease, target: Origin, now_ms: int) -> int:
    """It is `target` now, on disk, and gone here; returns the record to wait for."""
    item = reader.end(lease)
    reader.moving -= 1
    if lease.dead:
        reader.dead.forget(item.id, True)
    elif item.key:
        reader.keyed.end(item)
    lsn = _leave(reader, item.id, item.size, target, now_ms)
    if item.key and reader.waiters:
        reader.serve(now_ms)  # another item of its key may be possible
    return lsn


def leave_unread(reader: Reader, id_: int, body_bytes: int, target: Origin, now_ms: int) -> int:
    """`leave` at a start: this item is there, and nothing was read back yet.

    What the log says of it last may be older than its move: records that a crash took away.
    """
    ready, lease = reader.ready, reader.leases.of(id_)
    key = reader.keyed.held.get(id_, NO_KEY)
    if lease is not None:
        item = reader.end(lease)
        key = NO_KEY if lease.dead else item.key
    elif id_ in reader.dead.deaths:
        reader.dead.forget(id_, False)
    elif id_ in reader.delays:
        reader.delays.remove(id_, body_bytes)
    elif not ready.stubs.remove(id_, body_bytes):
        ready.drop_beyond(body_bytes)
        ready.advance(ready.frontier)
    if key:
        reader.keyed.drop_known(id_, key, body_bytes)
    return _leave(reader, id_, body_bytes, target, now_ms)


def _leave(reader: Reader, id_: int, body_bytes: int, target: Origin, now_ms: int) -> int:
    reader._apply_done(id_, body_bytes)
    log = reader.log
    wall_ms = now_ms + reader.wall.offset_ms
    return log.write(moved(id_, body_bytes, target, wall_ms, not log.no_room))


def redrive(queue: Queue, id_: int, now_ms: int) -> int | None:
    """A dead item is ready again, behind all others, with no attempts; the record to wait for.

    None: it is not dead, or somebody holds it.
    """
    reader = queue.reader
    death = reader.dead.deaths.get(id_)
    if death is None or id_ in reader.leases:
        return None
    place, item = queue.next_number, reader.dead.at(id_)
    queue.next_number = place + 1
    reader.dead.forget(id_, False)
    wall_ms = now_ms + reader.wall.offset_ms
    lsn = reader.log.write(Draft(Kind.REDRIVEN, id_, place, 0, wall_ms, b"", b"", 0, 0))
    if item is None:
        reader.line.stand(place, id_, death.body_bytes)
        reader.line.placed(place, lsn)
        reader.line.look_ahead()
    else:
        item.lsn = max(item.lsn, lsn)  # it is shown when that is stored
        reader.line.take_back(item, place)
    return lsn


# -- in the target --------------------------------------------------------------------------------


def receive(queue: Queue, item: Item, origin: Origin, now_ms: int) -> Item:
    """Store a copy as a new arrival; its own lsn is the record to wait for.

    An expiry that is still to come is kept, and a key that it has. Raises ServerError with the
    reason, and nothing is stored.
    """
    log, policy = queue.log, queue.policy
    if log.failure is not None or log.no_room or item.size > policy.max_item_bytes:
        queue.refuse_put(item.size)
    try:
        key = policy.keys.key_of(queue.name, tuple(split(item.key)), item.body)
    except ClientError as error:
        raise ServerError(str(error)) from None
    if policy.bounded and not queue.make_room(item.size, now_ms):
        raise ServerError(f"queue {queue.name.decode('ascii')} is full")
    wall_ms = now_ms + queue.wall.offset_ms
    expires_ms = item.expires_ms if item.expires_ms > wall_ms else 0
    if policy.max_age_ms is not None:
        oldest = wall_ms + policy.max_age_ms
        expires_ms = min(expires_ms, oldest) if expires_ms else oldest
    number = queue.next_number
    copy = MovedItem(
        number, number, item.body, item.flags, wall_ms, expires_ms, origin, 0, key
    )
    queue._apply_put(number, copy.size)
    copy.lsn = log.put(copy)
    queue._apply_opened(copy.id, origin._replace(lsn=copy.lsn))
    reader = queue.reader
    reader.line.keep(copy)
    if reader.waiters:
        reader.serve(now_ms)
    return copy


def settle(queue: Queue, id_: int, now_ms: int) -> None:
    """The item that this one was made of is gone, on disk."""
    origin = queue.origins.get(id_)
    if origin is None:
        return
    queue._apply_settled(id_)
    queue.log.write(settled(id_, origin, now_ms + queue.wall.offset_ms))
