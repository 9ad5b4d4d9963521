"""One daemon in a world of events, where a change comes at the nth event of a request.

    World(config)     a `Daemon` on a loop of the simulation: its disk, threads and clock are events
    connect()         a client; `send` comes as an event, `say` at once, between two events
    ask(..., nth, change)    the change comes after the nth event while the request is under way

Each callback of the loop and each job of a thread is an event: all that a request can wait for (a
read, a sync, room, a login, its next slice) lies between two of them.

One rule: all that happens follows from the requests and the number of the event.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, Self
from unittest import mock

from kestrelpy.config.settings import Config
from kestrelpy.server.connections import logins
from kestrelpy.server.daemon import Daemon
from tests.simulation.house import patched
from tests.simulation.loop import Listener, SimLoop, Threads, Timeline
from tests.support.memory_disk import MemoryDisk
from tests.support.server_harness import ServerHarness

SECRET: Final = b"letmein"
_START_US: Final = 5_000_000
_ANSWER_US: Final = 20_000_000
_REST_US: Final = 300_000
_STEP_US: Final = 1_000
_HOURS_MS: Final = 10 * 3_600_000
_ITEMS_MAX: Final = 100
SEGMENT_BYTES: Final = 2048
# By queue: the bodies that are ready, and those of dead letters.
State = dict[str, tuple[tuple[bytes, ...], tuple[bytes, ...]]]


def user(role: str = "admin", salt: str = "AAAA") -> dict[str, str]:
    """The configuration of a user whose secret is SECRET; with another `salt` it has changed."""
    return {"secret": f"scrypt$2$1$1${salt}${'A' * 43}=", "role": role}


class Pipe(asyncio.Transport):
    """Both ends of a connection, without delays."""

    def __init__(self, world: World, accept: Callable[[], asyncio.Protocol]) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_over = False  # neither end hears the other any more
        self._world = world
        self._closing = False
        self._protocol: Any = accept()
        self._protocol.connection_made(self)

    def send(self, data: bytes) -> None:
        """Send bytes of the client; they come as the next event."""
        self._world.loop.outside(self.say, data)

    def say(self, data: bytes) -> None:
        """Send bytes of the client; they come now."""
        if not (self.is_over or self._closing):
            self._protocol.data_received(data)

    def hang_up(self) -> None:
        """Hang up this client now."""
        self._closing = True
        self._lose()

    @property
    def talk(self) -> Any:
        """The conversation of the server, on the memcache port."""
        return self._protocol.conversation

    def _lose(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._protocol.connection_lost(None)

    # -- the server's end -------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not (self.is_over or self._closing):
            self.sent += data

    def close(self) -> None:
        if not (self.is_over or self._closing):
            self._closing = True
            self._world.loop.call_soon(self._lose)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing or self.is_over

    def can_write_eof(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Do nothing: the buffer is always empty."""

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("small", self._world.number()) if name == "peername" else default

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        """Do nothing: a client of a test sends little."""

    def resume_reading(self) -> None:
        """Do nothing: reading was never paused."""


class Loop(SimLoop):
    """The loop of a daemon that checks logins: work on a thread can be waited for by many."""

    def run_in_executor(  # type: ignore[override]  # a task, where the base has a coroutine
        self, executor: object, func: Callable[..., object], *args: Any
    ) -> asyncio.Future[object]:
        return self.create_task(super().run_in_executor(executor, func, *args))


class World:
    """One daemon. In this context the world replaces the server's clocks, threads and chance."""

    def __init__(self, config: dict[str, Any], disk: MemoryDisk | None = None) -> None:
        self.seed = 1
        self.timeline = Timeline()
        self.steady_from_us = 0
        self.disk = disk or MemoryDisk()
        self.mistakes: list[str] = []  # of the server, and what it says at the level CRITICAL
        self.loop = Loop(self.timeline, Random(1), self.mistakes.append, self._happened)
        self.threads = Threads(self.loop)
        self.events = 0  # since the request under way came
        self._config = config
        self._nth = 0
        self._change: Callable[[], None] | None = None
        self._is_asking = False
        self._looks: list[tuple[Callable[[], bool], Callable[[], None]]] = []
        self._numbers = 0
        self._daemon: Daemon | None = None
        self._clients: list[Pipe] = []
        self._running = self._in_force()

    @property
    def daemon(self) -> Daemon:
        """The daemon, which runs."""
        assert self._daemon is not None
        return self._daemon

    def number(self) -> int:
        """Return the number of a new client."""
        self._numbers += 1
        return self._numbers

    def hear_log(self, level: int, text: str, is_mistake: bool) -> None:
        """The server wrote a line to its log."""
        if is_mistake or level >= logging.CRITICAL:
            self.mistakes.append(text)

    # -- the life ---------------------------------------------------------------------------

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        right = mock.patch.object(logins, "is_secret", lambda secret, stored: secret == SECRET)
        with patched(self), right:
            yield

    def __enter__(self) -> Self:
        self._running.__enter__()
        try:
            self.loop.call_soon(lambda: self.loop.create_task(self._live()))
            assert self.run(lambda: self._daemon is not None, _START_US), self.mistakes
        except BaseException:
            self._running.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self._running.__exit__(None, None, None)

    def end(self) -> None:
        """Stop all events, as after `kill -9`."""
        self.loop.is_over = self.loop.is_mute = True
        self.loop.close_unbegun()

    async def _live(self) -> None:
        daemon = Daemon(self._configuration(), self._configuration, lambda _: None, self.disk)
        await daemon.start()
        self._daemon = daemon

    def _configuration(self) -> Config:
        said = {"server": {"data_dir": "/data", "http_port": 0}} | self._config
        made = Config.model_validate(said)
        journal = type(made.journal).model_construct(
            **{
                **made.journal.model_dump(), "segment_min_bytes": SEGMENT_BYTES,
                "segment_max_bytes": SEGMENT_BYTES,
            }
        )  # fmt: skip
        return made.model_copy(update={"journal": journal})

    def configure(self, **config: Any) -> None:
        """The configuration file has these tables from now on; a reload reads them."""
        self._config = self._config | config

    # -- clients ----------------------------------------------------------------------------

    def connect(self, name: str = "") -> Pipe:
        """A client of the memcache port; of this user if there are any."""
        client = self._connect(self.loop.listener)
        if name:
            grant = self.daemon.logins.users[name][0]
            client.talk._gate._grant = grant
        return client

    def connect_http(self) -> Pipe:
        """A client of HTTP."""
        return self._connect(self.loop.http_side)

    def _connect(self, listener: Listener | None) -> Pipe:
        assert listener is not None
        accept = listener.accept
        self._on_loop(lambda: self._clients.append(Pipe(self, accept)))
        return self._clients[-1]

    def _on_loop(self, act: Callable[[], None]) -> None:
        """Do it as the loop would; an event may have been that of a thread."""
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self.loop)
        try:
            act()
        finally:
            asyncio._set_running_loop(before)

    def hang_up(self) -> None:
        """Hang up all clients."""
        for client in self._clients:
            client.hang_up()

    # -- events -----------------------------------------------------------------------------

    def ask(
        self, client: Pipe, data: bytes, is_answered: Callable[[bytes], bool], nth: int = 0,
        change: Callable[[], None] = lambda: None,
    ) -> bytes:  # fmt: skip
        """Send a request and have the change at its nth event; return what was said.

        `events` is how many there were: fewer than nth, and there was no change.
        """
        self.events, self._nth, self._change, self._is_asking = 0, nth, change, True
        client.sent.clear()
        client.send(data)
        self.run(lambda: client.is_over or is_answered(bytes(client.sent)), _ANSWER_US)
        self._is_asking = False
        return bytes(client.sent)

    def _happened(self) -> None:
        """Note that an event is over."""
        for true, then in self._looks[:]:
            if true():
                self._looks.remove((true, then))
                self._on_loop(then)
        if self._is_asking and not self.loop.is_over:
            self.events += 1
            if self.events == self._nth and self._change is not None:
                self._on_loop(self._change)

    def when(self, true: Callable[[], bool], then: Callable[[], None]) -> None:
        """Do this at the event after which something is true."""
        self._looks.append((true, then))

    def run(self, true: Callable[[], bool], within_us: int) -> bool:
        """Let things happen until something is true; return False if it was not in that time."""
        end = self.timeline.us + within_us
        while not true() and self.timeline.us < end and not self.loop.is_over:
            self.timeline.run_until(min(end, self.timeline.us + _STEP_US))
        return true()

    def rest(self) -> None:
        """Let everything happen that was begun."""
        self.run(lambda: False, _REST_US)

    def state(self) -> State:
        """Return the items that a start finds after a power cut now: unsynced writes are lost."""
        stage = ServerHarness(self.disk.crash_clone(Random(1), "lost"), now_ms=_HOURS_MS)
        stage.pass_time(_HOURS_MS)
        return {
            name.decode(): (_taken(stage, name), _taken(stage, name + b"/dead"))
            for name in sorted(stage.broker.queues)
        }

    def under_way(self) -> list[str]:
        """Return the rests of requests after all clients are gone: there must be none."""
        broker, found = self.daemon.broker, list[str]()
        for name, queue in broker.queues.items():
            reader = queue.reader
            if reader.waiters.count:
                found.append(f"{name!r} has waiters")
            if any(not lease.by_token for lease in reader.leases.all()):
                found.append(f"{name!r} has a lease of a client that is gone")
        if broker.moves.is_active:
            found.append("a transfer is under way")
        if broker.to_resume or broker.gone_holders.holders or broker._absent:
            found.append("a wait is under way")
        return found


def _taken(stage: ServerHarness, key: bytes) -> tuple[bytes, ...]:
    found = list[bytes]()
    while (said := stage.say("last:0", b"get " + key)).startswith(b"VALUE"):
        found.append(said.partition(b"\r\n")[2].removesuffix(b"\r\nEND\r\n"))
        assert len(found) < _ITEMS_MAX
    return tuple(found)
