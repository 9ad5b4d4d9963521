"""What is left of a queue that was deleted while its children had items.

    delete orders ──▶ its own line is gone, and the name free for a new queue
                      orders+audit: as long as it has items, they are read from the old log
                      its last one goes ──▶ the child goes; with the last child the files do

A child of a remnant is given nothing more, but what somebody sets on it. A child of the same name
that the new queue has is in the books when the old one has gone.

One rule: a remnant is in nobody's way but for the names of its children.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from journal.format.checkpoint import TOKENS_SKIPPED
from journal.format.subscription_state import GONE, named
from journal.format.transfer import have_one_log
from kestrelpy.core.queue.queue import Queue
from kestrelpy.core.registry.lifecycle import drop, free_name
from kestrelpy.core.transfer.steps import whose_files

if TYPE_CHECKING:
    from kestrelpy.core.broker import Broker


def leave(broker: Broker, queue: Queue, now_ms: int) -> None:
    """This queue, out of the books and empty, stays for its children; some have items."""
    queue.is_remnant = True
    tell_deleted(queue, now_ms)
    keep(broker, queue, now_ms)


def tell_deleted(queue: Queue, now_ms: int) -> int:
    """Its log says that its own line is gone, and is synced; the record."""
    wall_ms = now_ms + queue.wall.offset_ms
    draft = named(0, b"", queue.last_number, GONE, wall_ms)
    queue.log.write_recounted(draft, queue.kept_now)
    queue.log.set_sync(0)  # whatever STORED waited for: DELETED waits for the sync
    queue.log.wait_durable(queue.log.lsn_appended)
    return queue.log.lsn_appended


def keep(broker: Broker, queue: Queue, now_ms: int) -> None:
    """A remnant, as just now or after a start; what of it is empty goes."""
    queue.deleted = True
    broker.remnants.append(queue)
    # Both generations take tokens from now on: no two of them the same.
    floor = queue.reader.tokens_below + TOKENS_SKIPPED
    broker.tokens.on_disk = max(broker.tokens.on_disk, floor)
    clear_away(broker, queue, now_ms)
    queue.alarm.need(queue.next_due(now_ms))


def would_come_back(broker: Broker, queue: Queue, going: Iterable[Queue]) -> bool:
    """Would a start take an earlier queue of this one's name for it, if its files went now?

    Of those that are `going` the files are there still; of a remnant the record may not be on disk.
    """
    said = (each for each in broker.remnants if each.log.lsn_stored < each.log.lsn_appended)
    earlier = (*going, *(each for each in said if each.log.failure is None))
    return any(each.name == queue.name and each.generation < queue.generation for each in earlier)


def why_mistaken(source: Queue, target: Queue | None, name: bytes) -> str:
    """Why nothing of `source` goes to the `target` of that name; empty: it may.

    A log takes an origin that has its name for one of its own, and this one would be of another.
    """
    files = whose_files(source)
    is_one = not files.is_remnant if target is None else whose_files(target) is files
    if is_one or not have_one_log(source.name, name):
        return ""
    here, there = source.name.decode("ascii"), name.decode("ascii")
    return (
        f"items of {here} do not go to {there}: one is of a queue {files.name.decode('ascii')} "
        "that was deleted, the other of a later one; name another queue"
    )


def clear_away(broker: Broker, queue: Queue, now_ms: int) -> None:
    """Children without items go, and with the last of them the remnant."""
    for branch in queue.branches:
        if branch.reader.live:
            continue
        drop(broker, branch)
        del queue.children[branch.child.part]
        free_name(broker, branch, now_ms)
    if not queue.children:
        broker.remnants.remove(queue)
        queue.alarm.silence()
        broker.deleted.append(queue)
