"""TCP keepalive: how a connection to a machine that is gone comes to an end.

    client silent ──120 s──▶ probe ──15 s──▶ probe ──15 s──▶ probe ──15 s──▶ probe ──15 s──▶ closed

    member silent ──5 s──▶ probe ──1 s──▶ ... ──1 s──▶ probe ──1 s──▶ closed

A pool of clients may be silent for days, so silence alone closes nothing. The first probe comes
before a router on the way forgets the connection; the fastest ones do after four minutes.
Between the members of a fleet a client waits for the answer, so there the end comes sooner.

One rule: the times are ours. The kernel's own first probe comes after two hours. Bytes that nobody
acknowledges are not probed: the kernel sends them again for a quarter of an hour, and then closes.
A shorter limit, TCP_USER_TIMEOUT, would also close a connection whose reader is slow.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

IDLE_SECONDS: Final = 120
INTERVAL_SECONDS: Final = 15
PROBES: Final = 4

MEMBER_IDLE_SECONDS: Final = 5
MEMBER_INTERVAL_SECONDS: Final = 1
MEMBER_PROBES: Final = 5
MEMBER_SECONDS: Final = MEMBER_IDLE_SECONDS + MEMBER_INTERVAL_SECONDS * MEMBER_PROBES


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel probe the peer of a TCP connection; do nothing for a Unix socket."""
    _probe(sock, IDLE_SECONDS, INTERVAL_SECONDS, PROBES)


def keep_alive_between_members(sock: socket.socket) -> None:
    """Let the connection between two members end MEMBER_SECONDS after the network between them, if
    all that was sent on it has arrived: then a client waits for the answer, or holds items."""
    _probe(sock, MEMBER_IDLE_SECONDS, MEMBER_INTERVAL_SECONDS, MEMBER_PROBES)


def _probe(sock: socket.socket, idle_s: int, interval_s: int, probes: int) -> None:
    # By the names of the systems: macOS has another one for the first time.
    times = (
        ("TCP_KEEPIDLE", idle_s), ("TCP_KEEPALIVE", idle_s), ("TCP_KEEPINTVL", interval_s),
        ("TCP_KEEPCNT", probes),
    )  # fmt: skip
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the client may have hung up
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in times:
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
