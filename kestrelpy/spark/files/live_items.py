"""The live items of a split as arrays, to look up many items at once.

    items      3  4  7  9
    has        1  0  1  1
    states     0  .  2  1      of `STATES`

One rule: a method takes an array of items, and answers without a loop over them.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from journal.sets import PAGE_IDS
from kestrelpy.spark.files.frame_headers import Bools, Ints
from kestrelpy.spark.files.split import PackedItems

STATES: Final = ("ready", "dead", "lent", "delayed")  # as the column `state` shows them
READY, DEAD, LEASED, DELAYED = range(len(STATES))
_PAIR: Final = np.dtype([("item", "<u8"), ("number", "<u8")])
_PAGE: Final = np.dtype([("page", "<u8"), ("bits", "u1", PAGE_IDS // 8)])


class LiveItems:
    """`PackedItems` as arrays: which items are there, their states, their attempts."""

    def __init__(self, live_items: PackedItems) -> None:
        ranges = np.frombuffer(live_items.ranges, "<u8").astype(np.int64).reshape(-1, 2)
        ranges = ranges[ranges[:, 1] >= ranges[:, 0]]
        self._firsts, self._lasts = ranges[:, 0], ranges[:, 1]
        pages = np.frombuffer(live_items.pages, _PAGE)
        self._pages, self._bits = pages["page"].astype(np.int64), pages["bits"]
        self._attempts = np.frombuffer(live_items.attempts, _PAIR)
        self._states = np.frombuffer(live_items.states, _PAIR)
        self._released = np.frombuffer(live_items.released, _PAIR)

    def has(self, items: Ints) -> Bools:
        """Return which of these items are there."""
        found = np.zeros(len(items), np.bool_)
        if len(self._firsts):
            at = np.searchsorted(self._firsts, items, "right") - 1
            found |= (at >= 0) & (items <= self._lasts[np.maximum(at, 0)])
        if len(self._pages):
            page = items // PAGE_IDS
            at = np.minimum(np.searchsorted(self._pages, page), len(self._pages) - 1)
            bits = self._bits[at, (items % PAGE_IDS) >> 3] >> (items & 7).astype(np.uint8)
            found |= (self._pages[at] == page) & ((bits & 1) == 1)
        return found

    def attempts(self, items: Ints) -> Ints:
        """Return how many deliveries of each item ended without a confirm."""
        return _looked_up(self._attempts, items)

    def states(self, items: Ints) -> npt.NDArray[np.int8]:
        """Return the place of each item's state in `STATES`."""
        return _looked_up(self._states, items).astype(np.int8)

    def markers(self, items: Ints) -> Ints:
        """Return the marker of each item's release; 0: it was not put with a delay."""
        return _looked_up(self._released, items)


def _looked_up(pairs: npt.NDArray[np.void], items: Ints) -> Ints:
    if not len(pairs):
        return np.zeros(len(items), np.int64)
    ids = pairs["item"].astype(np.int64)
    at = np.minimum(np.searchsorted(ids, items), len(ids) - 1)
    return np.where(ids[at] == items, pairs["number"].astype(np.int64)[at], 0)


NO_LIVE_ITEMS: Final = LiveItems(PackedItems(struct.pack("<QQ", 1, 0), b""))
