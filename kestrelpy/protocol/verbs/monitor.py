"""Kestrel's batches: `monitor` opens items one after the other, `confirm` closes the oldest.

    monitor jobs 5 10     for five seconds at most, or until ten items are open
    < VALUE jobs 0 1 | 1 | END | VALUE jobs 0 1 | 2 | END | END
    confirm jobs 2        both are done: END; with fewer open: ERROR, and nothing is confirmed

One rule: each item of a batch is a `get jobs/open` of its own, bounded by `max_open_reads`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kestrelpy.core import Lease, Subscription
from kestrelpy.errors import LeaseExpired
from kestrelpy.operations import ended
from kestrelpy.protocol.parse import Confirm, Fetch, Monitor, Target
from kestrelpy.protocol.ports import Talk

_END: Final = b"END\r\n"
_OPEN: Final = frozenset({"open", "t"})


def monitor(talk: Talk, command: Monitor, now_ms: int) -> Iterator[bytes]:
    """Answer a monitor; while it has to wait it yields nothing, and the caller resumes it."""
    until_ms = now_ms + command.wait_ms
    host, holder = talk.host, talk.holder
    most = host.server_settings.max_open_reads
    left = min(command.most or most, most)
    known = set(holder.leases)
    while left and len(holder.leases) < host.server_settings.max_open_reads and not talk.closing:
        wait_ms = max(0, until_ms - talk.last_command_ms)
        target = Target(command.name, command.name, _OPEN, {"t": wait_ms})
        yield from talk.fetch_to_end(Fetch([target]), talk.last_command_ms)
        lease = next(reversed(holder.leases), None)
        if lease is None or lease in known:
            return  # its END is the end of the batch
        known.add(lease)
        left -= 1
        yield b""  # until its item has left
        if _has_failed(lease):
            return  # the error is the end of the batch
    talk.replies.say(_END)


def _has_failed(lease: Lease) -> bool:
    """True if an error left in place of the item, because it did not come on disk."""
    assert isinstance(lease.owner, Subscription)
    log = lease.owner.log
    return log.failure is not None and log.lsn_stored < lease.item.lsn


def confirm(talk: Talk, command: Confirm, now_ms: int) -> None:
    """Confirm the oldest open items of this connection, all of them or none; raise Refused."""
    queue = talk.broker.queues.get(command.name)
    if queue is not None and queue.log.failure is not None:
        queue.raise_failed()
    reader = queue.reader if queue is not None else None
    overdue = talk.holder.overdue
    if reader is not None and reader in overdue:
        overdue[:] = [each for each in overdue if each is not reader]
        raise LeaseExpired(command.name)
    leases = [lease for lease in talk.holder.leases if lease.owner is reader]
    if queue is None or not 0 < command.count <= len(leases):
        if command.noreply:
            talk.broker.counters.refused_quietly += 1
        else:
            talk.replies.say(b"ERROR\r\n")
        return
    lsn = 0
    for lease in leases[: command.count]:
        lsn = queue.reader.confirm(lease, now_ms)
    if not command.noreply:
        talk.replies.hold(_END, *ended(queue, lsn))
