"""Rows of one write that have one id: whether they are alike.

    set q/id=7/... 0 0 3   one    ─▶ first of q/id=7
    set q/id=7/... 0 0 3   one    ─▶ alike: a repetition
    set q/id=7/... 0 0 3   two    ─▶ another row: it differs, and the server stores only the first

One rule: the newest `IDS_MAX` ids are compared, so the memory of a task is bounded.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

IDS_MAX: Final = 100_000  # some 20 MiB
NAMED_MAX: Final = 20
_DIGEST_BYTES: Final = 8


class Compared:
    """The rows of one task."""

    __slots__ = ("_digests", "count", "names")

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self.count = 0
        self.names: list[str] = []  # the first of those that differ

    def add(self, request: bytes) -> None:
        """Look at the request of a row, as `requests_of` makes it."""
        end = request.index(b" ", 4)
        parts = request[4:end].decode("ascii", "backslashreplace").split("/")
        name = next((f"{parts[0]}/{part}" for part in parts if part.startswith("id=")), "")
        if not name:
            return
        digest = blake2b(request, digest_size=_DIGEST_BYTES).digest()
        known = self._digests.setdefault(name, digest)
        if known != digest:
            self.count += 1
            if len(self.names) < NAMED_MAX and name not in self.names:
                self.names.append(name)
        if len(self._digests) > IDS_MAX:
            del self._digests[next(iter(self._digests))]
