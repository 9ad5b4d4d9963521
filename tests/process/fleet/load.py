"""Clients of a fleet that go on over every takeover, and write down what they were told.

    producers ──set──▶ jobs (some with a delay), keyed (six keys), once (with ids)
    workers   ◀─open── by connection, in one trip, by token ──confirm──▶

A client asks the member that serves; a request without an answer is in doubt. An impatient client
leaves its connection after a second and asks the other member; a patient one waits.

One rule: an answer is written down under the lock before anything follows from it.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from tests.support.daemon import DaemonProcess

JOIN_SECONDS: Final = 120.0
PATIENT_SECONDS: Final = 100.0
IMPATIENT_SECONDS: Final = 1.0
PAUSE_SECONDS: Final = 0.02
LEASE_SECONDS: Final = 20.0
BACKLOG_MAX: Final = 400  # items that are stored and not confirmed: then a producer waits
KEYS: Final = 6
QUEUES: Final = ("jobs", "keyed", "once")


class Unanswered(Exception):
    """Nobody knows whether the request was done."""


class NotDone(Exception):
    """The request was refused by a standby."""


class Hold(NamedTuple):
    """A worker that works on an item of a key."""

    body: bytes
    member: DaemonProcess
    life: int  # of the member, in which it was handed out
    until_s: float  # of a lease by token; inf: by connection


class Overlap(NamedTuple):
    """Two workers on one key."""

    first: Hold
    second: Hold
    is_allowed: bool


class Members(Protocol):
    """The members that clients ask."""

    members: dict[str, DaemonProcess]

    def other(self, member: DaemonProcess) -> DaemonProcess:
        """Return the member to ask after this one."""


class Books:
    """The answers that all clients had."""

    def __init__(self, pair: Members) -> None:
        self.pair = pair
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.sent: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.in_doubt: set[bytes] = set()  # a confirm was sent and its answer lost
        self.seen: Counter[bytes] = Counter()
        self.wrong: list[str] = []
        self.held: dict[str, Hold] = {}
        self.overlaps: list[Overlap] = []
        self.life_numbers: Counter[str] = Counter()
        self.lost_life_s = 0.0  # when an owner was killed or stopped
        self.woke_s = 0.0
        self.superseded = ""  # the member that must not answer
        self.late: list[str] = []  # the answers that it gave all the same
        self.first_stored_s = 0.0
        self.waits_for: DaemonProcess | None = None
        self.left: list[tuple[DaemonProcess, socket.socket]] = []

    def ends(self, member: DaemonProcess) -> None:
        """This owner is about to be killed or stopped."""
        with self.lock:
            self.life_numbers[member.data_dir.name] += 1
            self.first_stored_s = 0.0
            self.waits_for = self.pair.other(member)
            self.lost_life_s = time.monotonic()

    def answered(self, member: DaemonProcess, answer: bytes) -> None:
        """Note that a member has answered; call it with the lock."""
        now_s = time.monotonic()
        if member.data_dir.name == self.superseded and not answer.startswith(b"SERVER_ERROR"):
            self.late.append(f"{answer!r} {now_s - self.woke_s:.3f} s after it woke")
        if member is self.waits_for and answer == b"STORED":
            self.first_stored_s, self.waits_for = now_s, None

    def stored(self, body: bytes) -> None:
        """Note that an item was acknowledged; call it with the lock."""
        self.acknowledged.add(body)

    def handed_out(self, body: bytes) -> None:
        """Note that a worker was given this item."""
        with self.lock:
            if body in self.confirmed:
                self.wrong.append(f"{body!r} came again though its confirm was answered")
            if body not in self.sent and body:
                self.wrong.append(f"{body!r} was never sent")
            self.seen[body] += 1

    def takes_key(self, key: str, hold: Hold) -> None:
        """Note that a worker begins to work on a key."""
        with self.lock:
            first = self.held.get(key)
            if first is not None:
                is_over = (
                    self.life_numbers[first.member.data_dir.name] > first.life
                    if first.until_s == float("inf") else time.monotonic() >= first.until_s
                )
                self.overlaps.append(Overlap(first, hold, is_over))
            self.held[key] = hold

    def lets_key_go(self, key: str, hold: Hold) -> None:
        """Note that a worker has ended its work on a key, or knows that its lease is over."""
        with self.lock:
            if self.held.get(key) is hold:
                del self.held[key]

    @property
    def backlog(self) -> int:
        return len(self.acknowledged) - len(self.confirmed)


class Caller:
    """A client of whichever member serves."""

    def __init__(self, books: Books, patience_s: float) -> None:
        self.books = books
        self.patience_s = patience_s
        self.member: DaemonProcess = books.pair.members["a"]
        self.life = 0
        self._socket: socket.socket | None = None
        self._in = b""
        self._last = b"", 0.0  # the last request, and when it was sent

    def __str__(self) -> str:
        """Say whom it asked for what, how long ago, and whether it waits for an answer."""
        (request, sent_s), sock = self._last, self._socket
        here = "" if sock is None or sock.fileno() < 0 else f" from port {sock.getsockname()[1]}"
        return (
            f"{self.member.data_dir.name}{here}, asked {time.monotonic() - sent_s:.1f} s ago: "
            f"{request[:80]!r}"
        )

    def ask(self, request: bytes) -> tuple[bytes, bytes]:
        """Return the first line of the answer and the body in it; raise NotDone or Unanswered."""
        try:
            if self._socket is None:
                self._connect()
        except OSError:
            self._give_up()
            raise NotDone from None
        self._last = request, time.monotonic()
        try:
            assert self._socket is not None
            self._socket.sendall(request)
            line, body = self._answer()
        except TimeoutError:  # it stays open: a late answer is looked at
            self.books.left.append((self.member, self._socket))
            self._socket = None
            self._give_up()
            raise Unanswered from None
        except OSError:
            self._give_up()
            raise Unanswered from None
        with self.books.lock:
            self.books.answered(self.member, line)
        if line.startswith(b"SERVER_ERROR standby"):
            self._give_up()
            raise NotDone
        if line.startswith(b"SERVER_ERROR"):
            self._give_up()
            raise Unanswered
        return line, body

    def _connect(self) -> None:
        with self.books.lock:
            self.life = self.books.life_numbers[self.member.data_dir.name]
        self._socket = self.member.socket(self.patience_s)
        self._in = b""

    def _answer(self) -> tuple[bytes, bytes]:
        line = self._line()
        if not line.startswith(b"VALUE"):
            return line, b""
        size = int(line.split()[3])
        while len(self._in) < size + 7:
            self._more()
        body, end = self._in[:size], self._in[size : size + 7]
        assert end == b"\r\nEND\r\n", end
        self._in = self._in[size + 7 :]
        return line, body

    def _line(self) -> bytes:
        while b"\r\n" not in self._in:
            self._more()
        line, _, self._in = self._in.partition(b"\r\n")
        return line

    def _more(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(1 << 16)
        if not data:
            raise ConnectionResetError
        self._in += data

    def _give_up(self) -> None:
        """Ask the other member next."""
        self.hang_up()
        self.member = self.books.pair.other(self.member)
        time.sleep(PAUSE_SECONDS)

    def hang_up(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Client:
    """A thread that does the same again and again."""

    def __init__(self, books: Books, number: int, seed: int) -> None:
        self.books = books
        self.number = number
        self.chance = random.Random(seed * 100 + number)
        self.caller = Caller(books, PATIENT_SECONDS if number % 2 else IMPATIENT_SECONDS)
        self.count = 0

    def run(self) -> None:
        try:
            while not self.books.stopping.is_set():
                self.step()
        except BaseException as error:
            self.books.wrong.append(f"client {self.number}: {type(error).__name__}: {error}")
            raise
        finally:
            self.caller.hang_up()

    def step(self) -> None:
        raise NotImplementedError


class Producer(Client):
    """Stores items; one with ids sends each until it is told that it is stored."""

    def __init__(self, books: Books, number: int, seed: int, queue: str) -> None:
        super().__init__(books, number, seed)
        self.queue = queue

    def step(self) -> None:
        if self.is_ahead:
            time.sleep(PAUSE_SECONDS)
            return
        body = b'{"k": %d, "n": "%d:%d"}' % (
            self.chance.randrange(KEYS), self.number, self.count
        )  # fmt: skip
        self.count += 1
        delay = "/delay=500ms" if self.queue == "jobs" and self.count % 10 == 0 else ""
        name = f"{self.queue}/id={self.number}-{self.count}" if self.queue == "once" else self.queue
        request = f"set {name}{delay} 0 0 {len(body)}\r\n".encode() + body + b"\r\n"
        self.sends(body)
        while not self.books.stopping.is_set():
            try:
                line, _ = self.caller.ask(request)
            except NotDone:
                continue
            except Unanswered:
                if self.queue == "once":
                    continue
                return
            with self.books.lock:
                if line != b"STORED":
                    self.books.wrong.append(f"a set was answered {line!r}")
                self.stored(body)
            return

    @property
    def is_ahead(self) -> bool:
        """True while so much is not confirmed yet that this producer waits."""
        return self.books.backlog > BACKLOG_MAX

    def sends(self, body: bytes) -> None:
        """Note that an item is sent for the first time."""
        with self.books.lock:
            self.books.sent.add(body)

    def stored(self, body: bytes) -> None:
        """Note that an item was acknowledged; call it with the lock."""
        self.books.stored(body)


class Worker(Client):
    """Fetches by connection or by token, holds the item for a moment, and confirms it."""

    def __init__(self, books: Books, number: int, seed: int, queue: str, how: str) -> None:
        super().__init__(books, number, seed)
        self.queue = queue.encode()
        self.how = how  # "connection", "one trip", "token"

    def step(self) -> None:
        asked_s = time.monotonic()
        try:
            if self.how == "token":
                words = b"gets %b/open/lease=%ds/t=200" % (self.queue, LEASE_SECONDS)
            else:
                words = b"get %b/open/t=200" % self.queue
            line, body = self.caller.ask(words + b"\r\n")
        except (NotDone, Unanswered):
            return
        if not line.startswith(b"VALUE"):
            return
        while body:
            body = self._work(line, body, asked_s)

    def _work(self, line: bytes, body: bytes, asked_s: float) -> bytes:
        """Work on an item and confirm it; return the item that came with the confirm."""
        self.books.handed_out(body)
        key = json.loads(body)["k"] if self.queue == b"keyed" else ""
        by_token = self.how == "token"
        until_s = asked_s + LEASE_SECONDS if by_token else float("inf")
        hold = Hold(body, self.caller.member, self.caller.life, until_s)
        if key != "":
            self.books.takes_key(key, hold)
        time.sleep(self.chance.choice((0, 0, 0.005, 0.02)))
        if key != "" and self.chance.random() < 0.02:
            time.sleep(0.3)
        if key != "":  # before it says so: the next one may have the key before we hear of it
            self.books.lets_key_go(key, hold)
        if not by_token:
            return self._confirm(body)
        self._confirm_by_token(line.rsplit(b" ", 1)[1], body, until_s)
        return b""

    def _confirm(self, body: bytes) -> bytes:
        one_trip = self.how == "one trip" and not self.books.stopping.is_set()
        words = b"get %b/close%b\r\n" % (self.queue, b"/open" if one_trip else b"")
        try:
            line, following = self.caller.ask(words)
        except (NotDone, Unanswered):
            with self.books.lock:
                self.books.in_doubt.add(body)
            return b""
        with self.books.lock:
            if line == b"END" or line.startswith(b"VALUE"):
                self.books.confirmed.add(body)
            else:
                self.books.wrong.append(f"a confirm was answered {line!r}")
        return following

    def _confirm_by_token(self, token: bytes, body: bytes, until_s: float) -> None:
        """Ask until it is answered: a token is good over a takeover."""
        is_unsure = False
        while True:
            try:
                line, _ = self.caller.ask(b"delete %b/token=%b\r\n" % (self.queue, token))
            except NotDone:
                continue
            except Unanswered:
                is_unsure = True
                with self.books.lock:
                    self.books.in_doubt.add(body)
                continue
            break
        with self.books.lock:
            if line == b"DELETED":
                self.books.confirmed.add(body)
                self.books.in_doubt.discard(body)
            elif time.monotonic() >= until_s:
                self.books.in_doubt.add(body)  # its lease was over
            elif is_unsure:
                self.books.confirmed.add(body)  # by the one that was not answered
                self.books.in_doubt.discard(body)
            else:
                self.books.wrong.append(f"token {token!r} of {body!r}: {line!r}")


class Load:
    """All clients of a campaign."""

    def __init__(self, books: Books, seed: int) -> None:
        self.books = books
        makers: list[Callable[[int], Client]] = [
            partial(Producer, books, seed=seed, queue=queue)
            for queue in ("jobs", "jobs", "keyed", "keyed", "once")
        ]
        makers += [
            partial(Worker, books, seed=seed, queue=queue, how=how)
            for queue, how in (
                ("jobs", "connection"), ("jobs", "one trip"), ("jobs", "token"), ("jobs", "token"),
                ("keyed", "connection"), ("keyed", "connection"), ("keyed", "one trip"),
                ("keyed", "token"), ("keyed", "token"), ("once", "connection"), ("once", "token"),
            )
        ]
        self.clients = [make(number) for number, make in enumerate(makers)]
        self._threads = [threading.Thread(target=each.run, daemon=True) for each in self.clients]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each end what it has begun."""
        self.books.stopping.set()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))
        late = [
            f"client {client.number} ({type(client).__name__}) of {client.caller}"
            for client, thread in zip(self.clients, self._threads, strict=True) if thread.is_alive()
        ]  # fmt: skip
        assert late == [], f"clients do not end: {late}"
        for _, each in self.books.left:
            each.close()
