"""What a store of objects does for an engine. `s3.py` has it for S3's protocol.

    put_new ──▶ the object is there now, with these bytes      or: another one has its name
    put, get, parts, listed, folders, delete

Every write of a log goes through `put_new`: the store itself takes one of two that come at once.

One rule: no request that writes is repeated by a bucket. Who asked decides, and looks at what is
there.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, Protocol


class Found(NamedTuple):
    """Bytes of an object, and when it was written by the store's clock."""

    data: bytes
    written_at: datetime


class ListedObject(NamedTuple):
    """An object in a list."""

    key: str
    size: int
    written_at: datetime


class ObjectBucket(Protocol):
    """The objects below one prefix. For any thread; every call blocks."""

    name: str  # for logs and errors

    def put_new(self, key: str, data: bytes) -> bool:
        """True: the object is there, durably, with these bytes; False: another one has its name.
        Raise EngineAway, after which it may be there later; or EngineFull."""

    def put(self, key: str, data: bytes) -> None:
        """Write an object over any that has its name. Raise EngineAway."""

    def get(self, key: str, bytes_max: int | None = None) -> Found | None:
        """Return an object, or its first bytes; None: there is none. Raise EngineAway."""

    def parts(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return these parts of an object: offsets and ends. Raise EngineAway, or FileNotFoundError
        if there is no such object."""

    def listed(self, folder: str, after: str = "") -> list[ListedObject]:
        """Return the objects below a folder in the order of their names; with `after` those behind
        this name alone. Raise EngineAway."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders in a folder. Raise EngineAway."""

    def delete(self, keys: Sequence[str]) -> None:
        """Delete these objects; those that are gone already are left out. Raise EngineAway."""
