"""The stand-ins of a run for the world: clocks, threads, chance, and tiny sizes.

One rule: nothing in the server knows that it is simulated; every stand-in is put where the name is
looked up, for the length of a run, and taken away again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Callable, Iterator
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol
from unittest import mock

from journal import patience
from kestrelpy import aside
from kestrelpy.config.settings import Config
from kestrelpy.http.call import Call
from kestrelpy.http.listener import HttpConnection
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.server import clock, daemon, exposure
from kestrelpy.server.connections.connection import Connection
from kestrelpy.server.directory import DirectoryWatch
from kestrelpy.server.journals import journal_jobs, syncs
from tests.simulation.books import WALL_MS
from tests.simulation.loop import JobQueue, Threads, Timeline

_STEADY_MS: Final = 5_000  # the machine has been on that long when the server starts
_SEGMENTS: Final = ((2048, 2048), (2048, 8192), (4096, 16384))
_BATCHES: Final = (1024, 4096, 1 << 20)


class World(Protocol):
    """A run, which gives the server its surroundings."""

    seed: int

    @property
    def timeline(self) -> Timeline:
        """Its time."""

    @property
    def threads(self) -> Threads | None:
        """Those of the daemon that lives."""

    @property
    def steady_from_us(self) -> int:
        """When the machine was started."""

    def hear_log(self, level: int, text: str, is_mistake: bool) -> None:
        """The server wrote a line to its log."""


def configuration(
    random: Random, queues: dict[str, dict[str, Any]], schedules: dict[str, Any],
    http: bool,
) -> Config:
    """Return settings with sizes far below sensible ones, so that everything happens soon."""
    blank = Config()
    least, most = random.choice(_SEGMENTS)
    # model_construct: an operator may not set such sizes, and they would be refused.
    journal = type(blank.journal).model_construct(
        **{
            **blank.journal.model_dump(),
            "segment_min_bytes": least,
            "segment_max_bytes": most,
            "batch_max_bytes": random.choice(_BATCHES),
        }
    )
    server: dict[str, Any] = {"data_dir": "/data", "http_port": 0 if http else "off"}
    memory = random.choice((None, 1, 300, 3000))
    if "max_memory_bytes" in type(blank.queue_defaults).model_fields and memory is not None:
        queues = {name: {"max_memory": memory, **block} for name, block in queues.items()}
    config = Config.model_validate(
        {"server": server, "queues": queues, "schedules": schedules}
    )
    return config.model_copy(update={"journal": journal})


def _numbered(init: Callable[..., None]) -> Callable[..., None]:
    """Give each HTTP connection its number before anything puts it into a set."""
    serials = count()

    def numbered(connection: Any, *arguments: Any) -> None:
        connection.serial = next(serials)
        init(connection, *arguments)

    return numbered


class _Ear(logging.Handler):
    """Hears what the server writes to its log."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += f": {record.exc_info[1]!r}"
        self._world.hear_log(record.levelno, text, bool(record.exc_info))


def _hash_of(caller: Conversation | Call) -> int:
    return int(caller.holder.name.rpartition(":")[2])


# Each look at the clock of shares takes this long, so that a share is over after some requests.
_LOOK_US = 40


@contextlib.contextmanager
def patched(world: World) -> Iterator[None]:
    """Give the server the run's world inside the block."""
    timeline, chance = world.timeline, Random(world.seed)

    def now_ms() -> int:
        return _STEADY_MS + (timeline.us - world.steady_from_us) // 1000

    def wall_clock_offset_ms() -> int:
        return WALL_MS + timeline.us // 1000 - now_ms()

    looks = count(step=_LOOK_US)

    def elapsed() -> float:
        return (timeline.us + next(looks)) / 1_000_000

    def nothing(*args: object) -> None:
        return None

    async def no_look(watch: DirectoryWatch) -> None:
        return None

    ear = _Ear(world)
    log = logging.getLogger("kestrelpy")
    propagated, log.propagate = log.propagate, False
    log.addHandler(ear)
    with contextlib.ExitStack() as stack:
        for where, name, stand_in in (
            (clock, "now_ms", now_ms),
            (clock, "wall_clock_offset_ms", wall_clock_offset_ms),
            (clock, "elapsed", elapsed),
            (syncs, "threading", SimpleNamespace(Thread=lambda **n: _thread(world, **n))),
            (syncs, "SimpleQueue", lambda: _jobs(world)),
            (aside, "threading", SimpleNamespace(Thread=lambda target, **_: _AtOnce(target))),
            (exposure, "_check", nothing),  # this machine's addresses and files are not the run's
            (DirectoryWatch, "run", no_look),  # nor is a folder that others take away
            (daemon, "tune_interpreter", nothing),
            (journal_jobs, "time", SimpleNamespace(monotonic=lambda: 0.0)),  # pauses take none
            (patience, "time", SimpleNamespace(sleep=nothing)),
            (daemon, "raise_file_limit", lambda *_: 1 << 16),
            (os, "urandom", chance.randbytes),
            (uuid, "uuid4", lambda: SimpleNamespace(hex=chance.randbytes(16).hex())),
            (Connection, "__hash__", lambda connection: connection.number),
            (Conversation, "__hash__", _hash_of),
            (Call, "__hash__", _hash_of),
            (HttpConnection, "__init__", _numbered(HttpConnection.__init__)),
            (HttpConnection, "__hash__", lambda connection: connection.serial),
        ):
            stack.enter_context(mock.patch.object(where, name, stand_in))
        try:
            yield
        finally:
            log.removeHandler(ear)
            log.propagate = propagated


def _thread(world: World, **named: Any) -> Any:
    assert world.threads is not None
    return world.threads.Thread(**named)


class _AtOnce(NamedTuple):
    """Stands for a thread that reads the configuration, which takes no time here."""

    target: Callable[[], None]

    def start(self) -> None:
        """Do its work."""
        self.target()


def _jobs(world: World) -> JobQueue:
    assert world.threads is not None
    return JobQueue(world.threads)
