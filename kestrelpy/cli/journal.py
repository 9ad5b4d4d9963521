"""`kestrelpy journal`: `python -m journal` with a default data directory.

Without a folder, the data directory is that of the configuration.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from journal.__main__ import main as journal_main
from kestrelpy.cli.errors import CommandError
from kestrelpy.config import ConfigError, find_config_file, load_config


def run(command: str, folder: str | None, data_dir: str | None, *words: str) -> int:
    """Run one of the tools; return its exit code."""
    if folder is not None and data_dir is not None:
        raise CommandError(f"{folder} and --data-dir {data_dir}: say one of them")
    words = (command, *words, "--", folder or data_folder(data_dir))
    return journal_main(list(words), watch=watch, name="kestrelpy")


def data_folder(data_dir: str | None) -> str:
    """Return the given data directory, or that of the configuration; raise CommandError."""
    if data_dir is not None:
        return data_dir
    try:
        config = load_config(find_config_file(None, Path.cwd()), environ=os.environ, overrides={})
    except ConfigError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"the working directory cannot be used: {error.strerror}") from None
    return str(config.server.data_dir)


def watch(doing: str) -> Callable[[int, int], None]:
    """Return a function that shows a progress bar on stderr, if stderr is a terminal."""
    if not sys.stderr.isatty():
        return lambda done, total: None
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = bar.add_task(doing, total=None)
    bar.start()

    def show(done: int, total: int) -> None:
        bar.update(task, completed=done, total=total)
        if done >= total:
            bar.stop()

    return show
