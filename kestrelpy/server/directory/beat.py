"""The beat: the file `running-clock` holds the last known time of the running clock.

    running-clock    "1763712000123" as a word file; each beat writes one of its two copies, in turn

While a delay or a lease by token runs, the daemon writes a beat every few seconds, and one at a
clean stop. If the wall clock stands before the last beat at the next start, it was set back: then
the running clock continues at the beat, and each duration has left what it had left then.

A damaged copy is passed over: the other one is older by one beat. Without any copy the records
themselves say where the running clock was, when they were written.

One rule: the file only helps. No request waits for it, and no failure of it stops the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Final

from journal.errors import JournalError
from journal.files import Files
from kestrelpy.aside import run_aside
from kestrelpy.core import Broker
from kestrelpy.server.directory.word_file import FILE_BYTES, Copies, WordFile

NAME: Final = "running-clock"
BEAT_SECONDS: Final = 5.0
_DIGITS_MAX: Final = 15

log = logging.getLogger("kestrelpy")


class Beat:
    """The file of one data directory. One thread at a time uses it."""

    __slots__ = ("_file", "_files", "_is_whole", "_place")

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._file = WordFile(files, os.path.join(folder, NAME))
        self._is_whole = False  # there, and of its full size
        self._place = 0  # the copy that the next beat writes

    def begin(self, broker: Broker, now_ms: int) -> str:
        """Continue the running clock; return a sentence on damage. Blocks."""
        last_ms, damaged = self.read()
        broker.clock.begin(last_ms, now_ms)
        return damaged

    def read(self) -> tuple[int, str]:
        """Return the last beat, 0 if there is none, and a sentence on damage. Blocks."""
        file = self._file
        if not file.is_there:
            return 0, ""
        copies = file.read()
        self._is_whole = self._files.size(file.path) == FILE_BYTES
        beats = [_number(word) for word in copies.words]
        last = max(beats, default=0)
        if not last:
            return 0, (
                f"{file.path}: both copies are damaged; if the clock was set back, delays and "
                "leases may last longer by what had passed of them"
            )
        self._place = 1 - beats.index(last)
        if 0 in beats:
            self._place = beats.index(0)
            return last, f"{file.path}: one of its two copies was damaged; the other one holds"
        return last, ""

    def save(self, running_ms: int) -> None:
        """Write a beat; on disk on return. Blocks; raises OSError."""
        word = b"%d" % running_ms
        if not self._is_whole:
            self._file.make(word)
            self._is_whole = True
            return
        untouched = Copies((word, None) if self._place else (None, word))
        self._file.write(word, untouched)
        self._place = 1 - self._place


def _number(word: bytes | None) -> int:
    is_number = word is not None and word.isdigit() and len(word) <= _DIGITS_MAX
    return int(word) if word is not None and is_number else 0


class Heart:
    """Writes a beat every so often while a duration runs, until its task is cancelled."""

    def __init__(self, beat: Beat, broker: Broker, now_ms: Callable[[], int]) -> None:
        self._beat = beat
        self._broker = broker
        self._now_ms = now_ms
        self._failed = ""

    async def run(self) -> None:
        """Write beats."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await run_aside(self.try_to_save, None)

    def try_to_save(self) -> None:
        """Write a beat, or report once why there is none. Blocks."""
        try:
            self.save()
        except (JournalError, OSError) as error:
            if str(error) != self._failed:
                log.warning("the file %s is not written: %s", NAME, error)
            self._failed = str(error)
        else:
            self._failed = ""

    def save(self) -> None:
        """Write a beat if any duration runs, unless the directory is lost. Blocks; raises OSError.
        """
        clock = self._broker.clock
        running_ms = self._now_ms() + clock.running_ms
        if clock.last_ms > running_ms and not self._broker.refusal:
            self._beat.save(running_ms)
