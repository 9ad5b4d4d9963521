"""The facts of a connection.

One rule: it names the peer, queues and items, and counts; it shows no body.
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple

from kestrelpy.core import Holder, Subscription, Waiter

HELD_MAX: Final = 5


class HeldItem(NamedTuple):
    """An item that a connection has leased."""

    queue: str
    item: int
    began_ms: int


class Listening(NamedTuple):
    """Where the memcache port listens. `host` is an address, with TLS if `has_tls`; if
    `wants_certificate` a client needs one."""

    host: str
    port: int
    has_tls: bool
    wants_certificate: bool


class ConnectionFacts(NamedTuple):
    """One connection. `idle_ms` counts from its last bytes; None: the wire does not count it.

    `commands` counts its commands, or requests, so far. `holds` has its oldest leases, HELD_MAX at
    most; `waits_for` names the queue that it waits for. `user` is logged in, or sent its latest
    request; None: no user.
    """

    id: int
    wire: str
    peer: str
    leases: int
    is_waiting: bool
    idle_ms: int | None
    held_bytes: int
    commands: int
    holds: list[HeldItem]
    waits_for: str | None
    user: str | None


def held_items(holder: Holder) -> list[HeldItem]:
    """Return the oldest leases of this holder."""
    held = list[HeldItem]()
    for lease in islice(holder.leases, HELD_MAX):
        assert isinstance(lease.owner, Subscription)
        held.append(HeldItem(lease.owner.name.decode("ascii"), lease.item.id, lease.began_ms))
    return held


def waited_for(waiter: Waiter | None) -> str | None:
    """Return the queue that this waiter waits for; None: it does not wait."""
    return waiter.name.decode("ascii") if waiter is not None and not waiter.done else None
