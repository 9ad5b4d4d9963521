"""Sizes so small that a few items exceed the memory: little is kept, read or walked at once.

One rule: these sizes change only how soon and in which pieces the disk is asked.
"""

from __future__ import annotations

import pytest

from journal.write.segment_file import Sizes

_REFILLS = (
    "kestrelpy.core.subscription.ready_items.REFILL_ITEMS",
    "kestrelpy.core.subscription.subscription.REFILL_ITEMS",
)


def little_memory(piece: int, refill_items: int = 0, **others: object) -> pytest.MonkeyPatch:
    """Return the patch that sets them all, for the caller to undo.

    `piece`: bytes that are read at once. `refill_items`: how many a line reads back, 0: as always.
    """
    sizes: dict[str, object] = {
        "tests.support.server_harness._SIZES": Sizes(2048, 4096, 1 << 20),
        "journal.read.range_scan.PIECE_BYTES": piece,
        "journal.read.range_scan.PIECE_BYTES_OF_ONE": piece,
        "journal.read.seek.PIECE_BYTES": piece,
        "journal.read.seek._WINDOW_BYTES": max(piece, 128),
        "journal.read.range_scan.WALKED_BYTES_MAX": 3 * piece,
        "journal.read.range_scan.NEAR_ITEMS": 4,
        "journal.read.range_scan._SPAN": 1,
        "kestrelpy.core.index.memory_budget.FREE_BYTES": 0,
        "kestrelpy.core.index.memory_budget.GRAIN_BYTES": 500,
    }
    if refill_items:
        sizes |= dict.fromkeys(_REFILLS, refill_items)
    patch = pytest.MonkeyPatch()
    for name, value in (sizes | others).items():
        patch.setattr(name, value)
    return patch
