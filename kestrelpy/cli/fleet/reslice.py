"""`kestrelpy fleet reslice`: the queues of a stopped server in another number of slices.

One rule: no daemon uses the data directory meanwhile, because the command has its locks.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from journal.engine import is_address
from journal.errors import JournalError
from journal.files import Disk
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.journals.place import configured
from kestrelpy.config import Config
from kestrelpy.placement import Placement
from kestrelpy.server import Resliced, locked_folders, reslice

_IN_AN_ENGINE: Final = (
    "the number of slices in an engine is said once: `kestrelpy fleet export` each slice to "
    "DIR/slices-N/1 and so on, run `kestrelpy fleet reslice DIR`, and `kestrelpy fleet import` "
    "each into an empty engine"
)


def run(folder: str | None, config_file: Path | None, slices: int | None) -> None:
    """Let each queue be in the slice that the configuration names; raise CommandError."""
    config = configured(config_file)
    if (folder is None and config.fleet.engine is not None) or (folder and is_address(folder)):
        raise CommandError(_IN_AN_ENGINE)
    data_dir = os.path.abspath(folder or config.server.data_dir)
    placement = Placement(slices or config.fleet.slices, config.fleet.groups)
    done = _resliced(data_dir, config, placement)
    if done.went_on:
        print(f"an earlier run was interrupted, and has ended now: {_said(done, data_dir)}")
        done = _resliced(data_dir, config, placement)
        if not done.moved and done.before == placement.slices:
            return
    if done.before == placement.slices and not done.moved:
        print(f"{data_dir}: {_counted(done)} in {_slices(done.before)} already: nothing to move")
    else:
        print(_said(done, data_dir))


def _resliced(data_dir: str, config: Config, placement: Placement) -> Resliced:
    try:
        if not os.path.isdir(data_dir):
            raise CommandError(f"{data_dir}: no data directory of kestrelpy")
        with ExitStack() as closing:
            for each in locked_folders(Path(data_dir)):
                closing.callback(Disk().lock(str(each / "lock")).close)
            return reslice(Disk(), data_dir, config, placement, watch("reslice"))
    except JournalError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or data_dir}: {error.strerror or error}") from None


def _said(done: Resliced, data_dir: str) -> str:
    return (
        f"{data_dir}: {_counted(done)} in {_slices(done.slices)} now, {_slices(done.before)} "
        f"before; {done.moved:,} moved"
    )


def _counted(done: Resliced) -> str:
    return f"{done.queues:,} {'queue' if done.queues == 1 else 'queues'}"


def _slices(count: int) -> str:
    return "one slice" if count == 1 else f"{count} slices"
