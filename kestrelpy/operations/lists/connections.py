"""What the server says of a connection.

One rule: it names the peer and counts; it shows nothing that the client sent.
"""

from __future__ import annotations

from typing import NamedTuple


class ConnectionFacts(NamedTuple):
    """One connection. `idle_ms` counts from its last bytes; None: the wire does not count it."""

    id: int
    wire: str
    peer: str
    leases: int
    is_waiting: bool
    idle_ms: int | None
    held_bytes: int
