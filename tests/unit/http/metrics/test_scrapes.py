"""Scrapers share a rendering, and one that hangs up does not end it for the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from kestrelpy.http.metrics import scrapes
from kestrelpy.http.metrics.scrapes import Scrapes, in_slices, rendered
from tests.support.http_client import web


async def test_scrapers_within_a_second_share_one_rendering(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with web(tmp_path) as server:
        host, some = server.server.daemon, Scrapes()
        assert host is not None
        texts = await asyncio.gather(*(some.text(host) for _ in range(3)))
        monkeypatch.setattr(scrapes, "SHARED_MS", 1 << 40)
        texts.append(await some.text(host))
        assert (len(set(texts)), some.renderings) == (1, 1)
        monkeypatch.setattr(scrapes, "SHARED_MS", 0)
        assert b"kestrelpy_build_info" in await some.text(host)
        assert some.renderings == 2


async def test_a_scraper_that_gives_up_leaves_the_rendering_to_the_others(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        host, some = server.server.daemon, Scrapes()
        assert host is not None
        first = asyncio.ensure_future(some.text(host))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(some.text(host))
        await asyncio.sleep(0)
        first.cancel()
        assert b"kestrelpy_items" in await asyncio.wait_for(second, 20)
        assert some.renderings == 1


async def test_the_end_of_the_server_ends_a_rendering(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        host, some = server.server.daemon, Scrapes()
        assert host is not None
        task = asyncio.ensure_future(some.text(host))
        for _ in range(3):
            await asyncio.sleep(0)
        some.close()
        assert isinstance(await asyncio.wait_for(task, 20), bytes)


@pytest.mark.parametrize("size", [0, 1, 19, 20, 21, 50])
@pytest.mark.parametrize("kind", [CounterMetricFamily, GaugeMetricFamily])
def test_a_family_in_slices_is_the_family(size: int, kind: type[Any]) -> None:
    family = kind("kestrelpy_items", "Items # of all\nkinds.", labels=["queue"])
    for number in range(size):
        family.add_metric([f"#{number}\n# x"], number)
    pieces = list(in_slices(family))
    assert b"".join(pieces) == rendered(family)
    assert all(piece.count(b"\n") <= 22 for piece in pieces)
