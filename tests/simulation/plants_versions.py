"""Mistakes in the versions of keys, planted like all others.

One rule: as in `plants`, each is a mistake of a tired person, in place of the real code.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import count
from typing import Any, Final
from unittest import mock

from kestrelpy.core.index.versions import Versions
from kestrelpy.core.queue.queue import EXISTS, Queue
from kestrelpy.operations import StreamWalk
from tests.simulation.plants import Around, around

_SOMETIMES: Final = 11


def version_forgotten_by_a_restart() -> Any:
    return mock.patch.object(Versions, "is_newer", lambda versions, key, item: False)


def _refusal_sometimes(wrong: Callable[[int], int]) -> Any:
    calls, real = count(1), Queue._refusal

    def refusal(*args: Any) -> int:
        right = real(*args)
        if args[3] is None or next(calls) % _SOMETIMES:
            return int(right)
        return wrong(right)

    return mock.patch.object(Queue, "_refusal", refusal)


def two_writers_win() -> Any:
    return _refusal_sometimes(lambda right: 0 if right == EXISTS else right)


def nobody_wins() -> Any:
    return _refusal_sometimes(lambda right: right or EXISTS)


def version_left_out() -> Any:
    calls = count(1)

    def make(real: Around) -> Around:
        def written(versions: Versions, key: bytes, version: int, *rest: Any) -> None:
            real(versions, key, version + (next(calls) % _SOMETIMES == 0), *rest)

        return written

    return around(Versions, "_apply_written", make)


def one_version_before_is_shown() -> Any:
    real = StreamWalk._back

    def walk(self: Any, queue: Any, id_: int, steps: int) -> Any:
        return real(self, queue, id_, steps + (steps > 2))

    return mock.patch.object(StreamWalk, "_back", walk)


PLANTS_VERSIONS: Final[tuple[Callable[[], contextlib.AbstractContextManager[object]], ...]] = (
    version_forgotten_by_a_restart, two_writers_win, nobody_wins, version_left_out,
    one_version_before_is_shown,
)  # fmt: skip
