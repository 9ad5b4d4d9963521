"""Writes that go out within the call, so that few bytes wait here.

The loop sends all that the kernel takes at once: asyncio's own does, and uvloop from 0.23 on. The
rest waits in the transport, and is sent whenever the client reads on, even if the data has changed
meanwhile.

One rule: while anything waits in a transport, nothing is added to it.
"""

from __future__ import annotations

import asyncio


def write_at_once(transport: asyncio.WriteTransport) -> None:
    """Pause the writer of this transport as soon as the kernel does not take everything.

    The limit is 1 and not 0: the layer of TLS always holds at least 0 bytes, so a limit of 0 would
    pause it for good.
    """
    transport.set_write_buffer_limits(high=1, low=0)
