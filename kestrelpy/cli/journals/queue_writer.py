"""Writes the journal of a new queue, item by item, outside of a daemon.

    data/jobs.1763712000~removed/    while it is written; the next start removes it after a crash
    data/jobs.1763712000/            its name when it is whole and on disk

One rule: until `finish` returns, no start sees anything of the queue; then it is all there.
"""

from __future__ import annotations

import os
from typing import Final

from journal.files import Files
from journal.format import (
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    NUMBER_TAG,
    TAKES,
    Checkpoint,
    Kind,
    Tag,
    folder_name,
    named,
)
from journal.store import LogStore, Sizes

STAGED: Final = "~removed"  # a suffix of folders that a daemon removes when it starts
ITEM_BYTES_MAX: Final = FRAME_BYTES_MAX - (1 << 16)  # a frame has a header and meta as well
_PUT: Final = int(Kind.PUT)
_MS_MAX: Final = (1 << 53) - 1
_EXPIRES: Final = int(Tag.EXPIRES_MS)
# The bytes in memory before a write, and the bytes written before a sync.
_WRITE_BYTES: Final = 4 << 20
_WRITE_ITEMS: Final = 10_000
_SYNC_BYTES: Final = 64 << 20


class QueueWriter:
    """The journal of one queue that is being written. Blocks; `add` and `finish` raise OSError and
    JournalError."""

    def __init__(
        self, files: Files, data_dir: str, name: bytes, generation: int, server: bytes,
        tokens_below: int, unix_ms: int,
    ) -> None:  # fmt: skip
        """`tokens_below`: deleted queues may have issued lease tokens below this number."""
        self.items = 0
        self.bytes = 0
        self._own = 0  # items of the queue itself
        self._files, self._unix_ms = files, unix_ms
        self._name, self._generation, self._server = name, generation, server
        self._tokens_below = tokens_below
        self._readers = 0
        self._write_at, self._write_number = _WRITE_BYTES, _WRITE_ITEMS
        self._synced_bytes = 0
        self.folder = os.path.join(data_dir, folder_name(name, generation))
        self._staged = self.folder + STAGED
        files.remove_folder(self._staged)
        files.make_folder(self._staged)
        store = LogStore.new(files, self._staged, os.urandom(16), Sizes(), self._checkpoint)
        self._journal = store.writer
        self._append = self._journal.append

    @property
    def is_empty(self) -> bool:
        """True if the queue has no item and no child."""
        return not (self.items or self._readers)

    def name_child(self, part: bytes) -> int:
        """Name a child that sees no item so far; return the number of its subscription."""
        self._readers += 1
        self._journal.append(
            named(self._readers, part, self.items, TAKES, self._unix_ms)
        )
        return self._readers

    def add(self, body: bytes, stored_ms: int, expires_ms: int, reader: int) -> None:
        """Add an item; `expires_ms` 0: never, `reader` 0: for the queue itself."""
        meta = NUMBER_TAG.pack(_EXPIRES, 8, min(expires_ms, _MS_MAX)) if expires_ms else b""
        self.items = number = self.items + 1
        self._append((_PUT, number, number, 0, stored_ms, meta, body, reader, 0))
        self.bytes = size = self.bytes + len(body)
        if not reader:
            self._own += 1
        if size >= self._write_at or number >= self._write_number:
            self._write()

    def finish(self, extra: tuple[str, bytes]) -> None:
        """Put the queue in its place, with a small file of that name and content in its folder."""
        self._write()
        self._journal.close(self._unix_ms)
        name, content = extra
        path = os.path.join(self._staged, name)
        self._files.create(path, content, len(content)).close()
        self._files.rename(self._staged, self.folder)

    def abandon(self) -> None:
        """Leave nothing of the queue."""
        self._journal.abandon()
        self._files.remove_folder(self._staged)

    def _write(self) -> None:
        journal = self._journal
        journal.write_all(self._unix_ms)
        self._write_at, self._write_number = self.bytes + _WRITE_BYTES, self.items + _WRITE_ITEMS
        written = self.bytes + self.items * HEADER_BYTES
        if written - self._synced_bytes >= _SYNC_BYTES:
            journal.sync_now()
            self._synced_bytes = written
        if journal.commit.failure is not None:
            raise journal.commit.failure

    def _checkpoint(self) -> Checkpoint:
        return Checkpoint(
            name=self._name,
            next_item=self.items + 1,
            next_place=self.items + 1,
            tokens=self._tokens_below,
            total_items=self._own,
            live_items=self._own,
            generation=self._generation,
            server=self._server,
        )
