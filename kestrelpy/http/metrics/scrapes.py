"""One rendering for all scrapers that come within a second.

    first scraper ──▶ walk ──▶ family ──▶ PAUSE ──▶ family ──▶ ... ──▶ text ──▶ kept for a second
    second scraper ────────────────────── waits for the same ──────────┘

One rule: one rendering runs at a time, and no slice of it has more than twenty samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kestrelpy.http.call import Call, Gone
from kestrelpy.http.metrics.families import queue_families, server_families
from kestrelpy.http.metrics.figures import WalkedFigures, Walks
from kestrelpy.http.ports import HttpHost
from kestrelpy.operations import PAUSE

SHARED_MS: Final = 1000
# Samples of a family that are rendered in one go: about half a millisecond.
SAMPLES_MAX: Final = 20


class _One(Collector):
    """A collector of one family."""

    def __init__(self, family: Metric) -> None:
        self._family = family

    def collect(self) -> Iterator[Metric]:
        yield self._family


def rendered(family: Metric) -> bytes:
    """Return the family in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_One(family))
    return generate_latest(registry)


def in_slices(family: Metric) -> Iterator[bytes]:
    """Yield the family in slices of SAMPLES_MAX samples; the first one has its head."""
    for start in range(0, max(len(family.samples), 1), SAMPLES_MAX):
        piece = Metric(family.name, family.documentation, family.type, family.unit)
        piece.samples = family.samples[start : start + SAMPLES_MAX]
        text = rendered(piece)
        yield text if not start else b"".join(
            line for line in text.splitlines(keepends=True) if not line.startswith(b"#")
        )


class Scrapes:
    """The renderings of one server."""

    def __init__(self) -> None:
        self.renderings = 0
        self._walks = Walks()
        self._text = b""
        self._at_ms: int | None = None
        self._task: asyncio.Task[bytes] | None = None
        self._call: Call | None = None

    async def text(self, host: HttpHost) -> bytes:
        """Return all families, at most a second old."""
        if self._at_ms is not None and host.now_ms() - self._at_ms < SHARED_MS:
            return self._text
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._render(host))
        return await asyncio.shield(self._task)

    async def _render(self, host: HttpHost) -> bytes:
        """Render with a call of its own: it goes on when the scraper hangs up."""
        self.renderings += 1
        call = self._call = Call(host, "http metrics")
        try:
            free_bytes = await host.disk_free_bytes()
            figures = await call.run(self._walks.walk(host.broker, call.now_ms()))
            self._text = await call.run(_parts(figures, host, free_bytes))
            self._at_ms = host.now_ms()
            return self._text
        except Gone:
            return b""
        finally:
            self._task = self._call = None

    def close(self) -> None:
        """The server stops: end the rendering."""
        if self._call is not None:
            self._call.hang_up()


def _parts(
    figures: WalkedFigures, host: HttpHost, free_bytes: int | None
) -> Generator[bytes, None, bytes]:
    parts = list[bytes]()
    for families in (
        server_families(figures, host, free_bytes, host.now_ms()), queue_families(figures),
    ):  # fmt: skip
        for family in families:
            for part in in_slices(family):
                parts.append(part)
                yield PAUSE
    return b"".join(parts)
