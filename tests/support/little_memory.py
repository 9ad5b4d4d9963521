"""Sizes so small that a few items are a backlog: little is kept, read or walked at once.

One rule: what is set here changes how soon and in which pieces the disk is asked, nothing else.
"""

from __future__ import annotations

import pytest

from journal.journal import Sizes

_REFILLS = "kestrelpy.core.line.REFILL_ITEMS", "kestrelpy.core.reader.REFILL_ITEMS"


def little_memory(piece: int, refill_items: int = 0, **others: object) -> pytest.MonkeyPatch:
    """Return the patch that sets them all, for the caller to undo.

    `piece`: bytes that are read at once. `refill_items`: how many a line reads back, 0: as always.
    """
    sizes: dict[str, object] = {
        "tests.support.stage._SIZES": Sizes(2048, 4096, 1 << 20),
        "journal.gather.PIECE_BYTES": piece,
        "journal.gather.PIECE_BYTES_OF_ONE": piece,
        "journal.seeking.PIECE_BYTES": piece,
        "journal.seeking._WINDOW_BYTES": max(piece, 128),
        "journal.gather.WALKED_BYTES_MAX": 3 * piece,
        "journal.gather.NEAR_ITEMS": 4,
        "journal.gather._SPAN": 1,
        "kestrelpy.core.residency.FREE_BYTES": 0,
        "kestrelpy.core.residency.GRAIN_BYTES": 500,
    }
    if refill_items:
        sizes |= dict.fromkeys(_REFILLS, refill_items)
    patch = pytest.MonkeyPatch()
    for name, value in (sizes | others).items():
        patch.setattr(name, value)
    return patch
