"""The data directory: its lock, and the folder of each queue.

    data/
      lock                     held while a daemon runs
      server-id                made once
      tokens                   the lease tokens and generations of deleted queues
      running-clock            the last time that is known of the running clock (`beat`)
      jobs.1763712000/         the queue `jobs`, made at that second: its generation
        0000000001.segment
        set-aside/             copies of what was cut or damaged

One rule: a queue's name is never used raw as a file name, and two generations of one name never
share a folder.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from typing import Final

from journal.files import Files, Lock, is_shortage
from journal.format import folder_name, parse_folder_name
from journal.patience import patient_files, pause
from journal.store import LogStore, Sizes
from kestrelpy.core import Broker, JournalLog, Queue
from kestrelpy.server.directory.beat import Beat
from kestrelpy.server.directory.removed import Removed
from kestrelpy.server.directory.server_id import take_server_id
from kestrelpy.server.directory.token_file import TokenFile

REMOVED_SUFFIX: Final = "~removed"
_SYNC_PROBES: Final = 3


class DataDirectory:
    """One data directory, owned from `lock` to `unlock`."""

    def __init__(
        self, files: Files, path: str, sizes: Sizes, pause: Callable[[], None] = pause
    ) -> None:
        """A blocking call that a shortage stops is tried again after a `pause`."""
        self.files = files
        self.patient = patient_files(files, pause)
        self.path = path
        self.sizes = sizes
        self.server_id = ""
        self.reserve_bytes = 0  # of the disk, left free by a new segment
        self._damaged_id = ""  # a sentence on the damaged file of the id
        self.tokens = TokenFile(self.patient, path)
        self.beat = Beat(self.patient, path)
        self._lock: Lock | None = None
        self._tombstones: list[Queue] = []  # the broker's deleted queues whose folders stay
        self.unread = set[str]()  # folders of other deleted queues, which stay for the next start

    def lock(self) -> None:
        """Lock the directory; raise DirectoryLocked or OSError. Blocks."""
        self.patient.make_folder(self.path)
        self._lock = self.patient.lock(os.path.join(self.path, "lock"))
        self.server_id, self._damaged_id = take_server_id(self.patient, self.path)

    def measure_sync(self) -> float:
        """Return how many milliseconds one small write and sync take here; 0: the disk is full."""
        path = os.path.join(self.path, "sync-probe")
        try:
            handle = self.patient.create(path, b"", 4096)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            return 0.0  # a full disk can be drained
        took = []
        for _ in range(_SYNC_PROBES):
            handle.write(0, b"probe")
            began = time.perf_counter()
            handle.sync()
            took.append((time.perf_counter() - began) * 1000)
        handle.close()
        self.patient.remove(path)
        return min(took)

    def check(self) -> str:
        """Return a sentence if the lock file was gone and is there again, else "". Blocks.

        Raise FolderChanged if the directory is not the one that was locked.
        """
        return self._lock.check() if self._lock is not None else ""

    def why_no_queue(self) -> str:
        """Return why the first segment of a new queue cannot be made, or "". Blocks.

        Its first put would wait for the segment: it cannot be taken back.
        """
        if why := self.files.why_no_file(self.path):
            return f"no new queue is made: {why}"
        if self.files.free(self.path) - self.sizes.segment_min >= self.reserve_bytes:
            return ""
        rest = f" beside min_disk_free ({self.reserve_bytes} bytes)" if self.reserve_bytes else ""
        return f"disk full: no room for a new queue{rest}"

    def unlock(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def new_log(self, queue: Queue, dirty: list[JournalLog]) -> JournalLog:
        """Return a journal for a new queue; nothing is on disk until its first segment is
        prepared."""
        store = LogStore.new(
            self.files, self.folder(queue), os.urandom(16), self.sizes, queue.checkpoint
        )
        return JournalLog(store, dirty, queue.policy.sync_ms, queue.state)

    def folder(self, queue: Queue) -> str:
        """Return the folder of a queue."""
        return os.path.join(self.path, folder_name(queue.name, queue.generation))

    def begin(self, broker: Broker, now_ms: int, unix_ms: int) -> list[str]:
        """Read the tokens and the running clock; return sentences on damage. Blocks.

        From now on the folders of the broker's tombstones stay.
        """
        self._tombstones = broker.tombstones
        damaged = (self._damaged_id, self.tokens.read(unix_ms), self.beat.begin(broker, now_ms))
        return [each for each in damaged if each]

    def remove_queue(self, queue: Queue) -> None:
        """Remove one queue's folder; raise OSError. Blocks."""
        removed = Removed()
        self.remove_queues([queue], removed)
        if (error := removed.errors.get(queue)) is not None:
            raise error

    def remove_queues(self, queues: list[Queue], removed: Removed) -> None:
        """Remove the folders of these queues, each after those of its earlier generations.

        `removed` gets the result for each. Raise OSError if none could be removed. Blocks.

        Otherwise an earlier queue would come back with the next start. The tokens are saved.
        """
        below = max(queue.reader.tokens_below for queue in queues)
        self.tokens.save(below, max(queue.generation for queue in queues))
        found = dict[bytes, list[tuple[int, str]]]()
        for folder in self.patient.names(self.path):
            name, made = parse_folder_name(folder)
            if made:
                found.setdefault(name, []).append((made, folder))
        # The later of two queues of one name has the folders of both: if one of these stays, it has
        # an error as well.
        waiting = [(queue, folders) for queue in queues if (folders := self._folders(queue, found))]
        while waiting:  # an earlier generation goes before a later one
            self._mark_removed([(queue, folders.pop(0)) for queue, folders in waiting], removed)
            waiting = [
                (queue, folders) for queue, folders in waiting
                if folders and queue not in removed.errors
            ]  # fmt: skip
        for folder in removed.folders:
            self.patient.remove_folder(folder)

    def _folders(self, queue: Queue, found: dict[bytes, list[tuple[int, str]]]) -> list[str]:
        """Return those of the folders `found` that are of a queue and of its earlier generations,
        in order."""
        name, generation = queue.name, queue.generation
        stay = {other.generation for other in [*self._tombstones] if other.name == name}
        parsed, _ = parse_folder_name(folder_name(name, generation))
        return [
            os.path.join(self.path, folder) for made, folder in sorted(found.get(parsed, ()))
            if made <= generation and made not in stay and folder not in self.unread
            and folder == folder_name(name, made)
        ]  # fmt: skip

    def _mark_removed(self, folders: list[tuple[Queue, str]], removed: Removed) -> None:
        """Give these folders the names that a start removes; one sync makes all of them sure.

        Raise OSError if the sync failed or a shortage stopped one.
        """
        once = dict.fromkeys(folder for _, folder in folders)
        names = [(folder, folder + REMOVED_SUFFIX) for folder in once]
        errors = self.patient.rename_all(names)
        removed.folders += [renamed for folder, renamed in names if folder not in errors]
        for queue, folder in folders:
            error = errors.get(folder)
            if error is not None and not is_shortage(error):
                removed.errors[queue] = error
        for error in errors.values():
            if is_shortage(error):
                raise error  # it passes: the caller tries again

    def remove(self, folder: str) -> None:
        """Remove a queue's folder; it is gone for good on return. Blocks."""
        if os.path.basename(folder) in self.patient.names(os.path.dirname(folder)):
            renamed = folder + REMOVED_SUFFIX
            self.patient.rename(folder, renamed)
            self.patient.remove_folder(renamed)
