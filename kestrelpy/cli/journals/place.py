"""The data that a command works on: a folder, or a slice of an engine.

    --data-dir data                          the folder
    --data-dir postgresql://k@db/queues/1    the slice, as of one moment
    nothing                                  what the configuration names, either of them

One rule: a command that needs a folder says how to come from an engine to one, and never takes an
address for a folder's name.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from journal.engine import (
    NeedsExtra,
    NothingToRead,
    OneMoment,
    engine_tools,
    is_address,
    name_of,
    slice_name,
    split_slice,
)
from journal.files import Disk, Files
from kestrelpy.cli.errors import CommandError
from kestrelpy.config import Config, ConfigError, find_config_file, load_config
from kestrelpy.fleet import slices_in, why_resliced

if TYPE_CHECKING:
    from types import ModuleType

IN_FOLDERS: Final = (
    "this command works on a folder; `kestrelpy fleet export` moves the data of an engine into "
    "one, and `kestrelpy fleet import` moves it back"
)


def tools_of(address: str) -> ModuleType:
    """Return the package of an engine, as `engine_tools` does; raise CommandError."""
    try:
        return engine_tools(address)
    except NeedsExtra as error:
        raise CommandError(f"an engine {error}") from None


def configured(config_file: Path | None = None) -> Config:
    """Return the configuration; raise CommandError."""
    try:
        path = find_config_file(config_file, Path.cwd())
        return load_config(path, environ=os.environ, overrides={})
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"the working directory cannot be used: {error.strerror}") from None


def data_folder(data_dir: str | None) -> str:
    """Return the given data directory, or that of the configuration; raise CommandError if it is
    in an engine."""
    named = _named(data_dir)
    if is_address(named):
        raise CommandError(f"{name_of(named)}: {IN_FOLDERS}")
    _refuse_slices(named)
    return named


def _refuse_slices(folder: str) -> None:
    """Raise CommandError if this folder has slices, each with a data directory of its own, or if
    its queues are on their way to other ones."""
    if why := why_resliced(Path(folder)):
        raise CommandError(why)
    if found := slices_in(Path(folder)):
        raise CommandError(
            f"{folder}: its queues are in {len(found)} slices: name one at a time, {found[0]} to "
            f"{found[-1]}"
        )


def plain_folder(path: str, what: str) -> str:
    """Return a folder's path as it is; raise CommandError if it is an engine's address."""
    if is_address(path):
        raise CommandError(f"{name_of(path)}: {what} is a folder, and this is an engine's address")
    return path


@contextmanager
def to_read(data_dir: str | None) -> Iterator[tuple[Files, str]]:
    """Give the files and the path of what is to be read; raise CommandError or OSError."""
    named = _named(data_dir)
    if not is_address(named):
        _refuse_slices(named)
        yield Disk(), named
        return
    try:
        address, number = split_slice(named)
    except ValueError as error:
        raise CommandError(str(error)) from None
    path = slice_name(address, number) if number else name_of(address)
    with tempfile.TemporaryDirectory(prefix="kestrelpy-") as cache, ExitStack() as closing:
        try:
            moment = closing.enter_context(OneMoment(address, cache))
            number = number or moment.only()
            path = slice_name(address, number)
            files, path = moment.files(number)
        except NeedsExtra as error:
            raise CommandError(f"an engine {error}") from None
        except NothingToRead as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}") from None
        yield files, path


def _named(data_dir: str | None) -> str:
    if data_dir is not None:
        return data_dir
    config = configured()
    if config.fleet.engine is not None:
        return config.fleet.engine
    return str(config.server.data_dir)
