"""`touch q 30`, `touch q/token=17 30`: a lease gets another thirty seconds.

One rule: after a lease of this connection has expired, a touch without a token renews no other one
in its place.
"""

from __future__ import annotations

from kestrelpy.operations import LeaseEnd
from kestrelpy.protocol.parse import Touch
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.verbs.get import oldest


def touch(talk: Talk, command: Touch, now_ms: int) -> None:
    """Renew the lease that the token names, or the connection's oldest; raise Refused."""
    ends = LeaseEnd(talk.broker)
    queue = ends.queue(command.name)
    if command.token:
        lease = ends.named(queue, command.token, now_ms)
    else:
        lease = oldest(talk.holder, queue)
        if queue is not None and queue.reader in talk.holder.overdue:
            lease = None
    rests = None
    if queue is not None and lease is not None:
        rests = ends.renew(queue, lease, command.seconds * 1000, now_ms)
    talk.replies.say_done(command.noreply, b"TOUCHED\r\n", rests)
