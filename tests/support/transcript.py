"""Conversations as text files, acted out against a broker, real journals and a hand-moved clock.

    == a title                  a new scene: an empty server
    # a remark
    a> set jobs 0 0 5 | hello   client a sends lines (" | " is a line end, a last one is added)
    a>> set jobs 0 0 5\\nhello\\n bytes as they stand, with Python's escapes and no end added
    a< STORED                   all that a has been sent since the last time, exactly
    a<                          ... nothing
    a<* STAT curr_items 1       these lines are among what was sent
    a< ERROR | (closed)         ... and then the server hung up
    !a                          a hangs up
    ~ 31s                       time passes; what comes due on the way happens on the way
    = queue max_items=2         settings of all queues, `= queue jobs max_items=2` of one
    = server max_open_reads=2   settings of the server
    = hold writes               nothing is written until `= go`; `= hold syncs`: nothing synced
    = write   = sync   = go     one write, one sync by hand; as always from now on
    = fail write|sync [FOLDER]  the disk refuses from now on, `= mend`: no more
    = end a                     a says no more but still listens (half-closed)
    = stop reading a            a reads nothing, `= read a`: again
    = restart | kill | power cut    the server comes back, connections are gone

`{x*70000}` is 70,000 times x, `(empty)` an empty line, `|` without blanks around it itself.

One rule: a scene is the same however its bytes arrive: whole, byte by byte, or cut at random.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

from journal.errors import JournalFailed
from journal.journal import Sizes
from kestrelpy.config import Config
from kestrelpy.core.broker import Broker
from kestrelpy.core.log import JournalLog, Log, NullLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue import Queue
from kestrelpy.core.wall import Wall
from kestrelpy.durations import parse_duration_ms
from kestrelpy.errors import ServerError
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.memcache import Lines
from kestrelpy.protocol.replies import Gate
from kestrelpy.server.daemon import policy_of
from kestrelpy.server.data_directory import DataDirectory
from tests.support.memory_disk import Fault, MemoryDisk

WAYS: Final = ("whole", "bytes", "random")
WALL_MS: Final = 1_700_000_000_000  # at the first moment of every scene
_ROUNDS_MAX: Final = 10_000
_SIZES: Final = Sizes(64 << 10, 1 << 20, 4 << 20)


class Client:
    """One connection: what it was sent, and whether it still is one."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.sent = bytearray()
        self.closed = False

    def take(self) -> bytes:
        """What it was sent since the last time."""
        data = bytes(self.sent)
        self.sent.clear()
        return data


class Stage:
    """A server without sockets, threads or time. It is the host of its conversations."""

    version = "0.0.0"

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.disk = MemoryDisk()
        self.mode = "up"
        self.shut_down = False
        self.is_leaving = False
        self.reload_failure = ""
        self.clients: dict[str, Client] = {}
        self.dirty: list[JournalLog] = []
        self.writes = True
        self.syncs = True
        self._settings: dict[str, Any] = {}
        self._named: dict[str, dict[str, Any]] = {}
        self._server: dict[str, Any] = {}
        self._gates: dict[Queue, Gate] = {}
        self._removing: list[Queue] = []
        self._configure()
        self._start()

    # -- the host of conversations ----------------------------------------------------------

    @property
    def allow_delete(self) -> bool:
        return self.config.server.allow_delete

    @property
    def allow_shutdown(self) -> bool:
        return self.config.server.allow_shutdown

    @property
    def max_open_reads(self) -> int:
        return self.config.server.max_open_reads

    def reload(self) -> Gate:
        gate = Gate()
        if self.reload_failure:
            gate.failure = ServerError(self.reload_failure)
        else:
            gate.open()
        return gate

    def shutdown(self) -> None:
        self.shut_down = True

    def removal(self, queue: Queue) -> Gate:
        gate = self._gates[queue] = Gate()
        return gate

    def set_mode(self, mode: str) -> None:
        self.mode = mode

    # -- settings ---------------------------------------------------------------------------

    def set_queue(self, name: str = "", **settings: Any) -> None:
        """Other settings, as after a reload: of one queue, or of all."""
        (self._named.setdefault(name, {}) if name else self._settings).update(settings)
        self._configure()
        for queue in self.broker.queues.values():
            queue.set_policy(self._policy_of(queue.name), self.now_ms)

    def set_server(self, **settings: Any) -> None:
        """Other settings of the server."""
        self._server.update(settings)
        self._configure()

    def _configure(self) -> None:
        self.config = Config.model_validate(
            {"server": self._server, "queue_defaults": self._settings, "queues": self._named}
        )

    def _policy_of(self, name: bytes) -> Policy:
        return policy_of(self.config.queue(name))

    # -- beginning and end ------------------------------------------------------------------

    def _start(self) -> None:
        self.dirty.clear()
        self.lines: Lines = {}
        wall = Wall(WALL_MS - 1_000_000)
        self.broker = Broker(self._policy_of, self._make_log, wall, self.config.server.max_queues)
        self.directory = DataDirectory(self.disk, "data", _SIZES)
        self.directory.lock()
        self.started_ms = self.now_ms
        self.server_id = self.directory.server_id
        self.directory.recover(self.broker, self.dirty, self.now_ms, self.wall_ms)

    def _make_log(self, queue: Queue) -> Log:
        if not queue.policy.durable:
            return NullLog()
        return self.directory.new_log(queue, self.dirty)

    def restart(self) -> None:
        """An orderly end, and a start."""
        self.is_leaving = True
        for client in self.clients.values():
            client.conversation.leave()
        self.work()
        self.is_leaving = False
        for queue in self.broker.queues.values():
            if isinstance(queue.log, JournalLog):
                queue.log.journal.close(self.wall_ms)
        self.directory.unlock()
        self._come_back()

    def kill(self) -> None:
        """`kill -9`: what was written is there."""
        self.disk = self.disk.kill_clone()
        self._come_back()

    def cut_power(self) -> None:
        """What was synced is there, nothing else."""
        self.disk = self.disk.crash_clone(Random(0), "lost")
        self._come_back()

    def _come_back(self) -> None:
        for client in self.clients.values():
            client.closed = True
            assert not client.sent, f"unheard: {client.take()!r}"
        self.clients.clear()
        self.writes = self.syncs = True
        self._start()

    # -- clients ----------------------------------------------------------------------------

    def client(self, name: str) -> Client:
        """The connection of that name; a new one if it has none."""
        client = self.clients.get(name)
        if client is None:
            conversation = Conversation(self.broker, self, name, self.lines, self.now_ms)
            client = self.clients[name] = Client(conversation)
        return client

    def send(self, name: str, data: bytes) -> None:
        """Bytes arrive, and a turn goes by."""
        client = self.client(name)
        if not client.closed:
            client.conversation.feed(data, self.now_ms)
            self.work()

    def say(self, name: str, *lines: bytes) -> bytes:
        """Send lines; all that came back."""
        self.send(name, b"".join(line + b"\r\n" for line in lines))
        return self.client(name).take()

    def hang_up(self, name: str) -> None:
        """The client is gone."""
        client = self.clients.pop(name)
        if not client.closed:
            client.conversation.hang_up(self.now_ms)
        self.work()

    def end(self, name: str) -> None:
        """The client says no more."""
        self.client(name).conversation.hear_end(self.now_ms)
        self.work()

    # -- the turn ---------------------------------------------------------------------------

    @property
    def wall_ms(self) -> int:
        return self.now_ms + self.broker.wall.offset_ms

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
        for waiter in broker.take_woken():
            conversation = waiter.conversation
            assert isinstance(conversation, Conversation)
            conversation.resume(waiter, self.now_ms)
            moved = True
        self._removing += broker.deleted
        broker.deleted.clear()
        if self.writes:
            moved |= self.write()
        if self.syncs:
            moved |= self.sync()
        self._removing = [queue for queue in self._removing if not self._remove(queue)]
        for client in list(self.clients.values()):
            moved |= self._speak(client)
        return moved

    def write(self) -> bool:
        """One write of every journal that has something to write; was there one?"""
        dirty = self.dirty[:]
        self.dirty.clear()
        for log in dirty:
            log.cleaned()
            log.journal.write(self.wall_ms)
            while log.journal.wants_spare:
                order = log.journal.order_spare(self.wall_ms)
                log.journal.spare_ready(order, order.prepare(self.disk))
                log.journal.write(self.wall_ms)
            log.advance()
            if log.journal.can_write:
                log.mark()
        return bool(dirty)

    def sync(self) -> bool:
        """One sync of every journal that was written to; was there one?"""
        synced = False
        for queue in [*self.broker.queues.values(), *self._removing]:
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
            if log.failure is None and log.lsn_stored < log.lsn_appended:
                self._gates[queue] = gate
                return False
            log.journal.commit.fail(JournalFailed("the queue was deleted"))
            log.advance()
            log.journal.abandon()
            self.directory.remove(self.directory.folder(queue))
        gate.open()
        return True

    def _speak(self, client: Client) -> bool:
        conversation = client.conversation
        if client.closed or conversation.paused:
            return False
        streams = conversation.stream is not None
        data = conversation.output(self.now_ms)
        client.sent += data
        more = conversation.has_more or streams
        if more:
            conversation.run(self.now_ms)
        if conversation.is_finished:
            client.closed = True
            if not self.is_leaving:
                conversation.hang_up(self.now_ms)
            return True
        return more or bool(data)

    def hold_writes(self) -> None:
        """Nothing is written, and so nothing synced, until `go`."""
        self.writes = self.syncs = False

    def hold_syncs(self) -> None:
        """Nothing is synced until `go`."""
        self.syncs = False

    def write_once(self) -> None:
        """One write by hand, and what comes of it."""
        self.write()
        self.work()

    def sync_once(self) -> None:
        """One sync by hand, and what comes of it."""
        self.sync()
        self.work()

    def go(self) -> None:
        """As always from now on."""
        self.writes = self.syncs = True
        self.work()

    def pass_time(self, ms: int) -> None:
        """Time passes, and what comes due on the way happens on the way."""
        end = self.now_ms + ms
        while (due := self.broker.next_due()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.work()
        self.now_ms = end
        self.work()


# -- the text -------------------------------------------------------------------------------


@dataclass
class Scene:
    """One scene of a file."""

    file: str
    title: str
    steps: list[tuple[int, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.file}: {self.title}"


def read_scenes(folder: Path) -> Iterator[Scene]:
    """All scenes of all files in `folder`."""
    for path in sorted(folder.glob("*.txt")):
        scene: Scene | None = None
        for number, line in enumerate(path.read_text("ascii").splitlines(), 1):
            if line.startswith("== "):
                if scene is not None:
                    yield scene
                scene = Scene(path.stem, line[3:].strip())
            elif line.strip() and not line.startswith("#"):
                assert scene is not None, f"{path}:{number}: a scene begins with a title, =="
                scene.steps.append((number, line))
        if scene is not None:
            yield scene


def act(scene: Scene, way: str, seed: int) -> Stage:
    """Act the scene out; raises AssertionError naming the line."""
    random = Random(seed)
    stage = Stage()
    told = (0, "", b"")
    for number, line in scene.steps:
        at = f"{scene.file}.txt:{number} ({way}, seed {seed})\n    {line}\n"
        sends = re.fullmatch(r"([a-z])>(>?) ?(.*)", line)
        if sends and told[1] == sends[1]:
            told = (number, sends[1], told[2] + _sent(sends[3], bool(sends[2])))
            continue
        if told[1]:
            _deliver(stage, told[1], told[2], way, random)
        told = (0, "", b"")
        if sends:
            waiting = stage.clients.get(sends[1])
            assert waiting is None or not waiting.sent, f"{at}    unexpected: {waiting.sent!r}"
            told = (number, sends[1], _sent(sends[3], bool(sends[2])))
        elif hears := re.fullmatch(r"([a-z])<(\*?)(?: (.*))?", line):
            _hear(stage, hears[1], bool(hears[2]), hears[3] or "", at)
        elif line.startswith("!"):
            stage.hang_up(line[1:].strip())
        elif line.startswith("~ "):
            stage.pass_time(parse_duration_ms(line[2:].strip()))
        elif line.startswith("= "):
            _direct(stage, line[2:].strip(), at)
        else:
            raise AssertionError(f"{at}    is no line of a transcript")
    if told[1]:
        _deliver(stage, told[1], told[2], way, random)
    for name, client in stage.clients.items():
        assert not client.sent, f"{scene}: at the end {name} was sent {client.take()!r}"
    return stage


def _deliver(stage: Stage, name: str, data: bytes, way: str, random: Random) -> None:
    at = 0
    while at < len(data):
        size = {"whole": len(data), "bytes": 1}.get(way) or random.choice((1, 2, 3, 7, 50, 5000))
        piece = data[at : at + size]
        at += size
        client = stage.client(name)
        if client.closed:
            return
        client.conversation.feed(piece, stage.now_ms)
        if size > 1 or piece == b"\n" or at >= len(data):
            stage.work()


def _hear(stage: Stage, name: str, among: bool, text: str, at: str) -> None:
    client = stage.clients.get(name)
    sent = client.take() if client is not None else b""
    closed = client is not None and client.closed
    parts = text.split(" | ") if text else []
    said_closed = parts[-1:] == ["(closed)"]
    if said_closed:
        parts.pop()
    expected = _lines(parts)
    if among:
        lines = sent.split(b"\r\n")
        for line in expected.split(b"\r\n")[:-1]:
            assert line in lines, f"{at}    not there: {line!r}\n    in: {sent!r}"
    else:
        assert sent == expected, f"{at}    was: {_shown(sent)}"
    assert closed == said_closed, f"{at}    {'closed' if closed else 'not closed'}"


def _direct(stage: Stage, text: str, at: str) -> None:
    verb, _, rest = text.partition(" ")
    words = rest.split()
    if verb in ("queue", "server"):
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        settings = {key: _setting(value) for key, value in pairs.items()}
        names = [word for word in words if "=" not in word]
        if verb == "server":
            stage.set_server(**settings)
        else:
            stage.set_queue(*names, **settings)
        return
    if verb == "reload":
        stage.reload_failure = rest.removeprefix("fails: ")
        return
    if verb == "fail":
        path = f"*/{words[1]}/*.segment" if words[1:] else "*.segment"
        stage.disk.faults.append(Fault(words[0], path, times=1_000_000))
        return
    directions = {
        "hold writes": stage.hold_writes,
        "hold syncs": stage.hold_syncs,
        "write": stage.write_once,
        "sync": stage.sync_once,
        "go": stage.go,
        "mend": stage.disk.faults.clear,
        "restart": stage.restart,
        "kill": stage.kill,
        "power cut": stage.cut_power,
    }
    if text in directions:
        directions[text]()
    elif verb == "end":
        stage.end(rest)
    elif text.startswith("stop reading "):
        stage.client(words[-1]).conversation.paused = True
    elif verb == "read":
        stage.client(rest).conversation.paused = False
        stage.work()
    else:
        raise AssertionError(f"{at}    is no direction")


def _sent(text: str, raw: bool) -> bytes:
    return _bytes(text) if raw else _lines(text.split(" | "))


def _lines(parts: list[str]) -> bytes:
    return b"".join((b"" if part == "(empty)" else _bytes(part)) + b"\r\n" for part in parts)


def _bytes(text: str) -> bytes:
    text = re.sub(r"\{(.+?)\*(\d+)\}", lambda m: m[1] * int(m[2]), text)
    return text.encode("ascii").decode("unicode_escape").encode("latin-1")


def _setting(value: str) -> Any:
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.isdigit() else value


def _shown(data: bytes) -> str:
    text = data.decode("latin-1").removesuffix("\r\n").replace("\r\n", " | ")
    return repr(text if len(text) < 2000 else text[:2000] + "...")
