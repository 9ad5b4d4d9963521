"""What was read for one reader of a journal is there for the others, for a moment.

    child 1 ──▶ read 7 8 9 by id ──▶ kept for a second ──▶ child 2, child 3: no read
    child 4, meanwhile ──▶ waits for that read

One rule: a put never changes, so whoever is given what was read for another is given the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from journal.format.record import Record
from kestrelpy.core.log.log import JournalLog

CACHED_SECONDS: Final = 1.0


class ReadCache:
    """Of all journals with several readers; one read of items by their ids for each at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._reading: set[JournalLog] = set()
        self._cached: dict[JournalLog, Mapping[int, Record]] = {}

    def of(self, target: JournalLog, wanted: Iterable[int]) -> list[Record]:
        """Those of these that were read just now."""
        kept = self._cached.get(target)
        return [kept[id_] for id_ in wanted if id_ in kept] if kept else []

    def is_reading(self, target: JournalLog) -> bool:
        """Is a read under way whose end the others wait for?"""
        return target in self._reading

    def begin(self, target: JournalLog) -> None:
        """One is from now on."""
        self._reading.add(target)

    def end(self, target: JournalLog, found: Mapping[int, Record]) -> None:
        """It is over, and this is what it found; nothing: it failed."""
        self._reading.discard(target)
        if found:
            self._cached[target] = found
            self._loop.call_later(CACHED_SECONDS, self._forget, target, found)

    def _forget(self, target: JournalLog, found: Mapping[int, Record]) -> None:
        if self._cached.get(target) is found:
            del self._cached[target]
