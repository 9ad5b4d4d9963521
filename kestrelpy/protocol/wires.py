"""The wires by name.

One rule: a wire that is not switched on is not imported.
"""

from __future__ import annotations

from kestrelpy.protocol.wire import MEMCACHE, Wire


def wire_named(name: str) -> Wire:
    """Return the wire `memcache` or `text`."""
    if name == "text":
        from kestrelpy.protocol.text import TEXT  # noqa: PLC0415

        return TEXT
    assert name == "memcache", name
    return MEMCACHE
