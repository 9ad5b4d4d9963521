"""The slices of an engine as of one moment, each as a data directory to read.

    postgresql://k@db/kestrel        the engine
    postgresql://k@db/kestrel/3      the data directory of its slice 3

One rule: what is read of an engine here belongs to one moment, and no owner is asked.
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from journal.engine.address import SLICE, name_of, slice_name
from journal.engine.commits import Commits
from journal.engine.engine import Claim
from journal.engine.engine_files import EngineFiles
from journal.engine.engines import engine_tools
from journal.files import Disk

if TYPE_CHECKING:
    from journal.engine.engine import EngineMoment, Layout, Owner, Seat

_CACHE_BYTES: Final = 1 << 30


class NothingToRead(Exception):
    """A slice cannot be read; the text is a sentence with the reason."""


class OneMoment:
    """An engine as of one moment."""

    def __init__(self, address: str, cache_folder: str) -> None:
        """Begin the moment. What is read of files is kept in `cache_folder`. Raise OSError or
        NeedsExtra."""
        self.name = name_of(address)
        self._address, self._cache_folder = address, cache_folder
        self._engine: EngineMoment = engine_tools(address).open_moment(address)
        try:
            self.owners: dict[int, Owner] = self._engine.owners()
        except OSError:
            self._engine.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._engine.close()

    def seats(self) -> list[Seat]:
        """Return the processes that may own slices; raise OSError."""
        return self._engine.members()

    def layout(self) -> Layout:
        """Return how queues are spread over slices; raise OSError."""
        return self._engine.layout()

    def only(self) -> int:
        """Return the number of the slice of an engine that has one; raise NothingToRead."""
        if len(self.owners) > 1:
            first, *_, last = sorted(self.owners)
            raise NothingToRead(
                f"{self.name}: its queues are in {len(self.owners)} slices: name one at a time, "
                f"{slice_name(self._address, first)} to {slice_name(self._address, last)}"
            )
        return next(iter(self.owners), SLICE)

    def files(self, number: int) -> tuple[EngineFiles, str]:
        """Return the files of a slice, and its name as a data directory. Raise NothingToRead or
        OSError."""
        path = slice_name(self._address, number)
        owner = self.owners.get(number)
        if owner is None:
            raise NothingToRead(f"{path}: there is no data here: nobody has claimed it yet")
        if owner.is_importing:
            raise NothingToRead(
                f"{path}: a data directory is being moved in; if that was interrupted, "
                "`kestrelpy fleet import` goes on with it"
            )
        cache = os.path.join(self._cache_folder, f"{number}")
        files = EngineFiles(self._engine, path, cache, _CACHE_BYTES, Disk())
        files.take_over(Commits(self._engine, Claim(number, owner.epoch, owner.seq)))
        return files, path
