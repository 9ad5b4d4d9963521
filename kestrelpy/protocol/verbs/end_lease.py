"""How a `get` ends a lease.

One rule: a request that ends nothing is counted, because its client is mistaken.
"""

from __future__ import annotations

import logging

from kestrelpy.access import with_user
from kestrelpy.core import ABORTED, DEFERRED, AnyQueue, Lease
from kestrelpy.operations import LeaseEnd, Rests
from kestrelpy.protocol.parse import Ending, Target
from kestrelpy.protocol.ports import Talk

log = logging.getLogger("kestrelpy.conversation")


def end_lease(target: Target, lease: Lease, queue: AnyQueue, now_ms: int) -> Rests:
    """End the lease as the request says; return what the reply rests on."""
    if target.ending is Ending.CONFIRM:
        return LeaseEnd.confirm(queue, lease, now_ms)
    if target.why is not None:
        return LeaseEnd.bury(queue, lease, target.why, now_ms)
    reason = ABORTED if target.ending is Ending.GIVE_BACK else DEFERRED
    return LeaseEnd.give_back(queue, lease, now_ms, reason, target.delay)


def note_nothing_open(talk: Talk, target: Target, queue: AnyQueue | None) -> None:
    """Count a close, abort or defer with nothing open, and log it once a minute."""
    if queue is None or target.ending is None:
        return
    queue.reader.counters.closes_without_open += 1
    if queue.reader.may_complain(talk.last_command_ms):
        log.warning(
            "queue %s: %s by %s with nothing open on that connection (a pooled client uses "
            "another connection for open and close)",
            target.name.decode("ascii"), target.ending.value,
            with_user(talk.holder.name, talk.user),
        )  # fmt: skip
