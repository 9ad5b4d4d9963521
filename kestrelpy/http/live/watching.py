"""Watched views: each is rendered once a tick, for any number of viewers.

    tick ──▶ look ──▶ render each view ──▶ what has changed ──▶ wake its streams
                                                   └── whole: first, and after a missed tick

A stream keeps nothing but the number of the tick that it sent last. One whose client reads slowly
skips ticks, and gets the newest state whole.

One rule: without a viewer nothing is rendered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec

from kestrelpy.errors import Refused
from kestrelpy.http.answers import HttpError, status_of, without_paths
from kestrelpy.http.call import Call, Gone
from kestrelpy.http.live.changes import changes
from kestrelpy.http.live.command_rates import CommandRates
from kestrelpy.http.live.journal_walk import JournalWalk
from kestrelpy.http.live.rows import QueueOrders
from kestrelpy.http.live.sampler import Sampler
from kestrelpy.http.live.verdict import (
    ServerLines,
    ServerState,
    disk_full_in_ms,
    lines_of,
    verdict,
)
from kestrelpy.http.live.views import Members, Rendered, View, ViewSources, past, render
from kestrelpy.http.ports import HttpHost

log = logging.getLogger("kestrelpy.http")

STREAMS_MAX: Final = 200
TICK_SECONDS: Final = 1.0
# A stream without news for this many ticks sends a sign of life.
QUIET_TICKS: Final = 15
_DISK_TICKS: Final = 10
_encode: Final = msgspec.json.Encoder().encode
COMMENT: Final = b": still here\n\n"


class Watched:
    """One view with viewers.

    Its rule: no two states have one tick. A page that has seen a tick has seen the state.
    """

    __slots__ = ("_members", "_rendered", "_whole", "before", "change", "tick", "watchers")

    def __init__(self) -> None:
        self.watchers: set[Call] = set()
        self.tick = 0  # of the newest state; 0: there is none yet
        self.before = 0  # the tick of the state before
        self.change = b""  # what makes the newest state of the one before; empty: nothing
        self._members: Members = {}
        self._rendered = Rendered({})
        self._whole = b""

    def renew(self, tick: int, rendered: Rendered) -> None:
        """Take the state of this tick; of a later one where this or a later one has a state."""
        patch = changes(self._members, rendered.members)
        self.before, self.tick = self.tick, max(tick, self.tick + 1)
        self.change = _encode(patch) if patch else b""
        self._members, self._rendered, self._whole = rendered.members, rendered, b""

    def whole(self, offset_ms: int) -> bytes:
        """Return the newest state with its past."""
        if not self._whole:
            self._whole = _encode(with_past(self._rendered, offset_ms))
        return self._whole


def with_past(rendered: Rendered, offset_ms: int) -> Members:
    """Return the members of the whole view."""
    if rendered.ring is None:
        return rendered.members
    return {**rendered.members, "history": past(rendered.ring, offset_ms)}


class Live:
    """The sampler of one server, and its viewers."""

    def __init__(self, host: HttpHost) -> None:
        self.samples = Sampler()
        self._host = host
        self._call = Call(host, "http live")
        self._watched: dict[View, Watched] = {}
        self._streams = 0
        self._disk_free: int | None = None
        self._disk_full_in_ms: int | None = None
        self._server_lines = ServerLines()
        self._common: Members = {}  # what every view has, of this tick
        self._sources = ViewSources(
            self.samples, QueueOrders(self.samples), CommandRates(), JournalWalk(), self._server
        )
        self._task: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begin to look, now and once a second: no viewer comes before the first sample."""
        self._look()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def close(self) -> None:
        """The server stops: every stream ends."""
        self._call.hang_up()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.tick()
            except Gone:
                return
            except Exception:  # a bug: the next tick may do
                log.exception("the live views")
            due = max(due + TICK_SECONDS, loop.time())
            await asyncio.sleep(due - loop.time())

    async def tick(self) -> None:
        """Look at the next queues, and render what is watched."""
        if self._disk_free is None or self.samples.ticks % _DISK_TICKS == 0:
            self._disk_free = await self._host.disk_free_bytes()
        self._look()
        self._common = {}
        for view, watched in list(self._watched.items()):
            watched.renew(self.samples.ticks, await self._render(view))
            now_ms = self._host.now_ms()
            for call in list(watched.watchers):
                call.flush(now_ms)

    def _look(self) -> None:
        broker = self._host.broker
        counts = broker.counters.sync_us.counts
        self.samples.look(broker, self._call.now_ms(), counts, self._disk_free)
        self._disk_full_in_ms = self._when_disk_is_full()
        self._server_lines.look(self._state(), self._call.now_ms())

    async def _render(self, view: View) -> Rendered:
        """Return the view; one that cannot be shown now says why."""
        try:
            return await self.render(view, self._call)
        except (HttpError, Refused) as error:
            status = error.status if isinstance(error, HttpError) else status_of(error)
            members = {"error": {"status": status, "description": without_paths(str(error))}}
            return Rendered({**self._of_every_view(), **self._now(), **members})

    async def render(self, view: View, call: Call) -> Rendered:
        """Return the view as it is now, with what every view has; raise HttpError, Refused."""
        rendered = await render(view, call, self._sources)
        common = {**self._of_every_view(), **self._now()}  # of the tick in which the view is ready
        return Rendered({**common, **rendered.members}, rendered.ring)

    def whole(self, rendered: Rendered) -> Members:
        """Return the whole of a view, with its past."""
        return with_past(rendered, self._offset_ms)

    # -- what every view has ----------------------------------------------------------------

    def _of_every_view(self) -> Members:
        """Return what every view has; it is made once a tick."""
        if not self._common:
            self._common = self._make_common()
        return self._common

    def _now(self) -> Members:
        return {"now_ms": self._host.now_ms() + self._offset_ms}

    @property
    def _offset_ms(self) -> int:
        return self._host.broker.clock.offset_ms

    def _make_common(self) -> Members:
        host = self._host
        self._server_lines.look(self._state(), host.now_ms())
        lines = lines_of(self._server_lines.lines, self.samples.troubles)
        listening = host.listening
        return {
            "started_ms": host.started_ms + self._offset_ms,
            "verdict": verdict(lines, self._offset_ms),
            "server": {
                "version": host.version, "mode": host.mode, "name": host.server_id,
                "read_only": host.mode != "up",
                "allow_delete": host.server_settings.allow_delete,
                "memcache": listening._asdict() if listening is not None else None,
            },
        }  # fmt: skip

    def _state(self) -> ServerState:
        host = self._host
        return ServerState(
            host.mode, host.is_leaving, self._disk_full_in_ms, host.damage.count,
            host.server_settings.min_disk_free_bytes, host.broker.no_new_queue,
        )  # fmt: skip

    def _server(self) -> Members:
        """Return the figures of the process."""
        counters = self._host.broker.counters
        return {
            "disk_free": self._disk_free, "disk_full_in_ms": self._disk_full_in_ms,
            "connections": counters.connections + self._host.http_connections,
        }  # fmt: skip

    def _when_disk_is_full(self) -> int | None:
        ring = self.samples.rings.of("1h")
        reserved = self._host.server_settings.min_disk_free_bytes
        left_ms = disk_full_in_ms(ring.series("disk_free"), ring.step_ms, reserved)
        return left_ms // 60_000 * 60_000 if left_ms is not None else None

    # -- streams ----------------------------------------------------------------------------

    def refuse_more(self) -> None:
        """Raise HttpError 503 if there are as many viewers as may be."""
        if self._streams >= STREAMS_MAX:
            raise HttpError(503, f"{STREAMS_MAX} live views are open: close one, or ask /views")

    @contextmanager
    def watching(self, view: View, call: Call) -> Iterator[Watched]:
        """Let this call watch a view."""
        self._streams += 1
        watched = self._watched.setdefault(view, Watched())
        watched.watchers.add(call)
        try:
            yield watched
        finally:
            self._streams -= 1
            watched.watchers.discard(call)
            if not watched.watchers and self._watched.get(view) is watched:
                del self._watched[view]

    async def events(self, view: View, call: Call) -> AsyncIterator[bytes]:
        """Yield the events of a view until the client or the server ends; raise Gone."""
        with self.watching(view, call) as watched:
            yield b"retry: 1000\n\n"
            if not watched.tick:  # the first of its viewers does not wait for the next tick
                watched.renew(self.samples.ticks, await self._render(view))
            seen, said_at = 0, self.samples.ticks
            while not call.is_leaving:
                call.check()
                if watched.tick == seen:
                    await call.next_flush()
                    continue
                is_next, seen = watched.before == seen and seen > 0, watched.tick
                data = watched.change if is_next else watched.whole(self._offset_ms)
                if data:
                    said_at = self.samples.ticks
                    kind = b"change" if is_next else b"whole"
                    yield self._event(seen, kind, data)
                elif self.samples.ticks - said_at >= QUIET_TICKS:
                    said_at = self.samples.ticks
                    yield COMMENT
            yield self._event(seen, b"end", _encode({"why": "draining"}))

    def _event(self, tick: int, kind: bytes, data: bytes) -> bytes:
        return b"id: %d-%d\nevent: %b\ndata: %b\n\n" % (self._started_ms, tick, kind, data)

    @property
    def _started_ms(self) -> int:
        return self._host.started_ms + self._offset_ms
