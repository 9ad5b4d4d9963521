"""Reads of items whose markers differ from their ids: the browser knows the ids, the log their
places.

    markers 11 12 30 ──▶ items 2 9 4 ──▶ their puts, by number ──▶ in the order of their markers

One rule: as in `journal.read.lookup`: a put that cannot be read is passed over.
"""

from __future__ import annotations

from typing import Final

from journal.files import Files
from journal.format import said_of_put
from journal.store import Put, ReadSome

# Read together: they may be large, and a read is the first to learn their size.
DISPLACED_MAX: Final = 32


class DisplacedRead:
    """A read of some such items, each with its marker; `run` blocks and belongs on a thread.

    The first item was stored at `since_ms` or later.
    """

    __slots__ = ("_bytes_most", "_pairs", "_since_ms", "_some", "seen")

    def __init__(
        self, some: ReadSome, pairs: list[tuple[int, int]], bytes_most: int, since_ms: int
    ) -> None:
        self._some = some
        self._pairs = pairs
        self._bytes_most = bytes_most
        self._since_ms = since_ms
        self.seen = 0  # the marker up to which it looked

    def run(self, files: Files) -> list[Put]:
        """Return the puts that can be read, at least one and as many as there is room for.

        Raise OSError after a shortage: it does not tell which puts can be read.
        """
        found, puts, left = self._some.run(files), list[Put](), self._bytes_most
        if found.shortage is not None:
            raise found.shortage
        records, self.seen = found.records, 0
        for marker, id_ in self._pairs:
            record = records.get(id_)
            if record is not None and (puts or record.time_ms >= self._since_ms):
                left -= len(record.body)
                if left < 0 and puts:
                    break
                said = said_of_put(record.meta)
                puts.append(
                    Put(id_, marker, record.small, record.time_ms, record.body, *said)
                )
            self.seen = marker
        return puts
