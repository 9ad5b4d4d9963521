"""The router: it starts a process for each slice, and lets clients connect to all as to one server.

    clients ──▶ port ──▶ router ──▶ slices-4/1 ... slices-4/4, each a daemon with a folder

One rule: the router stores nothing and decides nothing; what a client hears comes from a slice.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import tempfile
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Final, cast

import kestrelpy
from journal.engine import Member
from kestrelpy.config import Config, ConfigError
from kestrelpy.core import KeySettings
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.fleet import FleetFacts
from kestrelpy.operations import Caller, Listening
from kestrelpy.protocol import MEMCACHE, Lines, LogLimit, RouterCounts, SlicedQueues, Waking, Wire
from kestrelpy.server import clock
from kestrelpy.server.connections import CannotListen, ConnectionMemory, Listeners, Logins
from kestrelpy.server.daemon import BACKLOG, DRAIN_SECONDS, HEEDED, StartError
from kestrelpy.server.descriptors import raise_file_limit, share_of_router
from kestrelpy.server.directory import engine_of, seat_of
from kestrelpy.server.exposure import (
    Tls,
    TlsFiles,
    Unservable,
    refuse_exposed,
    refuse_unservable,
    secret_of,
    tls_between_members,
)
from kestrelpy.server.http_side import HttpSide, routing
from kestrelpy.server.policies import policy_of
from kestrelpy.server.reloading import in_time
from kestrelpy.server.slices.connections import READ_BYTES, ClientConnection
from kestrelpy.server.slices.doors import Entrance, Key, Waiting
from kestrelpy.server.slices.member_slices import MemberSlices
from kestrelpy.server.slices.slice_process import MAIL_NAME
from kestrelpy.server.slices.slice_set import SliceSet
from kestrelpy.server.supervisor import BadInheritance, Supervisor

log = logging.getLogger("kestrelpy.router")

SWEEP_SECONDS: Final = 0.5
HANDOVER_SECONDS: Final = 1.0  # for the last answers of slices that have stopped
_LOOKED_MAX: Final = 1000  # connections in one turn
_FILES_ASKED: Final = 1 << 20  # a limit with which the router has all that it wants


class SliceRouter:
    """One router, and the slices of one data directory."""

    version = kestrelpy.__version__

    def __init__(
        self, config: Config, config_file: Path | None, load: Callable[[], Config],
        say: Callable[[str], None], taken: Callable[[Config], None] = lambda config: None,
        supervisor: Supervisor | None = None,
    ) -> None:  # fmt: skip
        """`load` reads the configuration again, `taken` gets each one that comes into force; `say`
        prints one of the first lines; `supervisor` is the process that started us."""
        self._taken = taken
        self._supervisor = supervisor or Supervisor({})
        self.placement = config.placement
        self.lines: Lines = {}
        self.counts = RouterCounts()
        self.memory = ConnectionMemory(config.server.max_connection_memory_bytes)
        self.read_buffer = bytearray(READ_BYTES)
        self.logins = Logins(LogLimit(), clock.now_ms, self.start_task, _wake)
        self.logins.put_in_force(config)
        self._config, self._config_file, self._load, self._say = config, config_file, load, say
        self._loop = asyncio.get_running_loop()
        self._connections: set[ClientConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ending, self._why = asyncio.Event(), ""
        self._reloading = asyncio.Lock()
        self._members: set[ClientConnection] = set()  # connections of other members
        self._mails: set[ClientConnection] = set()  # of the slices here, for their messages
        self._at_move = list[Callable[[int, Member], None]]()
        self._slices: SliceSet | None = None  # None: it has not started yet
        self._connections_max = self._members_max = 0
        self._waiting = Waiting(clock.elapsed)  # connections that have said nothing yet
        self._tls = Tls()
        self._handed: list[tuple[str, socket.socket]] = []  # sockets that we were started with
        self._listeners: Listeners | None = None
        self._mail: asyncio.Server | None = None  # where the slices connect
        self.sliced_queues = SlicedQueues(self)
        self._http = HttpSide(
            lambda: self._connections_max,
            lambda: self._config.server.max_connection_memory_bytes, self._new_number,
        )  # fmt: skip

    # -- the life of the process -------------------------------------------------------------

    async def run(self) -> None:
        """Start, serve until asked to end, and end; raise StartError."""
        for number in HEEDED:
            self._loop.add_signal_handler(number, self._heed, number)
        helping = [
            self._loop.create_task(each)
            for each in (self._sweep(), self._supervisor.prolong_start())
        ]
        with tempfile.TemporaryDirectory(prefix="kestrelpy-") as sockets:
            try:
                await self._start(Path(sockets))
                helping.pop().cancel()
                helping.append(self._loop.create_task(self._supervisor.keep_alive()))
                await self._ending.wait()
            finally:
                self._supervisor.stopping()
                for each in helping:
                    each.cancel()
                await self._stop()
        log.info("stopped: %s", self._why or "a start that failed")

    async def _start(self, sockets: Path) -> None:
        server = self._config.server
        self._share_files()
        try:
            handed = self._handed = self._supervisor.sockets()
            await refuse_unservable(self._config, handed)
            await in_time(partial(self._tls.begin, server))
            slices = self._slices = await self._make_slices(sockets)
        except (BadInheritance, ConfigError, Unservable, OSError) as error:
            raise StartError(str(error)) from error
        # Slices send each other messages from their start on; a message waits for its slice.
        self._mail = await self._loop.create_unix_server(
            lambda: ClientConnection(self, is_slice=True), sockets / MAIL_NAME
        )
        await slices.start()
        if self._ending.is_set():
            raise StartError(self._why)
        listeners = self._listeners = Listeners(self._new_connection, BACKLOG, self._tls.context)
        try:
            if handed:
                lines = await listeners.take_over(handed)
                if not any(name == "text" for name, _ in handed):
                    lines += await listeners.listen_text(server.host, server.text_port)
            else:
                lines = await listeners.listen(
                    server.host, server.port, server.socket, server.text_port
                )
            if server.http_port is not None:
                web, tls = routing(self, server.http_allowed_hosts), self._tls.context
                lines += await self._http.listen(web, server.http_host, server.http_port, tls)
                self.counts.http_port = self._http.port
        except CannotListen as error:
            raise StartError(str(error)) from error
        for line in lines:
            self._say(line)
        self._supervisor.ready(f"ready: {slices.status}")
        self._say(f"ready: data in {slices.place}, {slices.status}")

    async def _make_slices(self, sockets: Path) -> SliceSet:
        """Return the slices, here or in a fleet; raise Unservable or ConfigError."""
        config = self._config
        engine = engine_of(config)
        if engine is None:
            return SliceSet(config, self._config_file, sockets, self._end)
        key = Key(self.placement.layout, await in_time(partial(secret_of, config)))
        tls = await in_time(partial(tls_between_members, config))
        return MemberSlices(
            config, self._config_file, sockets, self._end, engine, seat_of(config), key, tls,
            self._say, self._note_owner,
        )  # fmt: skip

    def _new_connection(self, wire: Wire) -> asyncio.BaseProtocol:
        client = ClientConnection(self, wire)
        if wire is MEMCACHE and isinstance(self._slices, MemberSlices):
            return Entrance(self._slices, client, self._waiting)
        return client

    def _share_files(self) -> None:
        """Raise the limit of open files to what clients and other members need."""
        wanted, slices = self._config.server.max_connections, self.placement.slices
        is_fleet = self._config.fleet.engine is not None
        has_http = self._config.server.http_port is not None
        shares = partial(
            share_of_router, clients=wanted, slices=slices, is_fleet=is_fleet, has_http=has_http
        )
        limit = raise_file_limit(shares(_FILES_ASKED).wanted, 0)
        most, members, _ = shares(limit)
        self._connections_max, self._members_max = most, members
        each = 1 + slices if is_fleet or has_http else 1
        if most < wanted:
            log.warning(
                "max_connections lowered from %d to %d: this process may open %d files, and a "
                "client takes up to %d (raise the hard limit of open files: ulimit -Hn, "
                "LimitNOFILE=)", wanted, most, limit, each,
            )  # fmt: skip

    async def _stop(self) -> None:
        if self._listeners is not None:
            self._listeners.close()
        self._http.close()
        self._waiting.close()
        for connection in list(self._connections):
            connection.leave()
        deadline = self._loop.time() + DRAIN_SECONDS
        while self._loop.time() < deadline and self._connections:
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.abort()
        if self._mail is not None:
            self._mail.close()
        if self._slices is not None:  # one that stops ends the waits of HTTP as well
            await self._slices.stop()
        deadline = self._loop.time() + HANDOVER_SECONDS
        while self._loop.time() < deadline and not self._http.is_empty:
            await asyncio.sleep(0.01)
        self._http.abort()
        for member in list(self._members):
            member.abort()
        for task in list(self._tasks):
            task.cancel()
        self.logins.close()
        if self._listeners is not None:
            self._listeners.remove_socket()

    def _heed(self, number: int) -> None:
        if number == signal.SIGHUP:
            self.start_task(self._reload(self._slices.reload if self._slices is not None else None))
        else:
            self._end(signal.Signals(number).name)

    def _end(self, why: str) -> None:
        self._why = self._why or why
        self._ending.set()
        if self._slices is not None:
            self._slices.interrupt()

    async def _sweep(self) -> None:
        """Close idle connections, some in each turn, until cancelled."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            idle_ms, now_s = self._config.server.idle_timeout_ms, clock.elapsed()
            idle_s = None if idle_ms is None else idle_ms / 1000
            for looked, connection in enumerate(list(self._connections), 1):
                if not looked % _LOOKED_MAX:
                    await asyncio.sleep(0)
                connection.close_if_idle(now_s, idle_s)
            self._waiting.look()
            self._look_at_memory(clock.now_ms())

    def _look_at_memory(self, now_ms: int) -> None:
        """Note what clients have read; while memory is short, stalled clients lose theirs."""
        for holder in self.memory.holders:
            cast(ClientConnection, holder).look_at_memory(now_ms)
        if shed := self.memory.shed(now_ms):
            log.warning(
                "max_connection_memory is used up: %d clients without progress were refused "
                "their items, or closed", shed,
            )  # fmt: skip

    # -- for connections --------------------------------------------------------------------

    def admit(self, connection: ClientConnection) -> bool:
        """Return whether the connection may stay."""
        if connection.is_slice:
            self._mails.add(connection)
            return True
        self._new_number()
        here = len(self._connections) + self._http.connections
        if self._ending.is_set() or here >= self._connections_max:
            return False
        self._connections.add(connection)
        self.counts.connections = len(self._connections)
        return True

    def _new_number(self) -> int:
        self.counts.connections_total += 1
        return self.counts.connections_total

    def dismiss(self, connection: ClientConnection) -> None:
        """Forget a connection that is gone."""
        self._connections.discard(connection)
        self._members.discard(connection)
        self._mails.discard(connection)
        self.counts.connections = len(self._connections)

    def admit_member(self, connection: ClientConnection) -> bool:
        """Return whether the connection, which is one of another member, may stay: it ends with its
        slice."""
        if self._ending.is_set() or len(self._members) >= self._members_max:
            return False
        self._connections.discard(connection)
        self._members.add(connection)
        self.counts.connections = len(self._connections)
        return True

    async def connect(
        self, number: int, make: Callable[[], asyncio.BaseProtocol]
    ) -> Member | None:
        """Connect to a slice, once it serves; return the member of a fleet that has it. Raise
        SliceAway."""
        assert self._slices is not None
        return await self._slices.connect(number, make)

    def _note_owner(self, number: int, owner: Member) -> None:
        """Let no client and no slice wait for the member that had the slice before: it may be
        asleep."""
        for connection in (*self._connections, *self._mails):
            connection.note_owner(number, owner)
        for moved in self._at_move:
            moved(number, owner)

    def call_at_move(self, moved: Callable[[int, Member], None]) -> None:
        """Call this with a slice of a fleet and its new owner, whenever it has another one."""
        self._at_move.append(moved)

    async def connect_http(
        self, number: int, make: Callable[[], asyncio.BaseProtocol], is_patient: bool = True
    ) -> Member | None:
        """Connect to a slice by HTTP, once it serves; return the member of a fleet that has it.
        Raise SliceAway: soon, unless `is_patient`, if it does not serve now."""
        assert self._slices is not None
        return await self._slices.connect_http(number, make, is_patient)

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task of the router."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- for HTTP ---------------------------------------------------------------------------

    def why_away(self, number: int) -> str | None:
        """Return why a slice does not serve now; None: it serves."""
        assert self._slices is not None
        return self._slices.why_away(number)

    @property
    def is_in_fleet(self) -> bool:
        """True if other members serve some of the slices."""
        return isinstance(self._slices, MemberSlices)

    def is_here(self, number: int) -> bool:
        """True if a slice serves on this machine."""
        assert self._slices is not None
        return self._slices.is_here(number)

    def member_of(self, number: int) -> str | None:
        """Return the name of the member that owns a slice; None: nobody, or there is no fleet."""
        return None if self._slices is None else self._slices.member_of(number)

    async def fleet(self) -> FleetFacts:
        """Return the slices, the members and the last takeovers."""
        assert self._slices is not None
        return await self._slices.fleet()

    @property
    def fleet_now(self) -> FleetFacts:
        """The slices and the members, as far as is known."""
        assert self._slices is not None
        return self._slices.fleet_now

    @property
    def needs_login(self) -> bool:
        """True if there are users: then a client has to say which it is."""
        return self.logins.are_needed

    @property
    def default_project(self) -> str | None:
        """The project of the messaging API whose queues have no prefix."""
        return self._config.server.default_project

    def queue_of_schedule(self, name: str) -> bytes | None:
        """Return the queue of a schedule; None: there is no such schedule."""
        found = self._config.schedules.get(name)
        return None if found is None else found.queue.encode()

    @property
    def listening(self) -> Listening | None:
        """Where the memcache port listens; None: it listens on a Unix socket alone."""
        server, address = self._config.server, self._listeners and self._listeners.address
        if not address:
            return None
        return Listening(*address, server.tls_cert is not None, server.tls_client_ca is not None)

    @property
    def http_port(self) -> int | None:
        """The port of HTTP; None: it is off."""
        return self._http.port

    @property
    def memcache_connections(self) -> int:
        """The number of connections of the memcache port."""
        return self.counts.connections

    @property
    def connections_total(self) -> int:
        """The number of connections that came, of both wires."""
        return self.counts.connections_total

    @property
    def http_connections(self) -> int:
        """The number of connections of HTTP."""
        return self._http.connections

    # -- for conversations ------------------------------------------------------------------

    def limit_of(self, name: bytes) -> int:
        """Return how large an item of this queue may be, in bytes."""
        return self._config.largest_item_bytes

    def keys_of(self, name: bytes) -> KeySettings | None:
        """Return how the items of a sliced queue get their keys; None: the queue is in one slice.
        """
        settings = self._config.queue(name)
        return policy_of(settings).keys if settings.sliced else None

    def is_sliced(self, name: bytes) -> bool:
        """True if a queue is in all slices."""
        return self.has_sliced and self._config.queue(name).sliced

    @property
    def has_sliced(self) -> bool:
        """True if some queue may be sliced."""
        return self._config.has_sliced

    def own_slices(self) -> list[int]:
        """Return the slices that this process serves now."""
        return self._slices.own if self._slices is not None else []

    def foreign_slices(self) -> list[int]:
        """Return the slices that other members serve, as far as is known."""
        if self._slices is None:
            return []
        own, why_away = self._slices.own, self._slices.why_away
        others = [each for each in range(1, self.placement.slices + 1) if each not in own]
        return [each for each in others if why_away(each) is None]

    @property
    def open_reads_max(self) -> int:
        """How many items a connection may hold open."""
        return self._config.server.max_open_reads

    def check_reload(self, done: Callable[[bytes], None]) -> None:
        """Check whether the router would refuse the configuration now, and say so: with a line that
        is an error, or with nothing."""
        self.start_task(self._check_reload(done))

    async def _check_reload(self, done: Callable[[bytes], None]) -> None:
        why = await self.why_not_reloaded()
        done(ServerError(why).line() + b"\r\n" if why else b"")

    async def why_not_reloaded(self) -> str:
        """Return why the router would refuse the configuration now; "": it would take it."""
        async with self._reloading:
            try:
                await self._checked()
            except (ConfigError, Unservable) as error:
                return _not_reloaded(error)
        return ""

    async def _checked(self) -> tuple[Config, TlsFiles | None]:
        """Return the configuration that a reload takes now, and the files of TLS; raise
        ConfigError, Unservable."""
        config = (await in_time(self._load)).begun_as(self._config)
        await refuse_exposed(config, self._handed)
        return config, await in_time(partial(self._tls.check, config.server))

    def reload_beside(self) -> None:
        """Read the configuration again, as each slice does now."""
        self.start_task(self._reload())

    async def _reload(self, before: Callable[[], None] | None = None) -> None:
        """Read the configuration again; unless it is refused, call `before` and take it."""
        async with self._reloading:
            await self._take_configuration(before)

    async def _take_configuration(self, before: Callable[[], None] | None) -> None:
        self._supervisor.reloading()
        status = "configuration reloaded"
        try:
            config, tls_files = await self._checked()
            between = await in_time(partial(tls_between_members, config))
            self._tls.renew(tls_files)
        except (ConfigError, Unservable) as error:
            log.error("configuration not reloaded: %s", error)
            status = _not_reloaded(error)
        else:
            if before is not None:
                before()
            self._config = config
            if isinstance(self._slices, MemberSlices):
                self._slices.trust(between)
            self.logins.put_in_force(config)
            self._share_files()
            self.memory.change_limit(config.server.max_connection_memory_bytes)
            self._taken(config)
        self._supervisor.ready(status)

    def shutdown(self, why: str) -> None:
        """End the process and its slices; raise ClientError if clients may not do that."""
        if not self._config.server.allow_shutdown:
            raise ClientError("shutdown is not allowed on this server (allow_shutdown)")
        self._end(why)


def _not_reloaded(error: Exception) -> str:
    return f"configuration not reloaded: {str(error).partition(chr(10))[0]}"


def _wake(login: Caller) -> None:
    cast(Waking, login).wake()
