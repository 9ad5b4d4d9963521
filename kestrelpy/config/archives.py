"""Where segments are archived: whether a directory will do, and the directories themselves.

A segment is archived by a second name for it (a hard link), so the archive must be on the data
directory's file system; and not inside it, where every folder is taken for a queue's.

One rule: a check changes nothing; only a daemon that starts or reloads makes a directory.
"""

import os
from pathlib import Path

from kestrelpy.config.mistakes import ConfigError, as_written
from kestrelpy.config.settings import Config


def why_no_archive(folder: Path, data_dir: Path) -> str:
    """Return why `folder` cannot archive the segments of `data_dir`; "" if it can."""
    try:
        if folder.resolve().is_relative_to(data_dir.resolve()):
            return "must be a directory outside data_dir"
        above = _nearest(folder)
        if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
            return f"must be a directory that can be written or made, and {above.name} is not"
        if above.stat().st_dev != _nearest(data_dir).stat().st_dev:
            return "must be on the same file system as data_dir: segments are linked there"
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a path"
        return f"must be a directory that can be written or made: {reason}"
    return ""


def make_archives(config: Config) -> None:
    """Make the missing directories; raise ConfigError."""
    problems = []
    for place, folder in config.archives().items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problems.append(f"{as_written(place, folder)} cannot be made: {error.strerror}.")
    if problems:
        raise ConfigError(problems)


def _nearest(path: Path) -> Path:
    """Return the path itself if it exists, else the first one above it that does."""
    return next(each for each in (path, *path.parents) if os.path.lexists(each))
