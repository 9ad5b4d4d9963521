"""TCP keepalive: how a connection to a machine that is gone comes to an end.

    client silent ──120 s──▶ probe ──15 s──▶ probe ──15 s──▶ probe ──15 s──▶ probe ──15 s──▶ closed

A pool of clients may be silent for days, so silence alone closes nothing. The first probe comes
before a router on the way forgets the connection; the fastest ones do after four minutes.

One rule: the times are ours. The kernel's own first probe comes after two hours.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Final

IDLE_SECONDS: Final = 120
INTERVAL_SECONDS: Final = 15
PROBES: Final = 4

# By the names of the systems: macOS has another one for the first time.
_TIMES: Final = (
    ("TCP_KEEPIDLE", IDLE_SECONDS), ("TCP_KEEPALIVE", IDLE_SECONDS),
    ("TCP_KEEPINTVL", INTERVAL_SECONDS), ("TCP_KEEPCNT", PROBES),
)  # fmt: skip


def keep_alive(sock: socket.socket) -> None:
    """Let the kernel probe the peer of a TCP connection; do nothing for a Unix socket."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with contextlib.suppress(OSError):  # the client may have hung up
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _TIMES:
            option = getattr(socket, name, None)
            if option is not None:
                sock.setsockopt(socket.IPPROTO_TCP, option, value)
