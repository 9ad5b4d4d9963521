"""What becomes of an item that was lent and not confirmed.

    its attempts are used up, or it is buried ──▶ DEAD
    with a delay, its own or the queue's ───────▶ DELAYED ──▶ (due) released, at a new place
                                                  (its key is its own all the while, and behind it)
    else ───────────────────────────────────────▶ READY, at its old place

One rule: who gives back decides for himself; the queue's `retry_delay` is for those who only
failed: counted ends without a delay of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kestrelpy.core.index.delayed import Delay
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.item import Item
from kestrelpy.core.subscription.outbox import ATTEMPTS_NOTED, bury, note_attempts, send_on

if TYPE_CHECKING:
    from kestrelpy.core.subscription.subscription import Reader

DEFERRED: Final = b"defer"


def take_back(
    reader: Reader, lease: Lease, item: Item, now_ms: int, reason: bytes, buries: bool,
    delay: Delay | None,
) -> int:  # fmt: skip
    """Of this lease, ended just now; returns the record to wait for."""
    log, began_ms = reader.log, lease.began_ms
    wall_ms = now_ms + reader.wall.offset_ms
    reader.counters.cancelled += 1
    if lease.dead:
        reader.dead.give_back(item, log.backlog is None)
        send_on(reader, (item.id,))
        return log.returned(item, lease.attempts, began_ms, wall_ms, reason, lease.by_token)
    counts = buries or reason != DEFERRED
    attempts, policy = lease.attempts + counts, reader.policy
    most = policy.max_attempts
    if buries or (most is not None and attempts >= most and counts):
        reader.keyed.end(item)
        return bury(reader, item, attempts, began_ms, wall_ms, reason)
    if attempts == ATTEMPTS_NOTED and counts:
        note_attempts(reader, item.id)
    reader._apply_returned(item.id, attempts)
    if delay is None and counts and policy.retry_delay_ms:
        delay = Delay(policy.retry_ms(attempts))
    due_ms = delay.due_ms(wall_ms) if delay is not None else 0
    if delay is None or due_ms <= wall_ms:
        reader.line.take_back(item, lease.place)
        return log.returned(item, attempts, began_ms, wall_ms, reason, lease.by_token)
    if item.key:
        reader.keyed.held[item.id] = item.key
    before = log.lsn_appended
    lsn = log.returned(item, attempts, began_ms, wall_ms, reason, lease.by_token, due_ms)
    reader.marks.keep(item.id, item.marker)
    put_off(reader, item, delay, now_ms)
    if lsn == before and log.backlog is not None:
        reader.delays.unlogged.add(item.id)
    return lsn


def put_off(
    reader: Reader, item: Item, delay: Delay, now_ms: int, is_shared: bool = False
) -> None:
    """It is in no line until it is due; a queue in memory keeps it whole.

    `is_shared`: when that is, is said for all readers together.
    """
    due_ms = delay.ms if delay.is_date else now_ms + delay.ms
    reader.line.forget_expiry(item.id)
    reader.elsewhere.add(item.id)
    if is_shared:
        reader.delays.add_shared(item.id, item.size)
    else:
        reader.delays.add(item.id, item.size, due_ms, delay.is_date)
    if reader.log.backlog is None:
        reader.delays.items[item.id] = item
    reader.alarm.need(due_ms - reader.wall.offset_ms if delay.is_date else due_ms)
