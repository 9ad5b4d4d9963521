"""Two reloads of the router at once: one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from kestrelpy.config import Config, load_config
from kestrelpy.server.slices import router
from kestrelpy.server.slices.router import SliceRouter

T = TypeVar("T")
TURNS = 50  # more than a reload takes that waits for nobody


def config_with(limit: int, folder: Path) -> Config:
    """A configuration that is known by this limit."""
    return load_config(None, environ={}, overrides={
        ("server", "max_connections"): limit, ("server", "data_dir"): str(folder),
        ("fleet", "slices"): 2,
    })  # fmt: skip


async def test_a_later_reload_is_in_force_though_the_earlier_one_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, taken, may_go = [True], list[int](), asyncio.Event()

    async def in_time(work: Callable[[], T]) -> T:
        """The work of a thread: the one of the first reload waits after it has read the file."""
        done = work()
        if isinstance(done, Config) and first:
            first.clear()
            await may_go.wait()
        return done

    monkeypatch.setattr(router, "in_time", in_time)
    files = iter([config_with(101, tmp_path), config_with(102, tmp_path)])
    made = SliceRouter(
        config_with(100, tmp_path), None, lambda: next(files), print,
        lambda config: taken.append(config.server.max_connections),
    )  # fmt: skip
    made.reload_beside()
    made.reload_beside()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert taken == []
    may_go.set()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert taken == [101, 102]
