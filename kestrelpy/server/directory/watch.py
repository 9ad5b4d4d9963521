"""The periodic check that the data directory is still the one that was locked.

    its path names another folder, or none    ──▶ everything fails: another daemon may own that
                                                  folder and serve the same queues by now
    a queue's folder or file is not there     ──▶ that queue fails
    the file `lock` is not there              ──▶ it is made again: the folder itself is locked
    no file can be made, or there is no room  ──▶ new queues are refused until one can, and health
                                                  and the page say why

A daemon that only appends to open files would not notice: the descriptors go on reaching the old
files, wherever these are by now.

One rule: only the lock file is made again, and never a folder that is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from journal.files import FolderChanged, Handle
from kestrelpy.aside import run_aside
from kestrelpy.core import Broker, JournalLog
from kestrelpy.server.directory.data_directory import DataDirectory

log = logging.getLogger("kestrelpy")

LOOK_SECONDS: Final = 0.25
# A look takes microseconds. A disk that does not answer holds it up, and every sync as well.
_PATIENCE_SECONDS: Final = 10.0
# Files in one look: a server with more open ones takes several looks for all of them.
FILES_MAX: Final = 256
Written = Sequence[tuple[JournalLog, Handle]]


class DirectoryWatch:
    """Looks at one data directory until it is lost, or its task is cancelled."""

    def __init__(
        self,
        directory: DataDirectory,
        broker: Broker,
        written: Callable[[int], Written],
        lost: Callable[[str], None],
        displaced: Callable[[JournalLog, str], None],
    ) -> None:
        """`broker` is told why no new queue can be made. `written` returns some journals with the
        files that they write to; `lost` gets the sentence on a lost directory, `displaced` a
        journal and the path of its missing file."""
        self._directory, self._broker = directory, broker
        self._written = written
        self._lost, self._displaced = lost, displaced
        self._suspects: set[Handle] = set()

    async def run(self) -> None:
        """Look at once, and every so often."""
        while True:
            written = self._written(FILES_MAX)
            slow = asyncio.get_running_loop().call_later(_PATIENCE_SECONDS, self._name_slow_disk)
            try:
                note, missing, refusal = await run_aside(partial(self.look, written), None)
            except FolderChanged as error:
                self._lost(f"{error.filename}: {error.strerror}")
                return
            except OSError as error:  # a shortage: the next look is soon
                log.debug("%s: %s", self._directory.path, error)
            else:
                self._note(note, refusal)
                self.judge(written, missing)
            finally:
                slow.cancel()
            await asyncio.sleep(LOOK_SECONDS)

    def _note(self, note: str, refusal: str) -> None:
        if note:
            log.warning("%s", note)
        before, self._broker.no_new_queue = self._broker.no_new_queue, refusal
        if refusal and refusal != before:
            log.error("%s: %s", self._directory.path, refusal)
        elif before and not refusal:
            log.info("%s: new queues can be made again", self._directory.path)

    def _name_slow_disk(self) -> None:
        log.warning("%s: the disk does not answer", self._directory.path)

    def look(self, written: Written) -> tuple[str, set[Handle], str]:
        """Return a note, the files that are not in their place, and why no new queue can be made;
        raise FolderChanged. Blocks."""
        note = self._directory.check()
        missing = {file for _, file in written if not file.is_in_place}
        return note, missing, self._directory.why_no_queue()

    def judge(self, written: Written, missing: set[Handle]) -> None:
        """Report the files that two looks did not find, if they are still written to: one that is
        renamed, as the next segment is, seems to be gone for a moment."""
        for target, file in written:
            active = target.journal.active
            if file in missing & self._suspects and active is not None and active.handle is file:
                self._displaced(target, file.path)
        self._suspects = missing
