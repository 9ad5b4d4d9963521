"""Storing in a queue: what is refused, what makes room, and the one step that stores.

    refused? ─▶ due, expiry ─▶ id seen? ─▶ version right? ─▶ room ─▶ number, apply, log ─▶ in the
                                                                       line, or put off

Its functions are methods of `Queue`, which names them.

One rule: whoever is refused has changed nothing but what a limit dropped to make room.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from journal.format.item_header import ItemHeader
from journal.format.schedule import Watermark
from journal.format.transfer import Origin
from kestrelpy.core.index.dedupe import NOT_DUE, begin_tending
from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.versions import NEVER, Written
from kestrelpy.core.item import Item
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.subscription.key_gate import SWEEP_ITEMS_MAX
from kestrelpy.core.subscription.nack import put_off
from kestrelpy.errors import ClientError, ItemRefused, ServerError

if TYPE_CHECKING:
    from kestrelpy.core.queue.queue import Queue

# What `put` answers instead of a record where nothing was stored: there is no room for it, its id
# was seen, its key has another version, or none.
NOT_STORED: Final = -1
DUPLICATE: Final = -2
EXISTS: Final = -3
NOT_FOUND: Final = -4
# What a put may expect of its key instead of a version: that something was written under it.
ANY_VERSION: Final = -1
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_NO_LIMIT: Final = (1 << 63) - 1
# Items dropped for one put: a limit that was lowered by a million is reached over many puts.
DISCARDED_ITEMS_MAX: Final = 1000


def put(
    queue: Queue, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
    nominal: Watermark | None = None, delay: Delay | None = None, stamp: ItemHeader | None = None,
    expects: int | None = None,
) -> int:  # fmt: skip
    """Store an item (`expires_ms` wall clock, 0: never); the record to wait for.

    NOT_STORED when the queue is full; DUPLICATE, EXISTS or NOT_FOUND when it was not stored because
    of what is: its id, or the version of its key, of which `expects` is what it shall be.

    `key` is canonical; `nominal` is the time of a schedule that it is put for, and `stamp` what
    else the same record says: its origin, if it has one, is open from then on. Raises ServerError
    when it is too large or the journal failed, ClientError when it would expire before it is due.
    """
    log, policy = queue.log, queue.policy
    size = len(body)
    if log.failure is not None or log.no_room or size > policy.max_item_bytes:
        refuse_put(queue, size)
    wall_ms = now_ms + queue.wall.offset_ms
    if policy.max_age_ms is not None:
        oldest = wall_ms + policy.max_age_ms
        expires_ms = min(expires_ms, oldest) if expires_ms else oldest
    if delay is not None and 0 < expires_ms <= delay.due_ms(wall_ms):
        _refuse_delay(queue, expires_ms, delay.due_ms(wall_ms))
    written = queue.versions.of(key, policy, wall_ms) if key else NEVER
    is_known = key != NO_KEY or (stamp is not None and bool(stamp.id))
    if is_known and (expects is not None or stamp is not None):
        refusal = _refusal(queue, stamp, written, expects, wall_ms)
        if refusal:
            return refusal
    if policy.bounded and not make_room(queue, size, now_ms):
        return NOT_STORED
    if queue.passes_on and not queue.children and queue.retained is None:
        return log.lsn_appended  # it is for nobody: nothing is stored, and nothing remembered
    number = queue.next_number
    if is_known:
        stamp = remember(queue, stamp, key, written, wall_ms)
    if delay is not None and delay.due_ms(wall_ms) > wall_ms:
        item = Item(number, 0, body, flags, wall_ms, expires_ms, 0, key, stamp)
        return _put_off(queue, item, delay, now_ms)
    item = Item(number, number, body, flags, wall_ms, expires_ms, 0, key, stamp)
    if passes_on := queue.passes_on:
        queue._apply_passed(number)
    else:
        queue._apply_put(number, size)
    if nominal is not None:
        queue._apply_nominal(nominal)
    item.lsn = log.put(item, nominal)
    if stamp is not None and stamp.origin is not None:
        _open_origin(queue, item, stamp.origin)
    if passes_on:
        queue.pass_on(item, now_ms)
        return item.lsn
    reader = queue.reader
    reader.line.keep(item)
    if reader.waiters.count:
        reader.serve(now_ms)
    if queue.children:
        queue.fan_out(item, now_ms)
    return item.lsn


def _refusal(
    queue: Queue, stamp: ItemHeader | None, written: Written, expects: int | None, wall_ms: int
) -> int:
    """Why this is not stored, by its id and the version of its key; 0: it may be."""
    if (expects is not None or (stamp is not None and stamp.id)) and queue.own_number:
        raise ClientError(
            f"{queue.name.decode('ascii')} is a child: ids and versions are its parent's, name "
            "that instead"
        )
    if stamp is not None and stamp.id and queue.ids.has_seen(stamp, queue.policy, wall_ms):
        queue.reader.counters.duplicates += 1
        return DUPLICATE
    versions = queue.versions
    if expects is not None and versions.lost_item and not versions.is_known(
        written, queue.policy, wall_ms
    ):
        raise ServerError(
            f"versions of queue {queue.name.decode('ascii')} are damaged and this key's is not "
            "known: see the log of the last start; a plain set gives it one that was never used"
        )
    version = written.version
    if expects is None or expects == version or (expects == ANY_VERSION and version):
        return 0
    return EXISTS if version else NOT_FOUND


def remember(
    queue: Queue, stamp: ItemHeader | None, key: bytes, written: Written, wall_ms: int
) -> ItemHeader:
    """What the next item will be known by from now on; its stamp, with its version."""
    if queue.own_number:  # what is stored for a child alone is no version of its key
        return stamp or _new(ItemHeader, (b"", b"", 0, 0, 0, None))
    versions = queue.versions
    if versions.lost_item and not versions.is_known(written, queue.policy, wall_ms):
        written = versions.unused()
    version, previous, _ = written
    if stamp is None:  # it has a key, and nothing else is said of it
        stamp = _new(ItemHeader, (b"", b"", 0, version + 1, previous, None))
        versions._apply_written(key, version + 1, queue.next_number, wall_ms)
    else:
        if key:
            stamp = _new(ItemHeader, (*stamp[:3], version + 1, previous, stamp.origin))
        if stamp.scope:
            queue.ids.renew(queue, stamp, wall_ms)
        queue._apply_stamp(stamp, key, queue.next_number, wall_ms)
    if queue.tended_ms == NOT_DUE:
        begin_tending(queue, wall_ms - queue.wall.offset_ms)
    return stamp


def _put_off(queue: Queue, item: Item, delay: Delay, now_ms: int) -> int:
    """Store an item that is not due yet."""
    if not queue.passes_on:
        queue._apply_put(item.id, item.size)
        queue.reader.marks.hide(item.id)
    else:
        queue._apply_passed(item.id)
        if queue.retained is not None:
            queue.reader.marks.hide(item.id)
    item.lsn = queue.log.put_later(item, delay.due_ms(item.stored_ms))
    if item.origin is not None:
        _open_origin(queue, item, item.origin)
    if not queue.passes_on:
        put_off(queue.reader, item, delay, now_ms, bool(queue.children))
    elif not queue.children:
        queue.pass_on(item, now_ms)
    if queue.children:
        queue.put_off_for_all(item, delay, now_ms)
    return item.lsn


def _open_origin(queue: Queue, item: Item, origin: Origin) -> None:
    """What it was made of may be there still; in this very log it is not."""
    if not origin.is_of(queue.name):
        queue._apply_opened(item.id, origin.put_by(item.lsn))


def _refuse_delay(queue: Queue, expires_ms: int, due_ms: int) -> NoReturn:
    name, late_ms = queue.name.decode("ascii"), due_ms - expires_ms
    raise ClientError(
        f"an item of {name} would expire {late_ms} ms before it is due: give it a shorter "
        "delay, or a later expiry (max_age counts from being stored)"
    )


def add(
    queue: Queue, body: bytes, flags: int, expires_ms: int, now_ms: int, key: bytes = NO_KEY,
    delay: Delay | None = None, stamp: ItemHeader | None = None,
) -> int:  # fmt: skip
    """Store an item if none is ready, delayed or lent; one that could not be read is there."""
    if queue.log.failure is not None or len(body) > queue.policy.max_item_bytes:
        refuse_put(queue, len(body))
    queue.reader.first(now_ms)  # what has expired is not there
    reader = queue.reader
    if reader.ready.count or len(reader.leases) or reader.elsewhere.count:
        return NOT_STORED
    if len(reader.live) > len(reader.dead.deaths):
        return NOT_STORED  # damaged: a start may find it again
    return put(queue, body, flags, expires_ms, now_ms, key, delay=delay, stamp=stamp)


def refuse_put(queue: Queue, size: int) -> NoReturn:
    """Say why nothing of this size is stored now."""
    if queue.log.failure is not None:
        queue.raise_failed()
    limit = queue.policy.max_item_bytes
    if size > limit:
        raise ItemRefused(f"item too large ({size} bytes, limit {limit})")
    raise ServerError(queue.log.no_room)


def make_room(queue: Queue, size: int, now_ms: int) -> bool:
    """Is there room for `size` bytes, after dropping the oldest if that is allowed?

    Nothing is dropped where that makes no room: what is delayed counts, and stays. Where it would
    drop too many at once, it is enough if the queue does not grow.
    """
    policy, ready, delays = queue.policy, queue.reader.ready, queue.reader.delays
    if queue.passes_on:  # its own line takes nothing, however full it is
        return policy.max_bytes is None or size <= policy.max_bytes
    items_max = policy.max_items if policy.max_items is not None else _NO_LIMIT
    bytes_max = policy.max_bytes if policy.max_bytes is not None else _NO_LIMIT
    items_max -= delays.count
    bytes_max -= delays.bytes
    if items_max < 1 or size > bytes_max:
        return False
    if ready.count < items_max and ready.bytes + size <= bytes_max:
        return True
    queue.reader.sweep(now_ms, SWEEP_ITEMS_MAX)  # what has expired takes no room
    queue.reader.first(now_ms)
    bytes_before = ready.bytes
    for _ in range(DISCARDED_ITEMS_MAX):
        queue.reader.first(now_ms)  # and that may only show when the head has been read back
        if ready.count < items_max and ready.bytes + size <= bytes_max:
            return True
        if not policy.discard_old_when_full or not ready.count:
            return False
        _discard_first(queue, now_ms + queue.wall.offset_ms)
    return ready.bytes + size <= max(bytes_max, bytes_before)


def _discard_first(queue: Queue, wall_ms: int) -> None:
    """Drop the head to make room."""
    reader = queue.reader
    item = reader.line.pop_any(wall_ms)
    if item is not None:
        reader.keyed.drop(item)
        reader._apply_done(item.id, item.size)
        reader.counters.discarded += 1
        reader.log.discarded(item, wall_ms)
