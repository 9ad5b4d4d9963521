"""Those who wait get what is ready, and what is dead, strictly in the order they came.

One rule: if the first in line cannot be served, nobody behind it is; and whoever cannot be served
for a reason that waiting does not mend is told so, in its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kestrelpy.core.waiters import Waiter, Want

if TYPE_CHECKING:
    from kestrelpy.core.reader import Reader


def serve_in_order(reader: Reader, now_ms: int) -> None:
    """Hand out as much as there is; each who was answered stands in `woken`."""
    waiters, woken = reader.waiters, reader.woken
    for dead in (False, True):
        waiter = waiters.first(dead)
        while waiter is not None and _hand_to(reader, waiter, now_ms):
            waiters.finish(waiter)
            woken.append(waiter)
            waiter = waiters.first(dead)
    for observer in waiters.take_observers(max(reader.live.last, reader.marks.latest)):
        observer.owner = reader
        woken.append(observer)


def _hand_to(reader: Reader, waiter: Waiter, now_ms: int) -> bool:
    if waiter.want is Want.PEEK:
        waiter.item = reader.first(now_ms, waiter.dead)
        waiter.owner = reader
        return waiter.item is not None
    if waiter.lease_ms and reader.log.no_room:
        waiter.refused = reader.log.no_room
        return True
    lease = reader.open(waiter.holder, now_ms, waiter.dead, waiter.lease_ms)
    if lease is None:
        return False
    waiter.lease = lease
    waiter.owner = reader
    if waiter.want is Want.TAKE:
        waiter.done_lsn = reader.confirm(lease, now_ms)
    return True
