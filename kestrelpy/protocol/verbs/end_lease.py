"""How a `get` ends a lease.

One rule: a request that ends nothing is counted, because its client is mistaken.
"""

from __future__ import annotations

import logging

from kestrelpy.core import ABORTED, DEFERRED, Lease, Queue, Subscription
from kestrelpy.protocol.parse import Ending, Target
from kestrelpy.protocol.ports import Talk

log = logging.getLogger("kestrelpy.conversation")


def end_lease(target: Target, lease: Lease, reader: Subscription, now_ms: int) -> int:
    """End the lease as the request says; return the record to wait for."""
    if target.ending is Ending.CONFIRM:
        return reader.confirm(lease, now_ms)
    if target.why is not None:
        return reader.dead_letter(lease, now_ms, target.why)
    reason = ABORTED if target.ending is Ending.GIVE_BACK else DEFERRED
    return reader.nack(lease, now_ms, reason, target.delay)


def note_nothing_open(talk: Talk, target: Target, queue: Queue | None) -> None:
    """Count a close, abort or defer with nothing open, and log it once a minute."""
    if queue is None or target.ending is None:
        return
    queue.reader.counters.closes_without_open += 1
    if queue.may_complain(talk.last_command_ms):
        log.warning(
            "queue %s: %s by %s with nothing open on that connection (a pooled client uses "
            "another connection for open and close)",
            target.name.decode("ascii"), target.ending.value, talk.holder.name,
        )  # fmt: skip
