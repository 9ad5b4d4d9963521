"""Writes that go out at once, and not at the end of the loop's turn, as uvloop gathers them.

One rule: a connection with TLS stays as it is. Its own layer gathers, and takes a limit of no bytes
for a client that never reads.
"""

from __future__ import annotations

import asyncio


def write_at_once(transport: asyncio.WriteTransport) -> None:
    """Let each later write of this transport go out within the call, as far as the kernel takes
    it."""
    if transport.get_extra_info("sslcontext") is None:
        transport.set_write_buffer_limits(high=0)
