"""A disk that is asked again after a shortage: for a start, which cannot answer before it has read.

One rule: only a shortage is waited out, and only for a bounded time; then its error is raised.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from journal.files import Files, is_shortage

TRIES_MAX: Final = 20
PAUSE_SECONDS: Final = 0.1


def pause() -> None:
    """Wait until a descriptor or memory may be free."""
    time.sleep(PAUSE_SECONDS)


def patient_files(files: Files, pause: Callable[[], None] = pause) -> Files:
    """Return the same disk, but after a shortage it calls `pause` and tries the verb again.

    (A verb stopped by a shortage has left no change that is not on disk.) Every verb may block for
    seconds.
    """
    return cast(Files, _Patient(files, pause))


class _Patient:
    """Every verb of `Files`, up to `TRIES_MAX` times."""

    __slots__ = ("_files", "_pause")

    def __init__(self, files: Files, pause: Callable[[], None]) -> None:
        self._files = files
        self._pause = pause

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        return partial(self._ask, getattr(self._files, verb))

    def _ask(self, verb: Callable[..., Any], *args: Any) -> Any:
        for _ in range(TRIES_MAX - 1):
            try:
                return verb(*args)
            except OSError as error:
                if not is_shortage(error):
                    raise
            self._pause()
        return verb(*args)
