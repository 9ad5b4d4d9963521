"""The life of a process: lock the directory, recover, listen, serve, drain, end.

One rule: no request is answered before recovery is on disk, and an orderly stop loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Coroutine
from functools import partial
from heapq import nsmallest
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from aiofiles.base import wrap

import kestrelpy
from journal.errors import Damage, JournalError
from journal.files import Disk, Files, sync_call_name
from kestrelpy.aside import TookTooLong, both, run_aside, until_ending
from kestrelpy.compiled import KIND
from kestrelpy.config import Config, ConfigError, FleetConfig, ServerConfig, changed_settings
from kestrelpy.core import JournalLog
from kestrelpy.errors import ServerError
from kestrelpy.fleet import NOT_LOOKED, Membership
from kestrelpy.operations import Actions, Caller, ConnectionFacts, DamageFound, Gate, Listening
from kestrelpy.protocol import ConnectionRoom, Lines, LogLimit, Wire
from kestrelpy.server import clock
from kestrelpy.server.assembly import assemble
from kestrelpy.server.connections import (
    CannotListen,
    Connection,
    ConnectionMemory,
    ConnectionSweep,
    Listeners,
    Logins,
    Revocation,
)
from kestrelpy.server.descriptors import HTTP_PART, OWN, raise_file_limit, share
from kestrelpy.server.directory import (
    DirectoryWatch,
    last_backup_ms,
    member_of,
    name_what_is_open,
)
from kestrelpy.server.exposure import (
    Exposed,
    Tls,
    TlsFiles,
    Unservable,
    refuse_exposed,
    refuse_unservable,
    why_of_other_slices,
)
from kestrelpy.server.http_side import HttpSide, serving
from kestrelpy.server.journals import close_journals, failed_journals
from kestrelpy.server.mail import SILENT_AFTER, Couriers, RouterWatch
from kestrelpy.server.policies import Policies
from kestrelpy.server.process import collector_paused, return_large_memory, tune_interpreter
from kestrelpy.server.reloading import (
    Reload,
    in_time,
    left_out,
    refuse_at_start,
)
from kestrelpy.server.restart import RecoveredDirectory, recover, why_not_opened
from kestrelpy.server.supervisor import BadInheritance, Supervisor

if TYPE_CHECKING:
    from kestrelpy.http import HttpConnection

log = logging.getLogger("kestrelpy")

DRAIN_SECONDS: Final = 5.0
HEEDED: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
CLOSE_SECONDS: Final = 30.0
SILENT_CLOSE_SECONDS: Final = 5.0  # instead, if the engine is silent: all that was said is there
BACKLOG: Final = 1024
OPERATOR: Final = "the operator"  # who starts and ends the process


class StartError(Exception):
    """The daemon cannot start; the text is one sentence for the operator."""


class Daemon:
    """One running server. It is the host of every conversation."""

    version, owner_address = kestrelpy.__version__, ""

    def __init__(
        self,
        config: Config,
        load: Callable[[], Config],
        say: Callable[[str], None],
        files: Files | None = None,
        taken: Callable[[Config], None] = lambda config: None,
        supervisor: Supervisor | None = None,
        mail: str = "",
    ) -> None:
        """`load` reads the configuration again, `taken` gets each one that comes into force;
        `say` prints one of the first lines; `supervisor` is the process that started us; `mail` is
        the socket of a router for the messages of its slices."""
        self.policies = Policies(config)
        self.declaration, self.settings = self.policies.declaration, self.policies.settings
        self._load, self._taken = load, taken
        self._say, self._supervisor = say, supervisor or Supervisor({})
        member = member_of(config) if files is None else None
        self._files: Files = files or (Disk() if member is None else member.files)
        self.mode, self.server_id, self.closed = "up", "", NOT_LOOKED if member is not None else ""
        self.lines: Lines = {}
        self.log_limit = LogLimit()
        self.started_ms, self.elapsed = clock.now_ms(), clock.elapsed
        self.is_slice = config.fleet.slice is not None
        self.is_leaving, self.recovery_seconds = False, 0.0
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reloading, self._ending, self._why_stopped = asyncio.Lock(), asyncio.Event(), ""
        self._next_reload: Gate | None = None  # requested, and not begun
        self._listeners = Listeners(self._new_connection, BACKLOG)
        self._shares, self._lowered, self.tls = share(OWN, 1, 1), "", Tls()
        self._http = HttpSide(
            lambda: self._connections_max[1], lambda: self.memory.limit, self._new_number
        )
        self._handed = list[tuple[str, socket.socket]]()
        self._loop = asyncio.get_running_loop()
        self.membership = Membership(member, self._note_closed, self._say_standby, self.shutdown)
        self.may_answer = self.membership.gate
        self._parts = parts = assemble(
            self.policies, self._files, start_task=self._start_task, mode=lambda: self.mode,
            note_damage=self._note_damage, may_answer=self.may_answer,
        )  # fmt: skip
        self.broker, self.directory, self.turn = parts.broker, parts.directory, parts.turn
        self.deletions, self.committer = parts.deletions, parts.committer
        self.schedules, self.journal_jobs = parts.schedules, parts.journal_jobs
        self.timetable = self.schedules.timetable
        self.files_gone = self.deletions.gate
        self.earlier_files_gone = self.deletions.earlier_files_gone
        offset = self.broker.clock
        self.actions, self.damage = Actions(offset), DamageFound(offset)
        self.start_read = self.journal_jobs.start_read
        self.logins = Logins(self.log_limit, clock.now_ms, self._start_task, self._wake)
        self.memory = ConnectionMemory(config.server.max_connection_memory_bytes)
        self.room: ConnectionRoom = self.memory
        self._couriers = self._made_couriers(mail, config.fleet) if mail else None
        silent_s = config.fleet.takeover_ms * SILENT_AFTER / 1000
        self._router_watch = RouterWatch(mail, silent_s, self._end_by_router) if mail else None
        self._limit()

    def _made_couriers(self, mail: str, fleet: FleetConfig) -> Couriers:
        """Return what sends to the other slices, over this socket of the router."""
        others = set(range(1, fleet.slices + 1)) - {fleet.slice}
        couriers = Couriers(self.broker.moves.remote, self.turn, mail, sorted(others))
        self.turn.send_mail = couriers.send
        return couriers

    @property
    def config(self) -> Config:
        """The configuration in force. A setting that no reload applies has its value of the start.
        """
        return self.policies.config

    # -- the life of the process -------------------------------------------------------------

    async def run(self) -> None:
        """Start, serve until asked to end, and end; raise StartError."""
        try:
            await self.start()
        except StartError as error:
            if not self.membership.is_fenced:
                raise
            log.warning("%s", error)
            await self.stop()
            return
        try:
            await self._ending.wait()
        finally:
            began, failed = self.elapsed(), failed_journals(self.broker)
            await self.stop()
            why = (self._why_stopped or "a bug") + failed
            level = logging.WARNING if failed or not self._why_stopped else logging.INFO
            log.log(level, "stopped: %s; it took %.0f ms", why, (self.elapsed() - began) * 1000)

    async def start(self) -> None:
        """Lock the directory, recover its queues, listen. In a fleet listen and wait before."""
        self._share_files()
        if self.membership.is_fleet:
            self._take_signals()
            await self._listen()
            self._start_task(self._supervisor.keep_alive())
            if self._router_watch is not None:
                self._start_task(self._router_watch.run())
            if not await self.membership.stand_by(self._ending):
                return
        return_large_memory()
        prolonging = self._loop.create_task(self._supervisor.prolong_start())
        with collector_paused():
            began = self.elapsed()
            found, sync_ms = await self._recover_unless_ending()
            self.recovery_seconds = self.elapsed() - began
            for note in found.notes + self.policies.notes(self.broker):
                log.warning("%s", note)
            for damage in found.damages:
                log.error("%s", damage.sentence())
            self._note_damage(found.damages)
            try:
                if not self.membership.is_fleet:
                    await self._listen()
            except (Exception, asyncio.CancelledError):
                await self.stop()
                raise
            tune_interpreter()
        self._take_signals()
        for each in (self.membership.watch(), self._sweep().run(), self._parts.heart.run()):
            self._start_task(each)
        broker, turn = self.broker, self.turn
        watch = DirectoryWatch(self.directory, broker, turn.files.written, turn.lose_all, turn.lose)
        for each in (watch.run(), self.journal_jobs.check_bodies(found.unchecked)):
            self._start_task(each)
        self._start_task(name_what_is_open(self._files, self.directory.path))
        self.schedules.put_in_force(self.config, clock.now_ms())
        for queue in self.broker.logged:
            if not isinstance(queue.log, JournalLog):
                continue
            self.journal_jobs.idle.watch(queue.log)
            if queue.log.journal.segment_list.replaced:
                # The crash came before these segments were archived or removed.
                self.turn.retire_segments(queue.log)
        if self._couriers is not None:
            self._couriers.start(self.broker.server_id)
        self.turn.schedule()  # the ready items are read before the first request for them
        self.membership.open()
        prolonging.cancel()
        self._supervisor.ready(f"ready: {found.queues} queues, {found.items} items")
        if not self.membership.is_fleet:  # it does so already
            self._start_task(self._supervisor.keep_alive())
        self.actions.note(OPERATOR, "start", clock.now_ms(), note=f"version {self.version}")
        self._say(
            f"ready: data in {self.directory.path}, {found.queues} queues, {found.items} items, "
            f"{sync_call_name()} takes "
            + (f"{sync_ms:.2f} ms" if sync_ms else "a time unknown, the disk is full")
            + f", {KIND}"
        )

    def _take_signals(self) -> None:
        for number in HEEDED:
            self._loop.add_signal_handler(number, self.heed, number)

    def heed(self, number: int) -> None:
        """Do what one of the signals HEEDED asks for."""
        if number == signal.SIGHUP:
            self.reload(f"{OPERATOR} by SIGHUP")
        else:
            self._end_by(signal.Signals(number).name)

    def _say_standby(self, sentence: str) -> None:
        self._say(sentence)
        self._supervisor.waits(sentence)

    def _note_closed(self, why: str, owner_address: str = "") -> None:
        """Serve no client, for this reason; "": serve. Replies that are on their way wait."""
        self.closed, self.owner_address = why, owner_address
        for connection in self._connections if why else ():
            if connection.conversation is not None:
                connection.conversation.note_closed()

    async def _recover_unless_ending(self) -> tuple[RecoveredDirectory, float]:
        """Recover the directory. Raise StartError if a member is to end and its engine does not
        answer soon: it may never do."""
        if not self.membership.is_fleet:
            return await self._recover()
        try:
            return await until_ending(self._recover(), self._ending, SILENT_CLOSE_SECONDS)
        except TookTooLong:
            raise StartError(
                f"{self.directory.path}: told to end before all was read ({self._why_stopped})"
            ) from None

    async def _recover(self) -> tuple[RecoveredDirectory, float]:
        """Lock the directory and recover it; return the result, and the time of a sync."""
        self.committer.syncs.took_us = self.broker.counters.sync_us
        try:
            await wrap(self._lock)()
            self.server_id = self.directory.server_id
            self.broker.server_id = self.server_id.encode()
            now_ms = clock.now_ms()
            unix_ms = now_ms + self.broker.clock.offset_ms
            fill = wrap(recover)
            found, sync_ms = await both(
                lambda: fill(self.directory, self.broker, self._parts.dirty, now_ms, unix_ms),
                wrap(self.directory.measure_sync),
                at_once=self.membership.is_fleet,  # several commits; recovery needs none
            )
            refuse_at_start(self.policies, self.broker)
            return found, sync_ms
        except (JournalError, ConfigError, OSError) as error:
            self.directory.unlock()
            raise StartError(why_not_opened(error, self.directory.path)) from error

    def _lock(self) -> None:
        """Lock the directory, unless its queues are in other slices: `fleet reslice` may be at work
        in it until it is locked. Raise StartError, JournalError or OSError. Blocks."""
        self._refuse_other_slices()
        self.directory.lock()
        try:
            self._refuse_other_slices()
        except StartError:
            self.directory.unlock()
            raise

    def _refuse_other_slices(self) -> None:
        if why := why_of_other_slices(self.config):
            raise StartError(f"[server] data_dir {self.config.server.data_dir}: {why}")

    async def _listen(self) -> None:
        """Listen; raise StartError with one sentence."""
        server, most = self.config.server, self._shares.own // 2
        # As many connections as may come at once and be refused without effect on the journals.
        try:
            handed = self._supervisor.sockets()
            self._handed = handed
            await refuse_unservable(self.config, handed)
            await in_time(partial(self.tls.begin, server))
            tls = self.tls.context
            listeners = self._listeners = Listeners(
                self._new_connection, max(min(BACKLOG, most), 1), tls
            )
            if handed:
                lines = await listeners.take_over(handed)
                if not any(name == "text" for name, _ in handed):
                    lines += await listeners.listen_text(server.host, server.text_port)
            else:
                lines = await listeners.listen(
                    server.host, server.port, server.socket, server.text_port
                )
            if path := self._supervisor.slice_channels:
                await listeners.listen_channels(path)
            if path := self._supervisor.slice_http:
                await self._http.listen_unix(serving(self, ()), path)
            elif server.http_port is not None:
                web = serving(self, server.http_allowed_hosts)
                lines += await self._http.listen(web, server.http_host, server.http_port, tls)
            for line in lines:
                self._say(line)
        except (BadInheritance, CannotListen, ConfigError, Unservable) as error:
            raise StartError(str(error)) from error

    async def stop(self) -> None:
        """Answer the requests in flight, and close every journal cleanly."""
        self.is_leaving = True
        self._supervisor.stopping()
        self._listeners.close()
        self._http.close()
        for task in list(self._tasks):
            task.cancel()
        for connection in list(self._connections):
            connection.leave()
        deadline = self._loop.time() + DRAIN_SECONDS
        while self._loop.time() < deadline and not self.membership.is_fenced:
            is_empty = not self._connections and self._http.is_empty
            if is_empty and not self.broker.gone_holders.holders:
                break
            await asyncio.sleep(0.01)
        self._abort_all()
        self.journal_jobs.close()
        await self.committer.drain(DRAIN_SECONDS)
        self.turn.stop()
        try:
            if not self.membership.is_fenced:
                close = partial(close_journals, self.broker, self._parts.heart)
                is_silent = not self.membership.may_answer()
                await run_aside(close, SILENT_CLOSE_SECONDS if is_silent else CLOSE_SECONDS)
        except TookTooLong:
            log.error("%s: the disk does not answer: not all is closed", self.directory.path)
        self.directory.unlock()
        await self.membership.release()
        self.logins.close()
        self._listeners.remove_socket()
        await self._listeners.end_channels()

    def _abort_all(self) -> None:
        if self._couriers is not None:
            self._couriers.close()
        for connection in list(self._connections):
            connection.abort()
        self._http.abort()

    # -- connections ------------------------------------------------------------------------

    def _new_connection(self, wire: Wire) -> Connection:
        return Connection(self, wire)

    def admit(self, connection: Connection) -> bool:
        """Return whether the connection may stay."""
        counters = self.broker.counters
        connection.number = self._new_number()
        most, _ = self._connections_max
        if connection.is_local:
            most += self._shares.reserved
        if self.is_leaving or len(self._connections) + self._http.connections >= most:
            return False
        self._connections.add(connection)
        counters.connections = len(self._connections)
        return True

    @property
    def _connections_max(self) -> tuple[int, int]:
        """How many connections there may be, and so many that HTTP has its part of them."""
        most = self._shares.connections
        if self._supervisor.slice_channels:  # clients of memcache take no descriptors
            return self.config.server.max_connections, most * HTTP_PART
        return most, most

    def _new_number(self) -> int:
        counters = self.broker.counters
        counters.connections_total += 1
        return counters.connections_total

    @property
    def refuse_targets(self) -> Callable[[bytes, bytes, bytes, str | None], None]:
        """Refuses declared settings that send items to a queue that the user may not write."""
        return self.policies.refuse_targets

    @property
    def http_port(self) -> int | None:
        """The port of HTTP; None: it is off."""
        return self._http.port

    @property
    def listening(self) -> Listening | None:
        """Where the memcache port listens; None: it listens on a Unix socket alone."""
        server, address = self.config.server, self._listeners.address
        if address is None:
            return None
        return Listening(*address, server.tls_cert is not None, server.tls_client_ca is not None)

    @property
    def http_connections(self) -> int:
        """The number of connections of HTTP."""
        return self._http.connections

    def connection_facts(self, after: int, most: int, now_ms: int) -> list[ConnectionFacts]:
        """Return the connections with a number above `after`, in order, `most` at most."""
        every: list[Connection | HttpConnection] = [*self._connections, *self._http.connected()]
        some = nsmallest(
            most, (each for each in every if each.number > after), key=attrgetter("number")
        )
        return [found for each in some if (found := each.facts(now_ms)) is not None]

    def close_connection(self, number: int) -> bool:
        """Close this connection at once; return False if there is none."""
        for connection in self._connections:
            if connection.number == number:
                connection.abort()
                return True
        return self._http.close_connection(number)

    async def disk_free_bytes(self) -> int | None:
        """Return the free bytes of the disk with the data; None: they cannot be known now."""
        try:
            return await wrap(self._files.free)(str(self.directory.path))
        except OSError:
            return None

    async def last_backup_ms(self) -> int | None:
        """Return when the last backup of the data was finished; None: nothing says it."""
        return await wrap(last_backup_ms)(self._files, str(self.directory.path))

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection that is gone."""
        self._connections.discard(connection)
        self.broker.counters.connections = len(self._connections)

    def _sweep(self) -> ConnectionSweep:
        return ConnectionSweep(
            self.broker, self.memory, self._connections,
            lambda: self.config.server.idle_timeout_ms, self.log_limit,
        )  # fmt: skip

    # -- the host of conversations ----------------------------------------------------------

    def now_ms(self) -> int:
        """Return milliseconds on a clock that never steps."""
        return clock.now_ms()

    @property
    def server_settings(self) -> ServerConfig:
        """The settings of the server that are in force."""
        return self.config.server

    def set_mode(self, mode: str) -> None:
        """Set the mode: up, readonly or quiescent."""
        if mode != self.mode:
            self._log(logging.INFO, "status", f"status {mode}")
        self.mode = mode
        self.turn.put_in_force(mode)

    def shutdown(self, why: str) -> None:
        """Drain and end the process; the log says why."""
        self._why_stopped = self._why_stopped or why
        self._ending.set()

    def _end_by(self, signal_name: str) -> None:
        self.actions.note(f"{OPERATOR} by {signal_name}", "drain", clock.now_ms())
        self.membership.must_end = True
        self.shutdown(signal_name)

    def _end_by_router(self, why: str) -> None:
        self.membership.must_end = True
        self.shutdown(why)

    def reload(self, who: str) -> Gate:
        """Read the configuration again: all of it comes into force, or nothing.

        Reloads run one at a time; requests during one share the next.
        """
        gate, self._next_reload = self._next_reload, self._next_reload or Gate()
        if gate is None:
            gate = self._next_reload
            self._start_task(self._reload(who))
        return gate

    async def _reload(self, who: str) -> None:
        async with self._reloading:
            gate, self._next_reload = self._next_reload, None
            assert gate is not None
            self._supervisor.reloading()
            status = "configuration reloaded"
            try:
                await self._take_configuration(await in_time(self._load), who)
            except ConfigError as error:
                text = f"configuration not reloaded: {error}"
                self._log(logging.ERROR, text, text)
                status = f"configuration not reloaded: {error.problems[0]}"
                gate.failure = ServerError(status)
            except ServerError as error:
                status, gate.failure = str(error), error
            except Exception:  # the client gets an answer in any case
                log.exception("a bug in the server")
                status = "configuration not reloaded for all: the log says why"
                gate.failure = ServerError(status)
            else:
                gate.open()
            finally:
                self._supervisor.ready(status)
            self.turn.touch_all(gate.waiting_stored)
            self.turn.schedule()

    def check_reload(self) -> Gate:
        """Check whether a reload would be refused now; change nothing."""
        gate = Gate()
        self._start_task(self._check_reload(gate))
        return gate

    async def _check_reload(self, gate: Gate) -> None:
        async with self._reloading:
            try:
                read = await in_time(self._load)
                reload, _ = await self._checked(read, read.begun_as(self.config))
                while not reload.would_be_taken():
                    await wrap(reload.check)()
            except ConfigError as error:
                gate.failure = ServerError(f"configuration not reloaded: {error.problems[0]}")
            except Exception:  # the client gets an answer in any case
                log.exception("a bug in the server")
                gate.failure = ServerError("configuration not reloaded: the log says why")
            else:
                gate.open()
            self.turn.touch_all(gate.waiting_stored)
            self.turn.schedule()

    async def _checked(self, read: Config, config: Config) -> tuple[Reload, TlsFiles | None]:
        """Return a reload that passed its check on a thread, and the files of TLS. Raise
        ConfigError."""
        try:
            await refuse_exposed(config, self._handed)
            tls_files = await in_time(partial(self.tls.check, read.server))
        except Exposed as error:
            raise ConfigError([f"{error}."]) from None
        reload = Reload(self.policies, self.broker, config)
        await wrap(reload.check)()
        return reload, tls_files

    async def _take_configuration(self, read: Config, who: str) -> None:
        """Put this configuration in force, except settings that only a start applies.

        Raise ConfigError if nothing has changed. Raise ServerError if the configuration is in
        force, but not for every queue.
        """
        config = read.begun_as(self.config)
        reload, tls_files = await self._checked(read, config)
        while not reload.take():
            await wrap(reload.check)()
        self._limit()
        revocation = Revocation(self.turn.touch)
        revocation.bar((each.conversation for each in self._connections), self._http.calls())
        while not revocation.go_on(clock.now_ms()):
            self.turn.schedule()
            await asyncio.sleep(0)
        self.tls.renew(tls_files)
        self._share_files()
        self.broker.queues_max = config.server.max_queues
        while not reload.go_on(clock.now_ms()):
            self.turn.schedule()
            await asyncio.sleep(0)
        self.schedules.put_in_force(config, clock.now_ms())
        self._taken(config)
        await wrap(reload.free)()
        self._log(logging.INFO, "reload", "configuration reloaded")
        note = reload.changed
        if later := ", ".join(changed_settings(config, read)):
            text = f"{later}: applied at the next start, not by a reload"
            self._log(logging.WARNING, text, text)
            note += f"; {text}"
        self.actions.note(who, "reload", clock.now_ms(), note=note)
        if reload.failed:
            raise ServerError(left_out(reload.failed))

    def _share_files(self) -> None:
        """Share out the available descriptors; warn if that leaves fewer connections."""
        server = self.config.server
        wanted, queues = server.max_connections, server.max_queues
        if has_channels := self._supervisor.slice_channels:
            wanted = max(wanted // HTTP_PART, 1)
        shares = self._shares = share(raise_file_limit(wanted, queues), wanted, queues)
        self.turn.files.most = shares.journals
        line = "" if has_channels else shares.lowered(wanted)  # its router says what clients see
        if line and line != self._lowered:
            log.warning("%s", line)
        self._lowered = line

    def _limit(self) -> None:
        """Apply the limits for all queues together."""
        server = self.config.server
        self.broker.memory.limit = server.max_memory_bytes
        self.logins.put_in_force(self.config)
        self.memory.change_limit(server.max_connection_memory_bytes)
        self.committer.reserve_bytes = self.directory.reserve_bytes = server.min_disk_free_bytes

    def _wake(self, caller: Caller) -> None:
        self.turn.touch(caller)
        self.turn.schedule()

    def _log(self, level: int, key: str, text: str) -> None:
        """Log a line that a client can provoke."""
        end = self.log_limit.take(key, clock.now_ms())
        if end is not None:
            log.log(level, "%s%s", text, end)

    def _note_damage(self, damages: list[Damage]) -> None:
        self.damage.note(damages, clock.now_ms())

    def _start_task(self, work: Coroutine[object, object, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
