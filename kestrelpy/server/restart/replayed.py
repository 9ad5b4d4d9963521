"""One queue's folder, read once: its records applied to a fresh queue.

One rule: nothing on the disk changes, and the queue is not registered yet.
"""

from __future__ import annotations

from typing import Final

from journal.errors import Damage, JournalError
from journal.files import Files
from journal.format import TOKENS_SKIPPED, Checkpoint
from journal.recovery import Recovery
from journal.store import Chunks, read_chunks
from kestrelpy.core import Queue, Replay


class Replayed:
    """The replay of one folder, and its result.

    `checkpoint` is the newest one; `error` says why the replay stopped before the end.
    """

    def __init__(self, files: Files, path: str, queue: Queue) -> None:
        """Replay this folder into a fresh queue; raise OSError. Blocks."""
        self.path: Final = path
        self.queue: Final = queue
        self.recovery: Final = Recovery(files, path)
        self.replay: Final = Replay(queue)
        self.chunks = Chunks([], [], [], [])
        self.checkpoint: Checkpoint | None = None
        self.error: JournalError | None = None
        try:
            self._run(files)
        except JournalError as error:
            self.error = error

    def _run(self, files: Files) -> None:
        queue, recovery, replay = self.queue, self.recovery, self.replay
        records = recovery.records()
        first = next(records, None)  # by now the first snapshot is known
        opening = recovery.checkpoint
        if opening is not None:  # a folder's name may be cut
            self.checkpoint = Checkpoint.from_record(opening)
            queue.name = self.checkpoint.name or queue.name
        snapshot = recovery.snapshot
        if snapshot is not None:
            replay.restore(snapshot)
        queue.know(recovery.identity)
        self.chunks = read_chunks(
            files, self.path, recovery.identity,
            snapshot.chunks if snapshot is not None else None,
            lambda frame: queue.dedupe.take_in(frame, snapshot is not None), recovery.names,
        )  # fmt: skip
        if first is not None:
            replay.run([first])
        replay.run(records)
        if recovery.checkpoint is not None:
            if recovery.checkpoint is not opening:
                self.checkpoint = Checkpoint.from_record(recovery.checkpoint)
            assert self.checkpoint is not None
            queue.reader._apply_tokens(self.checkpoint.tokens)

    def raise_error(self) -> None:
        """Raise JournalError, with the folder, if the replay stopped before the end."""
        if self.error is not None:
            raise JournalError(f"{self.path}: {self.error}") from self.error

    def was_written(self) -> bool:
        """Return whether the folder holds a record that may have been acknowledged."""
        recovery = self.recovery
        is_damaged = bool(self.damages())
        return recovery.lsn_next > 1 or recovery.snapshot is not None or is_damaged

    def damages(self) -> list[Damage]:
        """Return the damage by which acknowledged records may be lost."""
        return [damage for damage in self.recovery.damages if damage.kind != "torn"]

    def is_unread(self) -> bool:
        """Return whether the disk did not give a file of it, and may give that later."""
        return bool(self.recovery.unread())

    def has_items(self) -> bool:
        """Return whether children of an earlier generation have items, or transfers into it are not
        on disk at their sources yet."""
        queue = self.queue
        queue.catch_up()
        return bool(queue.origins) or any(child.live for child in queue.children.values())

    def is_needed(self) -> bool:
        """Return whether an earlier generation must enter service: for its items, or because
        damaged bytes may have held items of its children."""
        return self.has_items() or bool(self.damages() and self.queue.children)

    def tokens_below(self) -> int:
        """Return the number below which are all tokens that the queue may have issued."""
        skipped = TOKENS_SKIPPED if self.damages() else 0
        return self.queue.reader.tokens_below + skipped
