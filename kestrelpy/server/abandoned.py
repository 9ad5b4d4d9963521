"""What is said in the log of children that nobody comes for.

One rule: each is named once, and again when it was asked in between.
"""

from __future__ import annotations

import logging

from kestrelpy.core.broker import Broker

log = logging.getLogger("kestrelpy.children")


def name_abandoned(broker: Broker, named: set[bytes], now_ms: int) -> set[bytes]:
    """Name those that were not; returns all that are abandoned."""
    found = {queue.name: queue for queue in broker.abandoned(now_ms)}
    for name, queue in found.items():
        if name not in named:
            log.warning("queue %s: %s", name.decode("ascii"), queue.why_abandoned(now_ms))
    return set(found)
