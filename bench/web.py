"""HTTP: batches of messages, the effect of posts and scrapes on a memcache client, and the start.

    batches   20 messages a request: post, claim and delete at once, claim and delete one by one
    beside    2,000 posts a second from a process of their own, a setter on the memcache port
    scrapes   /metrics of 1,000 queues, each 1.1 s, a setter on the memcache port
    listings  /stats.json and /admin/queues of 10,000 queues, each 1.1 s, such a setter
    start     the daemon with HTTP and without: memory, time until it is ready

One rule: one connection, one request at a time; a setter is compared with the same setter alone, in
the same round.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Any, Final
from uuid import uuid4

from bench.attackers import NICE, WARM_UP_S, quantile
from bench.daemon import Daemon, Line
from bench.figures import MIB, Figure
from bench.scenarios import Bench, Goals
from bench.servers import ServerFailed, free_port

BATCH: Final = 20
POSTS_PER_SECOND: Final = 2_000
BEHIND_S: Final = 0.002  # posts that are further behind are left out
CONNECTIONS: Final = 16
QUEUES: Final = 1_000
MANY_QUEUES: Final = 10_000
SCRAPE_REST_S: Final = 1.1  # within a second two scrapes share one rendering
PAUSE_S: Final = 0.001
_HEADERS: Final = (
    "Host: localhost\r\nX-Project-ID: bench\r\n"
    f"Client-ID: {uuid4()}\r\nContent-Type: application/json\r\n"
)
_ANSWER_LIMIT_S: Final = 60.0


class HttpLine:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _ANSWER_LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._in = self._socket.makefile("rb")

    def fileno(self) -> int:
        """Return the file descriptor, for `select`."""
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        """Send a request."""
        self._socket.sendall(request)

    def ask(self, request: bytes, wanted: int) -> bytes:
        """Send a request, and return the body of its answer."""
        self.send(request)
        return self.answer(wanted)

    def answer(self, wanted: int) -> bytes:
        """Return the body of the next answer. Raise ServerFailed for another status."""
        status, size, is_chunked = self._in.readline(), 0, False
        while (line := self._in.readline()) != b"\r\n":
            if not line:
                raise ServerFailed("kestrelpy closed the connection")
            if line[:15].lower() == b"content-length:":
                size = int(line[15:])
            is_chunked |= line[:18].lower() == b"transfer-encoding:"
        body = self._chunks() if is_chunked else self._in.read(size)
        if status[9:12] != b"%d" % wanted:
            raise ServerFailed(f"{status!r} {body[:200]!r}")
        return body

    def _chunks(self) -> bytes:
        chunks = []
        while size := int(self._in.readline(), 16):
            chunks.append(self._in.read(size))
            self._in.readline()
        self._in.readline()
        return b"".join(chunks)

    def close(self) -> None:
        self._in.close()
        self._socket.close()


def request(method: str, path: str, body: object = None) -> bytes:
    """Return the bytes of a request."""
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.1\r\n{_HEADERS}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


# -- batches --------------------------------------------------------------------------------


def batches(bench: Bench) -> list[Figure]:
    """Measure messages a second over one connection; each is on disk before its answer."""
    took: dict[str, list[float]] = {"post": [], "bulk": [], "single": []}
    with _daemon(bench) as (daemon, line):
        for _ in range(bench.sizes.web_rounds):
            for name, end in (("bulk", _delete_all), ("single", _delete_each)):
                took["post"].append(_rate(bench, partial(_post, line)))
                took[name].append(_rate(bench, partial(_claim, line, end)))
        line.close()
        bench.say(f"batches: {daemon.memory_bytes() / MIB:.0f} MiB")
    where = f"HTTP, {BATCH} messages a request"
    return [
        Figure(where, "post", median(took["post"]), "/s", at_least=Goals.web_posts),
        Figure(where, "claim, delete at once", median(took["bulk"]), "/s",
               at_least=Goals.web_posts),
        Figure(where, "claim, delete one by one", median(took["single"]), "/s",
               at_least=Goals.web_singles),
    ]  # fmt: skip


def _rate(bench: Bench, once: Callable[[], None]) -> float:
    began = time.perf_counter()
    for _ in range(bench.sizes.web_batches):
        once()
    return bench.sizes.web_batches * BATCH / (time.perf_counter() - began)


_POST: Final = request(
    "POST", "/v2/queues/jobs/messages",
    {"messages": [{"ttl": 3600, "body": {"n": n, "text": "x" * 80}} for n in range(BATCH)]},
)  # fmt: skip


def _post(line: HttpLine) -> None:
    line.ask(_POST, 201)


def _claim(line: HttpLine, end: Callable[[HttpLine, list[str]], None]) -> None:
    asked = request("POST", f"/v2/queues/jobs/claims?limit={BATCH}", {"ttl": 300, "grace": 60})
    claimed: dict[str, Any] = json.loads(line.ask(asked, 201))
    hrefs = [each["href"] for each in claimed["messages"]]
    if len(hrefs) != BATCH:
        raise ServerFailed(f"a claim has {len(hrefs)} messages")
    end(line, hrefs)


def _delete_all(line: HttpLine, hrefs: list[str]) -> None:
    ids = ",".join(href.split("?")[0].rsplit("/", 1)[1] for href in hrefs)
    claim = hrefs[0].rsplit("=", 1)[1]
    path = f"/v2/queues/jobs/messages?ids={ids}&claim_ids={claim}"
    line.ask(request("DELETE", path), 204)


def _delete_each(line: HttpLine, hrefs: list[str]) -> None:
    for href in hrefs:
        line.ask(request("DELETE", href), 204)


# -- beside a setter ------------------------------------------------------------------------


def beside(bench: Bench) -> list[Figure]:
    """Measure the effect of posts on a setter."""
    with _daemon(bench) as (daemon, line):
        line.close()
        alone, during, posted = _in_turns(bench, daemon, _posts)
    where = f"a setter beside {POSTS_PER_SECOND:,} posts a second"
    added = median(b - a for a, b in zip(alone, during, strict=True))
    return [
        Figure(where, "p99 alone", median(alone), "ms"),
        Figure(where, "p99", median(during), "ms"),
        Figure(where, "p99 above alone", added, "ms", at_most=Goals.web_beside_ms),
        Figure(where, "posts made", posted, "/s"),
    ]


def scrapes(bench: Bench) -> list[Figure]:
    """Measure the effect of a scraper on a setter, and the time of one scrape."""
    with _daemon(bench) as (daemon, _):
        _make_queues(daemon, QUEUES)
        return _asked(bench, daemon, "/metrics", QUEUES)


def listings(bench: Bench) -> list[Figure]:
    """Measure the effect of a client that lists many queues on a setter, and the time of each
    answer."""
    with _daemon(bench) as (daemon, _):
        _make_queues(daemon, MANY_QUEUES - 1)  # the last one is the setter's
        return [
            figure
            for path in ("/stats.json", "/admin/queues?limit=100")
            for figure in _asked(bench, daemon, path, MANY_QUEUES)
        ]


def _make_queues(daemon: Daemon, count: int) -> None:
    """Store an item in each of `count` queues, a hundred in flight."""
    line, sets = daemon.connect(), [b"set q%05d 0 0 1\r\nx\r\n" % n for n in range(count)]
    while sets:
        line.send(b"".join(sets[-100:]))
        for _ in sets[-100:]:
            line.line()
        del sets[-100:]
    line.close()


def _asked(bench: Bench, daemon: Daemon, path: str, count: int) -> list[Figure]:
    """Return the time of an answer, and the effect of these requests on a setter."""
    line, asked, each = HttpLine(daemon.http_port or 0), request("GET", path), list[float]()
    for _ in range(max(bench.sizes.web_rounds, 3)):
        time.sleep(SCRAPE_REST_S)
        began = time.perf_counter()
        line.ask(asked, 200)
        each.append((time.perf_counter() - began) * 1000)
    line.close()
    alone, during, _ = _in_turns(bench, daemon, partial(_scrapes, path))
    where = f"{path} of {count:,} queues"
    ratio = median(b / a for a, b in zip(alone, during, strict=True))
    return [
        Figure(where, "one answer", median(each), "ms", at_most=Goals.web_scrape_ms),
        Figure(where, "a setter's p99 alone", median(alone), "ms"),
        Figure(where, "a setter's p99 over alone", ratio, at_most=Goals.attack_ratio),
    ]


def _in_turns(
    bench: Bench, daemon: Daemon, other: Callable[[int, Any], None]
) -> tuple[list[float], list[float], float]:
    """Return the setter's p99 in ms of each round, alone and with the other client, and the rate of
    that client."""
    line, alone, during, rates = daemon.connect(), list[float](), list[float](), list[float]()
    _setter(line, WARM_UP_S)
    for _ in range(bench.sizes.web_rounds):
        alone.append(quantile(_setter(line, bench.sizes.web_seconds), 0.99))
        with at_work(other, daemon.http_port or 0) as count:
            time.sleep(WARM_UP_S)
            before, began = count.value, time.monotonic()
            during.append(quantile(_setter(line, bench.sizes.web_seconds), 0.99))
            rates.append((count.value - before) / (time.monotonic() - began))
    line.close()
    return alone, during, median(rates)


def _setter(line: Line, seconds: float) -> list[float]:
    """Set one item after the other; return how long each took, in ms."""
    waits, until = list[float](), time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        if line.ask(b"set victim 0 0 100\r\n%b\r\n" % bytes(100)) != b"STORED":
            raise ServerFailed("a set was not stored")
        waits.append((time.perf_counter() - began) * 1000)
        time.sleep(PAUSE_S)
    return waits


def _posts(port: int, count: Any) -> None:
    """Post one message after the other at the rate, each on a connection that waits for nothing."""
    post = b"POST /queues/posts/items HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n"
    idle, busy = [HttpLine(port) for _ in range(CONNECTIONS)], set[HttpLine]()
    due = time.monotonic()
    while True:
        now = time.monotonic()
        if idle and due <= now:
            line = idle.pop()
            line.send(post + bytes(100))
            busy.add(line)
            due = max(due + 1 / POSTS_PER_SECOND, now - BEHIND_S)
        wait = max(due - time.monotonic(), 0) if idle else None
        for line in select.select(list(busy), [], [], wait)[0]:
            line.answer(201)
            busy.discard(line)
            idle.append(line)
            count.value += 1


def _scrapes(path: str, port: int, count: Any) -> None:
    line = HttpLine(port)
    while True:
        line.ask(request("GET", path), 200)
        count.value += 1
        time.sleep(SCRAPE_REST_S)


@contextlib.contextmanager
def at_work(other: Callable[[int, Any], None], port: int) -> Iterator[Any]:
    """Run this in a process of its own; yield its count."""
    fork = multiprocessing.get_context("fork")
    count = fork.Value("q", 0, lock=False)

    def run() -> None:
        os.nice(NICE)
        other(port, count)

    process = fork.Process(target=run, daemon=True)
    process.start()
    try:
        yield count
    finally:
        process.kill()
        process.join()


# -- the start ------------------------------------------------------------------------------


def start(bench: Bench) -> list[Figure]:
    """Measure the cost of HTTP at the start."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    memory: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(max(bench.sizes.web_rounds, 3)):
        for has_http in (False, True):
            daemon = Daemon(
                bench.parent, bench.python, http_port=free_port() if has_http else None
            )
            try:
                seconds[has_http].append(daemon.start())
                memory[has_http].append(daemon.memory_bytes() / MIB)
            finally:
                daemon.close()
    where = "the daemon with HTTP, above without"
    return [
        Figure(where, "memory", median(memory[True]) - median(memory[False]), "MiB",
               at_most=Goals.web_memory_mib),
        Figure(where, "start", median(seconds[True]) - median(seconds[False]), "s",
               at_most=Goals.web_start_s),
    ]  # fmt: skip


@contextlib.contextmanager
def _daemon(bench: Bench) -> Iterator[tuple[Daemon, HttpLine]]:
    with Daemon(bench.parent, bench.python, http_port=free_port()) as daemon:
        yield daemon, HttpLine(daemon.http_port or 0)
