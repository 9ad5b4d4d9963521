"""Writes that go out within the call, and of which little waits here.

The loop sends what the kernel takes at once: asyncio's own does, and uvloop from 0.23 on. What the
kernel does not take waits in the transport, and is sent whenever the client reads on, whatever has
become of the data meanwhile.

One rule: while anything waits in a transport, nothing is added to it.
"""

from __future__ import annotations

import asyncio


def write_at_once(transport: asyncio.WriteTransport) -> None:
    """Pause the writer of this transport as soon as the kernel does not take everything.

    A limit of no bytes would pause the layer of TLS for good: it has at least so many.
    """
    transport.set_write_buffer_limits(high=1, low=0)
