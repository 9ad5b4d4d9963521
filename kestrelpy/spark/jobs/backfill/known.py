"""The ids of the rows of a backfill, in a file of their own that goes with the process.

    content ids    the digest of a row ──▶ how many rows were like it so far
    a column       the id of a row     ──▶ the first row of this id: its digest and its place

One rule: memory does not grow with the files; what is too much for it goes to the disk.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from kestrelpy.spark.errors import KestrelError

_TABLE: Final = (
    "CREATE TABLE seen (name BLOB PRIMARY KEY, count INTEGER, digest BLOB, place TEXT) "
    "WITHOUT ROWID"
)


class Known:
    """The ids that were seen."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)  # a temporary file, if needed
        for each in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE, "BEGIN"):
            self._database.execute(each)

    def close(self) -> None:
        """Forget all."""
        self._database.close()

    def occurrence(self, digest: bytes) -> int:
        """Return how many rows with this content were counted before, and count this one."""
        found = self._found("SELECT count FROM seen WHERE name = ?", digest)
        count = 0 if found is None else int(found[0]) + 1
        self._put(digest, count, b"", "")
        return count

    def differs(self, name: bytes, digest: bytes, place: str) -> str | None:
        """Return the place of the first row of this id if it is another row; else None."""
        found = self._found("SELECT digest, place FROM seen WHERE name = ?", name)
        if found is None:
            self._put(name, 0, digest, place)
            return None
        return str(found[1]) if found[0] != digest else None

    def _found(self, question: str, name: bytes) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self._database.execute(question, (name,)).fetchone()
        except sqlite3.Error as error:
            raise _short(error) from None
        return found

    def _put(self, name: bytes, count: int, digest: bytes, place: str) -> None:
        try:
            self._database.execute(
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", (name, count, digest, place)
            )
        except sqlite3.Error as error:
            raise _short(error) from None


def _short(error: sqlite3.Error) -> KestrelError:
    return KestrelError(
        f"The ids of the rows do not fit on the disk for temporary files: {error}. Say where there "
        "is room with SQLITE_TMPDIR."
    )
