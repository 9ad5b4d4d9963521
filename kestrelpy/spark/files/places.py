"""Where journals are: folders, and the slices of engines, read with the same verbs.

    /srv/a/data                       a folder
    postgresql://k@db/kestrel         an engine: each of its slices is a data directory
    postgresql://k@db/kestrel/3       one slice of it

Driver and executors each read the engine themselves; no member of the fleet is asked. A path below
an engine begins with its name, which has no secret. The address stays in the options.

One rule: what one plan, or one task, reads of an engine belongs to one moment.
"""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

from journal.engine import (
    NeedsExtra,
    NothingToRead,
    OneMoment,
    is_engine,
    name_of,
    slice_name,
    split_slice,
)
from journal.files import Disk, Files
from kestrelpy.spark.errors import KestrelError


@contextmanager
def opened(paths: Sequence[str]) -> Iterator[Places]:
    """Give what reads these paths, until the block ends; a moment begins when it is first asked."""
    with ExitStack() as closing:
        yield Places(paths, closing)


class Places:
    """The reading verbs of `Files` for some paths. Not for several threads at once."""

    def __init__(self, paths: Sequence[str], closing: ExitStack) -> None:
        self._paths = tuple(paths)
        self._closing = closing
        self._addresses = {name_of(engine): engine for engine, _ in map(_split, _engines(paths))}
        self._moments: dict[str, OneMoment] = {}
        self._slices: dict[tuple[str, int], Files] = {}
        self._disk = Disk()

    @property
    def files(self) -> Files:
        """These verbs, for functions that only read."""
        return cast(Files, self)

    def folders(self) -> list[str]:
        """Return the paths without secrets, and for an engine the name of each of its slices.

        Raises KestrelError if an engine cannot be read.
        """
        found: list[str] = []
        for path in self._paths:
            if not is_engine(path):
                found.append(path)
                continue
            engine, number = _split(path)
            numbers = [number] if number else sorted(self._moment(name_of(engine)).owners)
            if not numbers:
                raise KestrelError(f"{name_of(engine)}: there is no data here yet. Start a daemon.")
            found += [slice_name(engine, each) for each in numbers]
        return found

    def is_folder(self, path: str) -> bool:
        """True if this folder is there."""
        try:
            return stat.S_ISDIR(self.mode(path))
        except OSError:
            return False

    # -- the verbs ----------------------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        with self._reading(folder) as files:
            return files.names(folder)

    def size(self, path: str) -> int:
        with self._reading(path) as files:
            return files.size(path)

    def mode(self, path: str) -> int:
        with self._reading(path) as files:
            return files.mode(path)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        with self._reading(path) as files:
            return files.read(path, offset, size)

    @contextmanager
    def _reading(self, path: str) -> Iterator[Files]:
        """Give the files of a path. A moment that is lost is no missing file: KestrelError."""
        if not is_engine(path):
            yield self._disk
            return
        files = self._files(path)
        try:
            yield files
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _not_read(path, error) from None

    def _files(self, path: str) -> Files:
        engine = max((each for each in self._addresses if path.startswith(f"{each}/")), key=len)
        number = int(path[len(engine) + 1 :].partition("/")[0])
        found = self._slices.get((engine, number))
        if found is None:
            found = self._slices[engine, number] = self._read_slice(engine, number)
        return found

    def _read_slice(self, engine: str, number: int) -> Files:
        try:
            return self._moment(engine).files(number)[0]
        except NothingToRead as error:
            raise KestrelError(f"{error}.") from None
        except OSError as error:
            raise _not_read(slice_name(engine, number), error) from None

    def _moment(self, name: str) -> OneMoment:
        """Return the moment of this engine; begin it if it has not begun."""
        found = self._moments.get(name)
        if found is None:
            found = self._moments[name] = self._begin(self._addresses[name])
        return found

    def _begin(self, address: str) -> OneMoment:
        cache = tempfile.TemporaryDirectory(prefix="kestrelpy-")
        folder = self._closing.enter_context(cache)
        try:
            return self._closing.enter_context(OneMoment(address, folder))
        except NeedsExtra as error:
            raise KestrelError(f"{name_of(address)}: this {error}, on every node.") from None
        except OSError as error:
            raise _not_read(name_of(address), error) from None


def shown(paths: Sequence[str]) -> str:
    """Return the paths for an error, without secrets."""
    return ", ".join(name_of(path) if is_engine(path) else path for path in paths)


def _engines(paths: Sequence[str]) -> list[str]:
    return [path for path in paths if is_engine(path)]


def _split(path: str) -> tuple[str, int]:
    try:
        return split_slice(path)
    except ValueError as error:
        raise KestrelError(f"{error}.") from None


def _not_read(name: str, error: OSError) -> KestrelError:
    return KestrelError(f"{name}: the engine cannot be read: {error.strerror or error}.")
