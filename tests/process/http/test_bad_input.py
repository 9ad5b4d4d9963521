"""Bad input over HTTP against a real daemon: one sentence, bounded memory, no harm to others.

Promises: http-hang-up, http-bounded.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

HEAD = b"Host: localhost\r\n"
CLOSE = HEAD + b"Connection: close\r\n"
ITEMS = b"POST /queues/bad/items HTTP/1.1\r\n"
MIB = 1 << 20


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("bad")
    config = "[server]\nmax_connection_memory = \"16MiB\"\nmax_connections = 400\n"
    with DaemonProcess(folder / "data", config=config, http_port="0") as running:
        yield running
        assert running.client().get("nothing") is None
        said = "".join(running.lines)
        assert "Traceback" not in said
        assert "bug" not in said


def connect(daemon: DaemonProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(daemon.http_port)), 20)


def raw(daemon: DaemonProcess, data: bytes) -> bytes:
    """Send the data; return all bytes until the daemon closes the connection."""
    with connect(daemon) as sock:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            sock.sendall(data)
        return rest(sock)


def rest(sock: socket.socket) -> bytes:
    parts = list[bytes]()
    while True:
        try:
            part = sock.recv(1 << 16)
        except ConnectionResetError:
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def resident_mib(daemon: DaemonProcess) -> float:
    words = Path(f"/proc/{daemon.pid}/statm").read_text().split()
    return int(words[1]) * 4096 / MIB


def item(headers: bytes, body: bytes = b"") -> bytes:
    return ITEMS + CLOSE + headers + b"\r\n" + body


REFUSED: dict[str, tuple[bytes, set[int]]] = {
    "a URL of 9 KiB": (b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n" + CLOSE + b"\r\n", {414}),
    "a query of 9 KiB": (b"GET /?" + b"x" * 9000 + b" HTTP/1.1\r\n" + CLOSE + b"\r\n", {414}),
    "headers of 33 KiB": (item(b"a: " + b"x" * 33_000 + b"\r\n"), {431}),
    "many small headers": (item(b"a: b\r\n" * 9000), {431}),
    "a head without an end": (ITEMS + b"a: " + b"x" * 300_000, {431}),
    "a declared body over its limit": (item(b"Content-Length: 99999999\r\n", b"x"), {413}),
    "a declared body beyond int64": (item(b"Content-Length: 99999999999999999999\r\n"), {400}),
    "a negative length": (item(b"Content-Length: -1\r\n"), {400}),
    "a length in words": (item(b"Content-Length: many\r\n"), {400}),
    "two lengths": (item(b"Content-Length: 1\r\nContent-Length: 2\r\n", b"xx"), {400}),
    "a length and chunks": (
        item(b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"), {400}),
    "an unknown coding": (item(b"Transfer-Encoding: gzip\r\n", b"x"), {400}),
    "a chunk without a size": (item(b"Transfer-Encoding: chunked\r\n", b"zz\r\n"), {400}),
    "a chunk beyond int64": (item(b"Transfer-Encoding: chunked\r\n", b"f" * 17 + b"\r\n"), {400}),
    "a chunk longer than it says": (
        item(b"Transfer-Encoding: chunked\r\n", b"1\r\nxx\r\n0\r\n\r\n"), {400}),
    "another expectation": (item(b"Expect: tea\r\nContent-Length: 1\r\n", b"x"), {417}),
    "HTTP/1.0 without Host": (b"GET / HTTP/1.0\r\n\r\n", {400}),
    "HTTP/0.9": (b"GET /\r\n\r\n", {400}),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400}),
    "HTTP/9.9": (b"GET / HTTP/9.9\r\n\r\n", {400}),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HEAD + CLOSE + b"\r\n", {400}),
    "a host elsewhere": (b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", {421}),
    "a path that is not UTF-8": (b"GET /queues/%ff HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a path with a NUL": (b"GET /streams/a-%00 HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a path cut in a percent": (b"GET /streams/a-%4 HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a bare percent": (b"GET /streams/a-%zz HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "raw bytes in the path": (b"GET /\xff\xfe HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a NUL in a header": (item(b"a: b\0c\r\nContent-Length: 0\r\n"), {400}),
    "a header without a name": (item(b": b\r\nContent-Length: 0\r\n"), {400}),
    "a folded header": (item(b"a: b\r\n c\r\nContent-Length: 0\r\n"), {201, 400}),
    "a proxy's CONNECT": (b"CONNECT localhost:22 HTTP/1.1\r\n" + CLOSE + b"\r\n", {400, 405}),
    "a TLS client": (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + b"\0" * 500, {400}),
    "a memcache client": (b"set bad 0 0 1\r\nx\r\n", {400}),
    "a query that is not UTF-8": (b"GET /categories/a?after=%ff HTTP/1.1\r\n" + CLOSE + b"\r\n",
                                  {400}),
    "a number beyond int64": (
        b"GET /categories/a?after=99999999999999999999 HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a number that is none": (b"GET /categories/a?limit=NaN HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a name that is not ASCII": (
        b"GET /categories/%C3%BC HTTP/1.1\r\n" + CLOSE + b"\r\n", {400}),
    "a version beyond int64": (
        b"POST /streams/a-1 HTTP/1.1\r\nIf-Match: \"99999999999999999999\"\r\n" + CLOSE
        + b"Content-Length: 0\r\n\r\n", {400}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_one_sentence(daemon: DaemonProcess, name: str) -> None:
    data, statuses = REFUSED[name]
    said = raw(daemon, data)
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 "), said[:200]
    assert int(head.split()[1]) in statuses, said[:300]
    if statuses != {201, 400}:
        assert json.loads(body)["description"]


ANSWERED: dict[str, tuple[bytes, int]] = {
    "an absolute form": (b"GET http://elsewhere.example/ HTTP/1.1\r\n" + CLOSE + b"\r\n", 200),
    "HTTP/1.0": (b"GET / HTTP/1.0\r\n" + HEAD + b"\r\n", 200),
    "an upgrade to WebSocket": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\n"
        b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n", 200),
    "an upgrade to HTTP/2": (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings, close\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n", 200),
    "headers in another case": (
        b"POST /queues/good/items HTTP/1.1\r\nhOST: localhost\r\nCONNECTION: close\r\n"
        b"content-LENGTH: 1\r\n\r\nx", 201),
    "chunks": (
        b"POST /queues/good/items HTTP/1.1\r\n" + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n"
        b"1\r\na\r\n2;note=1\r\nbc\r\n0\r\n\r\n", 201),
    "deep JSON": (
        b"POST /queues/good/items HTTP/1.1\r\n" + CLOSE + b"Content-Type: application/json\r\n"
        b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000, 201),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERED)
def test_unusual_requests_are_answered(daemon: DaemonProcess, name: str) -> None:
    data, status = ANSWERED[name]
    said = raw(daemon, data)
    assert said.startswith(b"HTTP/1.1 %d " % status), said[:300]


def test_a_client_that_waits_for_100_continue_gets_it(daemon: DaemonProcess) -> None:
    with connect(daemon) as sock:
        sock.sendall(item(b"Expect: 100-continue\r\nContent-Length: 2\r\n"))
        assert sock.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(b"ab")
        assert rest(sock).startswith(b"HTTP/1.1 201 ")


def test_a_body_that_is_too_large_in_chunks_is_refused(daemon: DaemonProcess) -> None:
    before = resident_mib(daemon)
    with connect(daemon) as sock:
        sock.sendall(b"POST /queues/bad/leases HTTP/1.1\r\n" + CLOSE)
        sock.sendall(b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        try:
            for _ in range(3200):  # 200 MiB
                sock.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            pass
        said = rest(sock)
    assert said == b"" or said.startswith(b"HTTP/1.1 413 ")
    assert resident_mib(daemon) - before < 40


def test_bodies_of_many_connections_together_are_bounded(daemon: DaemonProcess) -> None:
    before, socks = resident_mib(daemon), list[socket.socket]()
    try:
        refused = 0
        for _ in range(40):  # 40 times 3 MiB; only 4 MiB of it may be in memory
            sock = connect(daemon)
            socks.append(sock)
            sock.settimeout(5)
            try:
                sock.sendall(item(b"Content-Length: 4000000\r\n", b"x" * (3 * MIB)))
            except (BrokenPipeError, ConnectionResetError):
                refused += 1
                continue
        said = b"".join(answer(sock) for sock in socks)
        assert said.count(b"HTTP/1.1 503 ") + refused >= 30
        assert resident_mib(daemon) - before < 40
        assert raw(daemon, b"GET / HTTP/1.1\r\n" + CLOSE + b"\r\n").startswith(b"HTTP/1.1 200 ")
        assert daemon.client().set("beside", b"x")
    finally:
        for sock in socks:
            sock.close()
    assert raw(daemon, item(b"Content-Length: 1\r\n", b"x")).startswith(b"HTTP/1.1 201 ")


def answer(sock: socket.socket) -> bytes:
    """Return the bytes that have come so far."""
    sock.settimeout(0.05)
    try:
        return sock.recv(1 << 16)
    except (TimeoutError, ConnectionResetError):
        return b""


def test_idle_connections_are_bounded_and_memcache_clients_not_disturbed(
    daemon: DaemonProcess,
) -> None:
    before, socks = resident_mib(daemon), list[socket.socket]()
    try:
        client = daemon.client()
        for number in range(250):  # HTTP has a quarter of 400
            socks.append(connect(daemon))
            if number % 20 == 0:
                client.get("nothing")  # the daemon has accepted those before
        refused = sum(answer(sock).startswith(b"HTTP/1.1 503 ") for sock in socks[150:])
        assert refused >= 50
        for number in range(50):
            assert client.set("beside", b"%d" % number)
        assert client.get("beside") is not None
        assert resident_mib(daemon) - before < 40
    finally:
        for sock in socks:
            sock.close()


def test_a_reader_that_never_reads_a_long_list_costs_a_bounded_amount(
    daemon: DaemonProcess,
) -> None:
    client = daemon.client()
    for _ in range(40):
        assert client.set("long/key=1", b"x" * 100_000)
    before, socks = resident_mib(daemon), list[socket.socket]()
    try:
        ask = b"GET /categories/long?limit=1000 HTTP/1.1\r\n" + HEAD + b"\r\n"
        for _ in range(20):
            sock = connect(daemon)
            sock.sendall(ask * 30)
            socks.append(sock)
        for number in range(50):
            assert client.set("beside", b"%d" % number)
        assert resident_mib(daemon) - before < 100
    finally:
        for sock in socks:
            sock.close()


def test_requests_sent_ahead_are_bounded(daemon: DaemonProcess) -> None:
    ask = b"POST /queues/none/leases?wait=1s HTTP/1.1\r\n" + HEAD + b"Content-Length: 0\r\n\r\n"
    said = raw(daemon, ask * 2000)
    assert said.count(b"HTTP/1.1 ") < 300


def test_nonsense_after_a_request_ends_the_connection_after_its_answer(
    daemon: DaemonProcess,
) -> None:
    good = ITEMS + HEAD + b"Content-Length: 1\r\n\r\nx"
    said = raw(daemon, good + b"nonsense\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 201 "), said
    assert said.count(b"HTTP/1.1 ") == 1


def test_a_client_that_is_gone_at_any_moment_leaves_nothing(daemon: DaemonProcess) -> None:
    asks: list[bytes] = [
        ITEMS, ITEMS + HEAD, item(b"Content-Length: 9\r\n", b"x"),
        item(b"Content-Length: 1\r\n", b"x"),
        b"POST /queues/gone/leases?wait=60s HTTP/1.1\r\n" + HEAD + b"Content-Length: 0\r\n\r\n",
        b"GET /categories/gone?wait=60s HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"GET /categories/long?limit=1000 HTTP/1.1\r\n" + HEAD + b"\r\n",
        b"POST /streams/gone-1 HTTP/1.1\r\n" + HEAD + b"Content-Length: 1\r\n\r\nx",
    ]  # fmt: skip
    for ask in asks:
        for end in (socket.SHUT_WR, socket.SHUT_RDWR):
            with connect(daemon) as sock:
                sock.sendall(ask)
                sock.shutdown(end)
    client = daemon.client()
    for _ in range(500):
        stats = client.stats()
        if not any(
            value for name, value in stats.items()
            if name.endswith((b"_waiters", b"_leased"))
        ):
            break
    else:
        raise AssertionError(stats)


def test_a_tls_client_is_refused_and_memcache_goes_on(daemon: DaemonProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with connect(daemon) as sock, pytest.raises(ssl.SSLError):
        context.wrap_socket(sock)
    assert daemon.client().set("beside", b"x")


def test_bad_input_beside_memcache_disturbs_nobody(daemon: DaemonProcess) -> None:
    client, done = daemon.client(), threading.Event()

    def attack() -> None:
        for name in REFUSED:
            raw(daemon, REFUSED[name][0])
        done.set()

    thread = threading.Thread(target=attack)
    thread.start()
    count = 0
    checks: Callable[[], bool] = done.is_set
    while not checks() and count < 20_000:
        assert client.set("beside", b"%d" % count)
        count += 1
    thread.join(60)
    assert done.is_set()
