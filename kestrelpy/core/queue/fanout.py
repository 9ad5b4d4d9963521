"""What is put into a queue with children reaches all its readers; each number is given once.

    put ──▶ own line, and the children: idle ones look later, the others are given it now
    put, due later ──▶ noted once for all; when it is due, one record makes it available in all
    a child's own set, a place, a hole ──▶ that number is noted: the children pass it

Its functions are methods of `Queue`, which names them; without children none of them is called.

One rule: the children's view is changed in the same step as the queue's numbers are.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from journal.format.subscription_state import STOPS, TAKES, ReaderState, named
from journal.sets.id_set import IdSet
from kestrelpy.core.fanout.unseen import MISSED_MAX
from kestrelpy.core.index.delayed import Delay, Delays
from kestrelpy.core.item import Item
from kestrelpy.core.queue.snapshot_view import placed

if TYPE_CHECKING:
    from kestrelpy.core.queue.queue import Queue
    from kestrelpy.core.subscription.subscription import Reader


def fan_out(queue: Queue, item: Item, now_ms: int) -> None:
    """This item, just put, is for all children, too."""
    queue.put_bytes += item.size
    if item.expires_ms or queue.idle.age_ms:
        queue.idle.note(item)
    if not queue.eager:
        return
    for child in queue.eager[:]:
        child.arrive(item, now_ms)
        if not child.wants_each:
            queue.eager.remove(child)


def put_off_for_all(queue: Queue, item: Item, delay: Delay, now_ms: int) -> None:
    """This item, just put, is for all children when it is due."""
    assert queue.missed is not None
    due_ms = delay.ms if delay.is_date else now_ms + delay.ms
    queue.missed.due.add(item.id, item.size, due_ms, delay.is_date)
    queue.alarm.need(due_ms - queue.wall.offset_ms if delay.is_date else due_ms)
    for child in queue.eager[:]:
        child.put_off(item, delay, now_ms)
        if not child.wants_each:
            queue.eager.remove(child)
    queue.missed.put_off(item.id, item.size)
    if item.expires_ms or queue.idle.age_ms:
        queue.idle.put_off(item)
    _tell_soon(queue)


def pass_number(queue: Queue, number: int) -> None:
    """The next number is given to nothing that is for all children."""
    if queue.children and queue.missed is not None:
        queue.missed.pass_number(number)
        _tell_soon(queue)


def _tell_soon(queue: Queue) -> None:
    """What idle children miss is told them before it is too much."""
    if queue.missed is not None and len(queue.missed) > MISSED_MAX:
        queue.idle.need(0)


def catch_up(queue: Queue) -> None:
    """Every child knows what arrived."""
    for child in queue.children.values():
        child.catch_up()


def pass_on(queue: Queue, item: Item, now_ms: int) -> None:
    """This item, just put, is for the children alone; without any it is for nobody, and gone."""
    if queue.children:
        fan_out(queue, item, now_ms)
    else:
        queue.log.discarded(item, now_ms + queue.wall.offset_ms)


def set_passing(queue: Queue, passes_on: bool, now_ms: int) -> None:
    """From now on the queue's own line takes nothing of what is put, or takes it again."""
    if passes_on == queue.passes_on or queue.log.failure is not None:
        return
    queue.passes_on = passes_on
    wall_ms = now_ms + queue.wall.offset_ms
    small = STOPS if passes_on else TAKES
    queue.log.write(named(0, b"", queue.last_number, small, wall_ms))


def is_needed(queue: Queue, id_: int) -> bool:
    """Does any reader need this item still?"""
    is_for_all = queue.missed is None or not queue.missed.is_passed(id_)
    for child in queue.children.values():
        if (is_for_all and id_ > child.taken) or id_ in child.live:
            return True
    return id_ in queue.reader.live


def kept_now(queue: Queue) -> IdSet:
    """The items that any reader needs at this moment, as a set that nobody changes."""
    if not queue.children:
        return queue.reader.live.copy()
    catch_up(queue)
    queue.to_come.forget()  # much may have gone
    return IdSet.union([reader.live for reader in queue.readers])


def release_due(queue: Queue, now_ms: int, steps: int) -> int:
    """What is due becomes available, in order of due time, in at most `steps` steps; how many."""
    offset_ms, taken, heap = queue.wall.offset_ms, 0, list[tuple[int, int, int]]()
    sources: list[tuple[Reader | None, Delays]] = [(r, r.delays) for r in queue.readers]
    if queue.missed is not None:
        sources.append((None, queue.missed.due))
    for at, (_, delays) in enumerate(sources):
        first = delays.first(offset_ms) if delays.entry_count else None
        if first is not None and first[0] <= now_ms:
            heappush(heap, (*first, at))
    while heap and taken < steps:
        at = heappop(heap)[2]
        reader, delays = sources[at]
        if reader is not None:
            reader.catch_up()  # it may have been released for all
        found = delays.pop_due(now_ms, offset_ms)
        if found is None:
            continue
        taken += 1 + len(queue.eager)
        if queue.missed is not None:
            queue.release_shared(reader, *found, now_ms)
        else:
            queue.release(*found, now_ms)
        first = delays.first(offset_ms)
        if first is not None and first[0] <= now_ms:
            heappush(heap, (*first, at))
    return taken


def release_shared(
    queue: Queue, owner: Reader | None, id_: int, size: int, now_ms: int
) -> int:  # fmt: skip
    """`owner`'s item, that was delayed, is available: for the first time in every reader that has
    it, at one place; what was given back in its own line alone. None: it is for all that have it.

    Returns the record to wait for.
    """
    assert queue.missed is not None
    if owner is not None and not owner.marks.is_new(id_):
        return _release_own(queue, owner, id_, size, now_ms)
    queue.missed.due.remove(id_, size)
    queue.idle.released(id_)
    if owner is None and not queue.is_needed(id_):
        return queue.log.lsn_appended
    at_once: list[Reader] = [queue.reader, *queue.eager]
    if owner is not None and owner not in at_once:
        at_once.append(owner)
    for reader in at_once:
        reader.catch_up()
    place = queue.take_place(True)
    lsn = queue.log.released(id_, place, now_ms + queue.wall.offset_ms)
    if queue.children:
        queue.missed.release(place, id_, size, lsn)
        _tell_soon(queue)
    there = [reader for reader in at_once if reader.marks.is_new(id_)]
    for reader in there:
        if id_ in reader.live:
            _stand(reader, id_, size, place, lsn)
        else:
            reader.marks.give(place, id_)  # it is done here, and kept: that is its marker
    for reader in at_once:
        reader.catch_up()  # it knows that one already
    for reader in there:
        if reader is not owner and id_ in reader.live and reader.waiters.count:
            reader.serve(now_ms)
    return lsn


def _release_own(queue: Queue, owner: Reader, id_: int, size: int, now_ms: int) -> int:
    """What was given back with a delay is available again, in this line alone."""
    place, unlogged = queue.take_place(), owner.delays.unlogged
    if id_ in unlogged:  # there is no room for it, and a restart knows of no delay
        unlogged.remove(id_)
        lsn = queue.log.lsn_appended
    else:
        lsn = owner.log.released(id_, place, now_ms + queue.wall.offset_ms)
    _stand(owner, id_, size, place, lsn)
    return lsn


def _stand(reader: Reader, id_: int, size: int, place: int, lsn: int) -> None:
    """It is delayed no more: it stands at this place."""
    item = reader.delays.items.pop(id_, None)
    reader.delays.remove(id_, size)
    reader.marks.give(place, id_)
    stand(reader, item, id_, size, place, lsn)


def stand(
    reader: Reader, item: Item | None, id_: int, size: int, place: int, lsn: int
) -> None:
    """In the line at this place, with its body if that is in memory."""
    if item is None:
        reader.line.stand(place, id_, size)
        reader.line.placed(place, lsn)
    else:
        item.marker = item.marker or place
        reader.line.take_back(item, place)


def readers_state(queue: Queue) -> list[ReaderState]:
    """All there is to know of the children but the bodies, as a copy.

    There may be thousands, most with nothing but what was put for all: those take 4 µs each.
    """
    offset_ms = queue.wall.offset_ms
    return [
        ReaderState(
            child.number, child.part, child.floor, child.total_items, child.live.copy(),
            child.live_bytes, child.attempts.copy(), list(child.dead.deaths.values()),
            list(child.leases.entries.values()), child.paused, child.delays.entries(offset_ms),
            placed(child), dict(child.keyed.held),
        )
        for child in queue.children.values()
    ]  # fmt: skip
