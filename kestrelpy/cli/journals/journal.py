"""`kestrelpy journal`: `python -m journal` with a default data directory.

Without a folder, the data directory is that of the configuration.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from journal.__main__ import main as journal_main
from journal.engine import without_secret
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.journals.place import data_folder, to_read


def run(command: str, folder: str | None, data_dir: str | None, *words: str) -> int:
    """Run one of the tools; return its exit code."""
    if folder is not None and data_dir is not None:
        said = without_secret(f"{folder} and --data-dir {data_dir}")
        raise CommandError(f"{said}: say one of them")
    named = folder if folder is not None else data_dir
    if command == "repair":
        words = (command, *words, "--", data_folder(named))
        return journal_main(list(words), watch=watch, name="kestrelpy")
    with to_read(named) as (files, path):
        words = (command, *words, "--", path)
        return journal_main(list(words), files, watch, "kestrelpy")


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
