"""A server without sockets, threads or time.

It stands for one daemon over its restarts: `say` is a client, `kill` and `cut_power` end a process
and start the next one on the same disk.
Real: the broker, the journals, the data directory, the schedules and the conversations.
Replaced: the disk is a `MemoryDisk`, the clock is `now_ms`, and the turn of the loop is `work`.

One rule: nothing happens but in `work`, which is turns until nothing more comes of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, Final

from journal.errors import JournalFailed
from journal.write.segment_file import Sizes
from kestrelpy.config import ConfigError, ServerConfig
from kestrelpy.config.settings import Config
from kestrelpy.core import HandOff, TransferRequest
from kestrelpy.core.broker import Broker
from kestrelpy.core.clock import ClockOffset
from kestrelpy.core.log import on_disk
from kestrelpy.core.log.log import JournalLog, Log
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.core.queue.queue import Queue
from kestrelpy.errors import ServerError
from kestrelpy.operations.actions import Actions
from kestrelpy.operations.modes import put_mode_in_force
from kestrelpy.operations.ports import Work
from kestrelpy.operations.rests import Gate
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.log_limit import LogLimit
from kestrelpy.protocol.parse.parser import Lines
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.wire import wire_named
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.policies import Policies
from kestrelpy.server.reloading import Reload, put_in_force
from kestrelpy.server.restart import recover
from kestrelpy.server.schedules import Schedules, sooner
from tests.support.journals import check_times
from tests.support.memory_disk import Fate, MemoryDisk

WALL_MS: Final = 1_700_000_000_000  # at the first moment of every harness
_ROUNDS_MAX: Final = 10_000
_SIZES: Final = Sizes(64 << 10, 1 << 20, 4 << 20)


class Memory:
    """The memory of all connections: `is_short` is set by hand."""

    def __init__(self) -> None:
        self.is_short = False

    def reserve(self, talk: Talk, size: int) -> bool:
        if self.is_short:
            talk.wants_bytes = size
        return not self.is_short

    def release(self, talk: Talk) -> None:
        pass


class Client:
    """One connection: the bytes that it was sent, and whether it is closed."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.sent = bytearray()
        self.closed = False

    def take(self) -> bytes:
        """Return the bytes that it was sent since the last call."""
        data = bytes(self.sent)
        self.sent.clear()
        return data


class ServerHarness:
    """A server without sockets, threads or time. It is the host of its conversations."""

    version = "0.0.0"
    first_ms = 1_000_000  # the steady clock when the wall clock shows WALL_MS

    def __init__(
        self, disk: MemoryDisk | None = None, now_ms: int = 1_000_000, sizes: Sizes | None = None
    ) -> None:
        """Start a server from this disk, at this moment."""
        self.now_ms = now_ms
        self.disk = disk or MemoryDisk()
        self.sizes = sizes or _SIZES
        self.mode = "up"
        self.closed = self.owner_address = ""
        self.http_port: int | None = None
        self.shut_down = False
        self.is_leaving = False
        self.reload_failure = self.check_failure = ""
        self.clients: dict[str, Client] = {}
        self.on_text: set[str] = set()  # clients of these names come by the text port
        self.dirty: list[JournalLog] = []
        self.writes = True
        self.syncs = True
        self.has_room = True  # for new segments; files that are done with may be used again
        self.removes = True  # the files of deleted queues go
        self.reads = True  # what observers asked for comes at once
        self._settings: dict[str, Any] = {}
        self._named: dict[str, dict[str, Any]] = {}
        self._server: dict[str, Any] = {}
        self._schedules: dict[str, dict[str, str]] = {}
        self._aliases: dict[str, dict[str, list[str]]] = {}
        self._gates: dict[Queue, Gate] = {}
        self._removing: list[Queue] = []
        self._clearing: list[tuple[Queue, Gate]] = []
        self._observing: list[Work] = []
        self.said: list[str] = []  # lines for the log
        self.room = Memory()
        self.elapsed_s = 0.0  # on the clock of shares; a test may have each look at it take time
        self.look_s = 0.0
        self.log_limit = LogLimit()
        self.policies = Policies(Config())
        self.declaration, self.settings = self.policies.declaration, self.policies.settings
        self.refuse_targets = self.policies.refuse_targets
        self._configure()
        self._start()

    # -- the host of conversations ----------------------------------------------------------

    @property
    def server_settings(self) -> ServerConfig:
        return self.config.server

    def reload(self, who: str) -> Gate:
        gate = Gate()
        if self.reload_failure:
            gate.failure = ServerError(self.reload_failure)
        else:
            gate.open()
        return gate

    def check_reload(self) -> Gate:
        gate = Gate()
        if self.check_failure:
            gate.failure = ServerError(self.check_failure)
        else:
            gate.open()
        return gate

    def elapsed(self) -> float:
        self.elapsed_s += self.look_s
        return self.elapsed_s

    def shutdown(self, why: str) -> None:
        self.shut_down = True

    def files_gone(self, queue: Queue) -> Gate:
        gate = self._gates[queue] = Gate()
        return gate

    def earlier_files_gone(self, queue: Queue) -> Gate | None:
        if not self.broker.would_come_back(queue, self._removing):
            return None
        self._clearing.append((queue, Gate()))
        return self._clearing[-1][1]

    def set_mode(self, mode: str) -> None:
        self.mode = mode
        put_mode_in_force(self.broker, mode)

    def start_read(self, log: Log, work: Work, talk: Talk) -> None:
        self._observing.append(work)

    # -- settings ---------------------------------------------------------------------------

    def set_queue(self, name: str = "", **settings: Any) -> None:
        """Other settings, as after a reload: of one queue, or of all."""
        (self._named.setdefault(name, {}) if name else self._settings).update(settings)
        self._configure()
        put_in_force(self.policies, self.broker, self.now_ms)

    def set_server(self, **settings: Any) -> None:
        """Other settings of the server."""
        self._server.update(settings)
        self._configure()

    def set_alias(self, name: str, to: list[str]) -> None:
        """Another alias, as after a reload."""
        self._aliases[name] = {"to": to}
        self._configure()
        put_in_force(self.policies, self.broker, self.now_ms)

    def set_schedule(self, name: str, **settings: str) -> None:
        """Another schedule, as after a reload."""
        self._schedules[name] = settings
        self._configure()
        self.schedules.put_in_force(self.config, self.now_ms)
        self.work()

    def write_schedule(self, name: str, **settings: str) -> None:
        """Another schedule in the file, for the next start."""
        self._schedules[name] = settings
        self._configure()

    def drop_schedule(self, name: str) -> None:
        """The file does not have this schedule any more, as after a reload."""
        del self._schedules[name]
        self._configure()
        self.schedules.put_in_force(self.config, self.now_ms)
        self.work()

    def reload_with(
        self, queues: dict[str, dict[str, Any]], schedules: dict[str, dict[str, str]],
        meanwhile: Callable[[], None] = lambda: None,
    ) -> bool:  # fmt: skip
        """Other settings by the daemon's own reload; False: it was refused, and nothing changed.

        `meanwhile`: between its check and the moment at which it is taken.
        """
        before = copy.deepcopy(self._named), copy.deepcopy(self._schedules)
        for name, settings in queues.items():
            self._named.setdefault(name, {}).update(settings)
        self._schedules.update(schedules)
        config = self._validated()
        reload = Reload(self.policies, self.broker, config)
        try:
            reload.check()
            meanwhile()
            while not reload.take():
                reload.check()
        except ConfigError:
            self._named, self._schedules = before
            return False
        self.config = config
        while not reload.go_on(self.now_ms):
            self.work()
        assert not reload.failed, reload.failed
        self.schedules.put_in_force(config, self.now_ms)
        self.work()
        return True

    def _configure(self) -> None:
        self.policies.config = self.config = self._validated()

    def _validated(self) -> Config:
        return Config.model_validate(
            {
                "server": self._server, "queue_defaults": self._settings, "queues": self._named,
                "schedules": self._schedules, "aliases": self._aliases,
            }
        )  # fmt: skip

    # -- beginning and end ------------------------------------------------------------------

    def _start(self) -> None:
        self.dirty.clear()
        self._observing.clear()
        self.lines: Lines = {}
        wall = ClockOffset(WALL_MS - self.first_ms)
        self.broker = Broker(self.policy_of, self._make_log, wall, self.config.server.max_queues)
        self.actions = Actions(wall)
        self.begin()
        self.policies.declared_of = self.broker.declared_of
        self.policies.name_aliases(self.broker)
        self.directory = DataDirectory(self.disk, "data", self.sizes)
        self.directory.lock()
        self.started_ms = self.now_ms
        self.server_id = self.directory.server_id
        self.broker.server_id = self.server_id.encode()
        self.found = recover(
            self.directory, self.broker, self.dirty, self.now_ms, self.unix_ms
        )
        self.schedules = Schedules(self.broker, lambda: self.mode)
        self.timetable = self.schedules.timetable
        self.schedules.put_in_force(self.config, self.now_ms)

    def begin(self) -> None:
        """A broker is made, and nothing is recovered yet."""

    def policy_of(self, name: bytes, declared: bytes) -> Policy:
        """The policy of a queue with these declared settings."""
        return self.policies.of(name, declared)

    def _make_log(self, queue: Queue) -> Log:
        if not queue.policy.durable:
            return MemoryLog()
        return self.directory.new_log(queue, self.dirty)

    def restart(self) -> None:
        """End the server in order, and start it again."""
        self.is_leaving = True
        for client in self.clients.values():
            client.conversation.leave()
        self.work()
        self.is_leaving = False
        for queue in self.broker.logged:
            if isinstance(queue.log, JournalLog):
                queue.log.journal.close(self.unix_ms)
        self.directory.unlock()
        self._come_back()

    def kill(self) -> None:
        """Restart after `kill -9`: all written bytes are there, synced or not."""
        self.disk = self.disk.kill_clone()
        self._come_back()

    def cut_power(self, seed: int | None = None) -> None:
        """Restart after a power cut: synced writes are there; the rest is lost, or with a `seed` a
        random part of it."""
        fate: Fate = "lost" if seed is None else "random"
        self.disk = self.disk.crash_clone(Random(seed or 0), fate)
        self._come_back()

    def _come_back(self) -> None:
        for client in self.clients.values():
            client.closed = True
            assert not client.sent, f"unheard: {client.take()!r}"
        self.clients.clear()
        self.writes = self.syncs = True
        self._start()

    # -- clients ----------------------------------------------------------------------------

    def queue(self, name: str) -> Queue:
        """The queue of that name."""
        return self.broker.queues[name.encode()]

    def client(self, name: str) -> Client:
        """Return the connection of that name, a new one if there is none."""
        client = self.clients.get(name)
        if client is None:
            wire = wire_named("text" if name in self.on_text else "memcache")
            conversation = Conversation(self.broker, self, name, self.lines, self.now_ms, wire)
            client = self.clients[name] = Client(conversation)
        return client

    def send(self, name: str, data: bytes) -> None:
        """Bytes arrive, and a turn goes by."""
        client = self.client(name)
        if not client.closed:
            client.conversation.feed(data, self.now_ms)
            self.work()

    def say(self, name: str, *lines: bytes) -> bytes:
        """Send lines; return all answers."""
        self.send(name, b"".join(line + b"\r\n" for line in lines))
        return self.client(name).take()

    def store(self, *bodies: bytes) -> None:
        """Store these in the queue `jobs`."""
        for body in bodies:
            self.say("a", b"set jobs 0 0 %d" % len(body), body)

    def hang_up(self, name: str) -> None:
        """Hang up the connection of this client."""
        client = self.clients.pop(name)
        if not client.closed:
            client.conversation.hang_up(self.now_ms)
        self.work()

    def end(self, name: str) -> None:
        """Half-close: the client sends no more."""
        self.client(name).conversation.note_eof()
        self.work()

    # -- the turn ---------------------------------------------------------------------------

    @property
    def unix_ms(self) -> int:
        return self.now_ms + self.broker.clock.offset_ms

    def work(self) -> None:
        """Turns, until nothing more comes of them."""
        for _ in range(_ROUNDS_MAX):
            if not self._turn():
                return
        raise AssertionError("the server does not come to rest")

    def _turn(self) -> bool:
        broker, moved = self.broker, False
        due = broker.next_due()
        if due is not None and due <= self.now_ms:
            broker.tick(self.now_ms)
            moved = True
        self.schedules.look(self.now_ms)
        for waiter in broker.take_to_resume():
            conversation = waiter.caller
            assert isinstance(conversation, Conversation)
            conversation.resume(waiter, self.now_ms)
            moved = True
        if broker.moves.is_active:
            moved |= self._move()
        self._removing += broker.deleted
        broker.deleted.clear()
        if self.writes:
            moved |= self.write()
            if self.timetable.waits_for_room:  # in a daemon it looks again soon
                self.timetable.look(self.now_ms)
                moved = True
        moved |= self._read_back()
        moved |= self._serve_tokens()
        moved |= self._observe()
        if self.syncs:
            moved |= self.sync()
        if self.removes:
            for queue in self._removing[:]:
                if self._remove(queue):
                    self._removing.remove(queue)
                    moved = True  # a later one of its name may go next
        for queue, gate in self._clearing[:]:
            if not self.broker.would_come_back(queue, self._removing):
                gate.open()
                self._clearing.remove((queue, gate))
        for queue in [*broker.logged, *self._removing]:  # everybody is asked below
            queue.log.waiting_stored.clear()
            queue.log.waiting_written.clear()
        for client in list(self.clients.values()):
            moved |= self._flush_output(client)
        return moved or (self.reads and bool(self._observing))

    def _move(self) -> bool:
        """Take the next steps of transfers; return True if there were any."""
        moves = self.broker.moves
        taken = moves.advance(self.now_ms)
        self.said += moves.refusals
        moves.refusals.clear()
        for queue in moves.in_flight.take_unawaited():
            queue.log.wait_durable(queue.log.lsn_appended)
        return self.is_over(moves.take_over()) or moves.has_more or taken > 0

    def is_over(self, requests: list[TransferRequest | HandOff]) -> bool:
        """These requests are over; return True if there are any."""
        return bool(requests)

    def _read_back(self) -> bool:
        """Read back at once whatever is needed; return True if there was anything."""
        moved = False
        for reader in self.broker.take_to_read():
            backlog = reader.read_ahead
            assert backlog is not None
            target = on_disk(reader.log)
            assert target is not None
            one = target.store.one(reader.dead.sought) if reader.dead.sought else None
            record = one.run(self.disk) if one is not None else None
            if record is not None:
                reader.ready_items.revive(record)
                moved = True
            wanted = reader.ready_items.begin_fetch()
            if wanted:
                found = target.store.some(wanted).run(self.disk).records.values()
                reader.ready_items.fetched(found)
                reader.ready.disk_refs.put_back()
                moved |= bool(found)
            if reader.ready.beyond:
                made = backlog.next_read(reader.ready.frontier)
                if made is not None:
                    life, order = made
                    backlog.arrived(life, *order.run(self.disk))
                    moved = True
                reader.ready_items.refill(self.unix_ms)
            reader.serve(self.now_ms)
        return moved

    def _serve_tokens(self) -> bool:
        """Serve waiters for a lease by token that waited only for room; return True if one was."""
        served = False
        for queue in self.broker.queues.values():
            # Look at the child as it is: a lazy child must not catch up because of this look.
            reader = queue.child if isinstance(queue, ChildQueue) else queue.reader
            first = reader.waiters.first() if reader.waiters.wants_token() else None
            if first is not None and queue.log.has_lease_room():
                queue.reader.serve(self.now_ms)
                served |= reader.waiters.first() is not first
        return served

    def _observe(self) -> bool:
        """Read for the observers that asked; return True if there were any."""
        if not self.reads:
            return False
        works, self._observing = self._observing, []
        for work in works:
            work.run(self.disk)
            work.is_over = True
        return bool(works)

    def write(self) -> bool:
        """Write each journal that has pending records; return True if there was one."""
        dirty = self.dirty[:]
        self.dirty.clear()
        for log in dirty:
            log.cleaned()
            self.write_log(log)
        return bool(dirty)

    def write_log(self, log: JournalLog) -> None:
        """Do one write of this journal."""
        check_times(log.journal._pending)
        log.journal.write(self.unix_ms)
        while log.journal.wants_preallocation:
            order = log.journal.begin_preallocation(self.unix_ms)
            if not (self.has_room or order.recycle):
                log.journal.preallocation_failed(order)
                log.no_room = "disk full: no room for the next segment"
                break
            log.journal.finish_preallocation(order, order.prepare(self.disk))
            log.journal.write(self.unix_ms)
        log.advance()
        log.take_waiting_room()  # everybody is asked below
        if log.journal.can_write:
            log.mark()

    def sync(self) -> bool:
        """Sync each journal that was written to; return True if there was one."""
        synced = False
        for queue in [*self.broker.logged, *self._removing]:
            log = queue.log
            job = log.journal.begin_sync() if isinstance(log, JournalLog) else None
            if job is None or not isinstance(log, JournalLog):
                continue
            error: OSError | None = None
            try:
                job.run()
            except OSError as failed:
                error = failed
            log.journal.finish_sync(error)
            log.advance()
            synced = True
        return synced

    def _remove(self, queue: Queue) -> bool:
        """A deleted queue goes when what was stored in it has been acknowledged."""
        gate = self._gates.pop(queue, None) or Gate()
        log = queue.log
        if isinstance(log, JournalLog):
            held = self.broker.moves.in_flight.holds(queue)
            held |= self.broker.would_come_back(queue, self._removing)
            is_kept = log.failure is None and (held or log.lsn_stored < log.lsn_appended)
            if is_kept or self.broker.moves.in_flight.follows(queue):
                self._gates[queue] = gate
                return False
            log.journal.commit.fail(JournalFailed("the queue was deleted"))
            log.advance()
            log.journal.abandon()
            if self.broker.moves.in_flight.doubts(queue):
                self.broker.moves.in_flight.stays(queue)
                self.broker.end(queue)
                gate.failure = ServerError("queue was not removed from disk")
                return True
            self.directory.remove_queue(queue)
        self.broker.moves.in_flight.gone(queue, self.now_ms)
        self.broker.end(queue)
        gate.open()
        return True

    def _flush_output(self, client: Client) -> bool:
        conversation = client.conversation
        if client.closed or conversation.paused:
            return False
        if not self.room.is_short:
            conversation.wants_bytes = 0
        data = conversation.output()
        client.sent += data
        more = conversation.has_more
        if more:
            conversation.go_on(self.now_ms)
        if conversation.is_finished:
            client.closed = True
            if not self.is_leaving:
                conversation.hang_up(self.now_ms)
            return True
        return more or bool(data)

    def hold_writes(self) -> None:
        """Hold all writes, and so all syncs, until `go`."""
        self.writes = self.syncs = False

    def hold_syncs(self) -> None:
        """Hold all syncs until `go`."""
        self.syncs = False

    def write_once(self) -> None:
        """Do one write by hand, and the work that follows from it."""
        self.write()
        self.work()

    def sync_once(self) -> None:
        """Do one sync by hand, and the work that follows from it."""
        self.sync()
        self.work()

    def go(self) -> None:
        """End all holds: writes and syncs happen by themselves again."""
        self.writes = self.syncs = True
        self.work()

    def _next_due(self) -> int | None:
        return sooner(self.broker.next_due(), self.schedules.next_due())

    def pass_time(self, ms: int) -> None:
        """Time passes, and what comes due on the way happens on the way."""
        end = self.now_ms + ms
        while (due := self._next_due()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.work()
        self.now_ms = end
        self.work()
