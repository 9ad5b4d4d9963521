"""Items read for one subscription of a journal, shared with its others for a moment.

    child 1 ──▶ read 7 8 9 by id ──▶ cached for a second ──▶ child 2, child 3: no read
    child 4, meanwhile ──▶ waits for that read

One rule: a put never changes, so every subscription gets the same from the cache as from a read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from journal.format import Record
from kestrelpy.core import JournalLog

CACHED_SECONDS: Final = 1.0


class ReadCache:
    """The cache of all journals with several subscriptions; one read by id per journal at a
    time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reading: set[JournalLog] = set()
        self._cached: dict[JournalLog, Mapping[int, Record]] = {}

    def of(self, target: JournalLog, wanted: Iterable[int]) -> list[Record]:
        """Return those of the wanted items that were read just now."""
        kept = self._cached.get(target)
        return [kept[id_] for id_ in wanted if id_ in kept] if kept else []

    def is_reading(self, target: JournalLog) -> bool:
        """True if a read is under way that other subscriptions wait for."""
        return target in self._reading

    def begin(self, target: JournalLog) -> None:
        """Note the begin of a read."""
        self._reading.add(target)

    def end(self, target: JournalLog, found: Mapping[int, Record]) -> None:
        """Note the end of a read and its result; an empty result means that it failed."""
        self._reading.discard(target)
        if found:
            self._cached[target] = found
            self._loop.call_later(CACHED_SECONDS, self._forget, target, found)

    def _forget(self, target: JournalLog, found: Mapping[int, Record]) -> None:
        if self._cached.get(target) is found:
            del self._cached[target]
