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

from journal.format import Draft, Kind
from journal.format.item_header import ItemHeader
from journal.format.key import split
from journal.format.transfer import Origin, moved, settled, settled_many
from kestrelpy.core.index.leases import Holder, Lease
from kestrelpy.core.index.versions import NEVER
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.queue.child_queue import Branch
from kestrelpy.core.queue.put import remember
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.subscription.nack import DEFERRED
from kestrelpy.core.subscription.subscription import Reader
from kestrelpy.errors import ClientError, ItemRefused, ServerError

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
    lease.is_moving = True
    reader.leases.grant(lease)
    reader.lent_bytes += len(item.body)
    reader.moving += 1
    return lease


def put_back(reader: Reader, lease: Lease) -> None:
    """It does not move: it is where it was."""
    item = reader.end(lease)
    reader.moving -= 1
    if lease.dead:
        reader.dead.give_back(item, reader.log.backlog is None)
    else:
        reader.line.take_back(item, lease.place)


def leave(
    reader: Reader, lease: Lease, target: bytes, now_ms: int, lazily: bool = False
) -> int:
    """It is another item now, on disk, and gone here; returns the record to wait for.

    `target` is what the record says of that one (`Origin.as_target`). `lazily`: nobody waits, and
    whoever calls this has it written soon.
    """
    item = reader.end(lease)
    delivery = began_ms = 0
    if was_handed_off := lease.token != _NOBODY:
        delivery, began_ms = lease.attempts + 1, lease.began_ms
    else:
        reader.moving -= 1
    if lease.dead:
        reader.dead.forget(item.id, True)
    elif item.key:
        reader.keyed.end(item)
    size, log = item.size, reader.log
    reader._apply_done(item.id, size)
    wall_ms = now_ms + reader.wall.offset_ms
    draft = moved(item.id, size, target, wall_ms, not log.is_full, delivery, began_ms)
    lsn = log.write_lazily(draft) if lazily else log.write(draft)
    if reader.waiters.count and (
        item.key or (was_handed_off and reader.policy.max_leased is not None)
    ):
        reader.serve(now_ms)  # another item may be possible, or another lease
    return lsn


def whose_files(queue: Queue) -> Queue:
    """A child has no files of its own."""
    return queue.parent if isinstance(queue, Branch) else queue


def hand_back(lease: Lease, now_ms: int) -> None:
    """What was handed off to a queue that is gone, unstored: it is where it was, uncounted."""
    reader = lease.owner
    assert isinstance(reader, Reader)
    reader.give_back(lease, now_ms, DEFERRED)


def tell_left(queue: Queue, copy: int, origin: Origin, now_ms: int) -> None:
    """At a start: the put of `copy` ended its origin, in this log, and the record that says so
    to those who count was lost."""
    queue._apply_settled(copy)
    _, child, part = origin.queue.partition(b"+")
    reader = queue.children.get(part) if child else queue.reader
    if reader is None:
        return
    log, wall_ms = reader.log, now_ms + queue.wall.offset_ms
    target = Origin(queue.server_id, queue.name, copy, queue.generation).as_target
    draft = moved(origin.item, origin.body_bytes, target, wall_ms, not log.is_full)
    log.write(draft._replace(put_lsn=0))  # it is not among those that are alive


def leave_unread(reader: Reader, id_: int, body_bytes: int, target: Origin, now_ms: int) -> int:
    """`leave` at a start: this item is there, and nothing was read back yet.

    What the log says of it last may be older than its move: records that a crash took away.
    """
    ready, lease = reader.ready, reader.leases.of(id_)
    key = reader.keyed.held.get(id_, NO_KEY)
    if lease is not None:
        item = reader.end(lease)
        key = NO_KEY if lease.dead else item.key
        if lease.dead:
            reader.dead.forget(id_, True)
    elif id_ in reader.dead.deaths:
        reader.dead.forget(id_, False)
    elif id_ in reader.delays:
        reader.delays.remove(id_, body_bytes)
    elif not ready.stubs.remove(id_, body_bytes):
        ready.drop_beyond(body_bytes)
        ready.advance(ready.frontier)
    if key:
        reader.keyed.drop_known(id_, key, body_bytes)
    reader._apply_done(id_, body_bytes)
    log, wall_ms = reader.log, now_ms + reader.wall.offset_ms
    return log.write(moved(id_, body_bytes, target.as_target, wall_ms, not log.is_full))


def redrive(queue: Queue, id_: int, now_ms: int) -> int | None:
    """A dead item is ready again, behind all others, with no attempts; the record to wait for.

    None: it is not dead, or somebody holds it.
    """
    reader = queue.reader
    death = reader.dead.deaths.get(id_)
    if death is None or id_ in reader.leases:
        return None
    place, item = queue.take_place(), reader.dead.at(id_)
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

    An expiry that is still to come is kept, and a key that it has, under which it is the next
    version; no id that was seen here suppresses it. Raises ServerError with the reason, and
    nothing is stored.
    """
    log, policy = queue.log, queue.policy
    if log.failure is not None or log.no_room or item.size > policy.max_item_bytes:
        queue.refuse_put(item.size)
    if queue.passes_on and not queue.children and queue.retained is None:
        name = queue.name.decode("ascii")
        raise ServerError(f"queue {name} has fanout_only and no children: nobody would have it")
    try:
        key = policy.keys.key_of(queue.name, tuple(split(item.key)), item.body)
    except ClientError as error:
        raise ItemRefused(str(error)) from None
    if policy.bounded and not queue.make_room(item.size, now_ms):
        raise ServerError(f"queue {queue.name.decode('ascii')} is full")
    wall_ms = now_ms + queue.wall.offset_ms
    expires_ms = item.expires_ms if item.expires_ms > wall_ms else 0
    if policy.max_age_ms is not None:
        oldest = wall_ms + policy.max_age_ms
        expires_ms = min(expires_ms, oldest) if expires_ms else oldest
    number = queue.next_number
    written = queue.versions.of(key, policy, wall_ms) if key else NEVER
    stamp = remember(queue, ItemHeader(origin=origin), key, written, wall_ms)
    copy = Item(number, number, item.body, item.flags, wall_ms, expires_ms, 0, key, stamp)
    if passes_on := queue.passes_on:
        queue._apply_passed(number)
    else:
        queue._apply_put(number, copy.size)
    copy.lsn = log.put(copy)
    queue._apply_opened(copy.id, origin.put_by(copy.lsn))
    if passes_on:
        queue.pass_on(copy, now_ms)
        return copy
    reader = queue.reader
    reader.line.keep(copy)
    if reader.waiters:
        reader.serve(now_ms)
    if queue.children:
        queue.fan_out(copy, now_ms)
    return copy


def settle(queue: Queue, copies: list[int], now_ms: int, lazily: bool = False) -> None:
    """The items that these were made of are gone, on disk; `lazily` as in `leave`."""
    origins, wall_ms = queue.origins, now_ms + queue.wall.offset_ms
    copies = [id_ for id_ in copies if id_ in origins]
    if not copies:
        return
    one = origins[copies[0]]
    for id_ in copies:
        queue._apply_settled(id_)
    alone = len(copies) == 1
    draft = settled(copies[0], one, wall_ms) if alone else settled_many(copies, wall_ms)
    (queue.log.write_lazily if lazily else queue.log.write)(draft)
