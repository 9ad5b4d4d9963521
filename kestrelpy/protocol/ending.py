"""Which lease a request means, and how it ends.

One rule: a token names one lease of the queue it stands with, from any connection, or none at all.
"""

from __future__ import annotations

from kestrelpy.core.by_token import find
from kestrelpy.core.leases import Lease
from kestrelpy.core.queue import Queue
from kestrelpy.core.reader import ABORTED, DEFERRED, Reader
from kestrelpy.protocol.commands import Ending, Target


def named(token: int, queue: Queue | None, now_ms: int) -> Lease | None:
    """The lease of this queue that the token names; None: there is none, or it is over."""
    return find(queue.reader, token, now_ms) if queue is not None else None


def end_lease(target: Target, lease: Lease, reader: Reader, now_ms: int) -> int:
    """As the request says; returns the record to wait for."""
    if target.ending is Ending.CONFIRM:
        return reader.confirm(lease, now_ms)
    if target.why is not None:
        return reader.bury(lease, now_ms, target.why)
    reason = ABORTED if target.ending is Ending.GIVE_BACK else DEFERRED
    return reader.give_back(lease, now_ms, reason, target.delay)
