"""Those who wait get what is ready, and what is dead, strictly in the order they came.

One rule: if the first in line cannot be served, nobody behind it is; and whoever cannot be served
for a reason that waiting does not mend is told so, in its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kestrelpy.core.index.waiters import Waiter, Want

if TYPE_CHECKING:
    from kestrelpy.core.subscription.subscription import Reader

# Observers told in one turn: they look for what they were told of, 20 to 50 us each.
WOKEN_OBSERVERS_MAX: Final = 128
_SOON_MS: Final = 1


def serve_in_order(reader: Reader, now_ms: int) -> None:
    """Hand out as much as there is; each who was answered stands in `woken`."""
    waiters, woken = reader.waiters, reader.woken
    for dead in (False, True):
        waiter = waiters.first(dead)
        while waiter is not None and _hand_to(reader, waiter, now_ms):
            waiters.finish(waiter)
            woken.append(waiter)
            waiter = waiters.first(dead)
    if waiters.observers_at_most:
        _wake_observers(reader, now_ms)


def latest_marker(reader: Reader) -> int:
    """The highest marker that an item of this reader was given."""
    return max(reader.live.last, reader.marks.latest)


def _wake_observers(reader: Reader, now_ms: int) -> None:
    """Tell the observers that there is something behind their markers, some in each turn.

    More of them are told when the item is stored, so that they do not all wait for that.
    """
    waiters, woken, latest = reader.waiters, reader.woken, latest_marker(reader)
    after = waiters.first_after
    if after >= latest:
        return
    most = WOKEN_OBSERVERS_MAX - len(woken)
    if waiters.observers_at_most > WOKEN_OBSERVERS_MAX and after >= reader.log.item_stored:
        most = 0
    for observer in waiters.take_observers(latest, max(most, 0)):
        observer.owner = reader
        woken.append(observer)
    if waiters.first_after < latest:
        reader.alarm.need(now_ms + _SOON_MS)


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
