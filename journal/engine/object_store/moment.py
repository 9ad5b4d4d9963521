"""A slice as of one moment, to be read while its owner works: an engine that commits nothing.

One rule: all that is read of a slice belongs to one moment. If a pack of it is deleted, the moment
is over.
"""

from __future__ import annotations

import errno

from journal.engine.address import SLICE
from journal.engine.commits_nothing import CommitsNothing
from journal.engine.engine import Claim, EngineAway, FileFacts, Layout, Owner, Piece, Seat, Takeover
from journal.engine.object_store.bucket import ObjectBucket
from journal.engine.object_store.made_store import layout_of
from journal.engine.object_store.object_store_engine import ObjectStoreEngine


class ObjectStoreMoment(CommitsNothing):
    """`Engine` on one moment of a bucket: each slice is read when it is first asked for."""

    def __init__(self, bucket: ObjectBucket) -> None:
        super().__init__(bucket.name)
        self._engine = ObjectStoreEngine(bucket)

    def takeovers(self) -> list[Takeover]:
        return self._engine.takeovers()

    def layout(self) -> Layout:
        found = layout_of(self._engine.bucket)
        return found if found.slices else Layout(SLICE)

    def files(self, at: Claim) -> list[FileFacts]:
        try:
            return self._engine.files(at)
        except EngineAway as error:
            raise _over(error) from None

    def edges(self, at: Claim, front: int, back: int) -> list[Piece]:
        try:
            return self._engine.edges(at, front, back)
        except EngineAway as error:
            raise _over(error) from None

    def read(self, at: Claim, file: int, offset: int, size: int) -> bytes:
        try:
            return self._engine.read(at, file, offset, size)
        except EngineAway as error:
            raise _over(error) from None

    def owners(self) -> dict[int, Owner]:
        return self._engine.owners()

    def members(self) -> list[Seat]:
        return self._engine.members()

    def close(self) -> None:
        self._engine.close()


def _over(error: EngineAway) -> OSError:
    """No EngineAway: another attempt would not end."""
    return OSError(errno.ENOTCONN, error.strerror, error.filename)
