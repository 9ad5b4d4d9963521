"""Three slices in this process behind a router of HTTP, and a client of the router."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx

from journal.engine import Member
from kestrelpy.config.reading import load_config
from kestrelpy.config.settings import Config
from kestrelpy.core import KeySettings
from kestrelpy.errors import SliceAway
from kestrelpy.fleet import FleetFacts, MemberFacts, SliceFacts, TakeoverFacts
from kestrelpy.http import HttpListener, open_router
from kestrelpy.operations import Listening
from kestrelpy.placement import Placement
from kestrelpy.protocol import SlicedQueues
from kestrelpy.server.daemon import Daemon
from kestrelpy.server.http_side import HttpSide
from kestrelpy.server.policies import policy_of
from kestrelpy.server.supervisor import Supervisor
from tests.support.http_client import check_shape, check_times
from tests.support.running import ANSWER_SECONDS, Peer

SLICES = 3


class SliceHere:
    """One slice, which can be stopped and started."""

    def __init__(self, folder: Path, number: int, config_file: Path) -> None:
        self._folder = folder / str(number)
        self._folder.mkdir(mode=0o700)
        self._number = number
        self._config_file = config_file
        self.wire, self.http = folder / f"{number}.wire", folder / f"{number}.http"
        self.daemon: Daemon | None = None

    def _load(self) -> Config:
        overrides: dict[tuple[str, str], object] = {
            ("server", "port"): "off", ("server", "http_port"): "off",
            ("server", "socket"): str(self.wire), ("server", "data_dir"): str(self._folder),
            ("fleet", "slices"): SLICES, ("fleet", "slice"): self._number,
        }  # fmt: skip
        return load_config(self._config_file, environ={}, overrides=overrides).of_slice()

    async def start(self) -> None:
        """Begin to serve."""
        supervisor = Supervisor({"SLICE_HTTP": str(self.http)})
        daemon = Daemon(self._load(), self._load, lambda line: None, supervisor=supervisor)
        await daemon.start()
        self.daemon = daemon

    async def stop(self) -> None:
        """End, as at a signal."""
        daemon, self.daemon = self.daemon, None
        if daemon is not None:
            await daemon.stop()

    async def memcache(self) -> Peer:
        """A raw client of the memcache protocol."""
        return Peer(*await asyncio.open_unix_connection(str(self.wire)))


class SlicedWeb:
    """The router's part that HTTP needs, and its client."""

    def __init__(self, folder: Path, config: str) -> None:
        self.config_file = config_file = folder / "kestrelpy.toml"
        config_file.write_text(config)
        self.config = load_config(config_file, environ={}, overrides={})
        self.placement = Placement(SLICES)
        self.sliced_queues = SlicedQueues(self)
        self.slices = {each: SliceHere(folder, each, config_file) for each in range(1, SLICES + 1)}
        self.side = HttpSide(lambda: 10_000, lambda: 256 << 20, lambda: 1)
        self.connects: list[int] = []  # the slices, in the order of the connections to them
        self.ended = ""
        self.reloads, self.refusal = 0, ""  # of the configuration, by the router
        self.memcache_connections, self.connections_total = 0, 0
        self.listening: Listening | None = None
        self.is_in_fleet = False
        self.elsewhere: dict[int, Member] = {}  # slices of other members of a fleet
        self.members = list[MemberFacts]()
        self.takeovers = list[TakeoverFacts]()
        self.needs_login = False
        self.moved: Callable[[int, Member], None] = lambda number, owner: None

    def is_sliced(self, name: bytes) -> bool:
        return self.config.queue(name).sliced

    def keys_of(self, name: bytes) -> KeySettings | None:
        settings = self.config.queue(name)
        return policy_of(settings).keys if settings.sliced else None

    @property
    def has_sliced(self) -> bool:
        return self.config.has_sliced

    def own_slices(self) -> list[int]:
        return [each for each in self.slices if self.is_here(each)]

    def foreign_slices(self) -> list[int]:
        return [each for each in self.elsewhere if self.why_away(each) is None]

    @property
    def open_reads_max(self) -> int:
        return self.config.server.max_open_reads

    def of(self, queue: str) -> SliceHere:
        """The slice of a queue."""
        return self.slices[self.placement.slice_of(queue.encode())]

    # -- the router, as HTTP sees it --------------------------------------------------------

    def why_away(self, number: int) -> str | None:
        return None if self.slices[number].daemon is not None else "ended with code 1"

    def is_here(self, number: int) -> bool:
        return number not in self.elsewhere and self.why_away(number) is None

    def member_of(self, number: int) -> str | None:
        found = self.elsewhere.get(number)
        return "here" if found is None and self.is_in_fleet else found and found.name

    async def fleet(self) -> FleetFacts:
        return self.fleet_now

    @property
    def fleet_now(self) -> FleetFacts:
        slices = [SliceFacts(each, self.member_of(each), self.why_away(each), 5)
                  for each in self.slices]  # fmt: skip
        return FleetFacts(slices, self.members, self.takeovers, len(self.takeovers), None)

    def call_at_move(self, moved: Callable[[int, Member], None]) -> None:
        self.moved = moved

    async def connect_http(
        self, number: int, make: Callable[[], asyncio.BaseProtocol], is_patient: bool = True
    ) -> Member | None:
        if (why := self.why_away(number)) is not None:
            raise SliceAway(why)
        self.connects.append(number)
        loop = asyncio.get_running_loop()
        await loop.create_unix_connection(make, str(self.slices[number].http))
        return self.elsewhere.get(number)

    @property
    def default_project(self) -> str | None:
        return self.config.server.default_project

    def queue_of_schedule(self, name: str) -> bytes | None:
        found = self.config.schedules.get(name)
        return None if found is None else found.queue.encode()

    @property
    def http_port(self) -> int | None:
        return self.side.port

    @property
    def http_connections(self) -> int:
        return self.side.connections

    async def why_not_reloaded(self) -> str:
        return self.refusal

    def reload_beside(self) -> None:
        self.reloads += 1

    def shutdown(self, why: str) -> None:
        self.ended = why

    # -- clients ----------------------------------------------------------------------------

    client: httpx.AsyncClient

    async def raw(self, data: bytes) -> Peer:
        """Send these bytes on a connection of their own."""
        assert self.side.port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.side.port)
        writer.write(data)
        return Peer(reader, writer)


@contextlib.asynccontextmanager
async def sliced_web(folder: Path, config: str = "") -> AsyncIterator[SlicedWeb]:
    """Run three slices, and HTTP before them on a free port."""
    found = SlicedWeb(folder, config)

    def make(admission: HttpSide) -> HttpListener:
        return open_router(found, admission, frozenset())

    try:
        for each in found.slices.values():
            await each.start()
        await found.side.listen(make, "127.0.0.1", 0)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{found.side.port}", timeout=ANSWER_SECONDS,
            event_hooks={"response": [check_shape, check_times]},
        ) as found.client:
            yield found
    finally:
        found.side.close()
        for each in found.slices.values():
            await each.stop()
        found.side.abort()
