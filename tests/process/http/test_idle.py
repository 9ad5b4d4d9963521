"""Ten thousand HTTP clients that say nothing: bounded memory, and others are served meanwhile."""

from __future__ import annotations

import contextlib
import re
import resource
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import resident_bytes, wait_until

CLIENTS = 10_000
# HTTP may have a quarter of the connections.
WANTED = 4 * CLIENTS + 4_000
FILES = WANTED + 4_000
OWN_FILES = 500
BYTES_EACH = 16 << 10  # 7 KiB were seen
# Refused connections stay for a second: at most this many at once.
LINGERING = CLIENTS // 2
ASK = b"GET /v2/ping HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def files() -> Iterator[int]:
    """Raise the limit of open files as far as needed and allowed; return the limit."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # only root may raise the hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, max(FILES, before[1])))
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, hard), hard))
    yield resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], resource.getrlimit(
        resource.RLIMIT_NOFILE)[1]))  # fmt: skip


def test_ten_thousand_idle_connections_cost_little_and_disturb_nobody(
    tmp_path: Path, files: int
) -> None:
    count = min(CLIENTS, files - OWN_FILES)
    config = f"[server]\nmax_connections = {WANTED}\n"
    with (
        DaemonProcess(tmp_path / "data", config=config, http_port="0") as daemon,
        contextlib.ExitStack() as stack,
    ):
        client, port = daemon.client(), int(daemon.http_port)
        assert client.set("beside", b"x")
        before, socks, open_most = resident_bytes(daemon.pid), list[socket.socket](), 0
        for number in range(count):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            socks.append(sock)
            if number % 2:
                sock.sendall(ASK)  # it has been a good client, and stays
            if number % 50 == 0:  # the daemon has accepted those before
                assert client.set("beside", b"%d" % number)
                open_most = max(open_most, files_of(daemon))
        statuses = {said[9:12] for said in heard(socks)}
        assert statuses <= {b"204", b"408", b"503"}, statuses
        lowered = re.search(r"max_connections lowered from \d+ to (\d+)", "".join(daemon.lines))
        quarter = int(lowered[1] if lowered else WANTED) // 4
        assert CLIENTS // 10 < open_most < min(count, quarter) + LINGERING
        assert (resident_bytes(daemon.pid) - before) / open_most < BYTES_EACH
        for number in range(200):
            assert client.set("beside", b"%d" % number)
            assert client.get("beside") is not None
        stack.close()
        wait_until(lambda: is_alone(port), "the others are gone")
        assert "Traceback" not in "".join(daemon.lines)


def files_of(daemon: DaemonProcess) -> int:
    """Return how many files the daemon has open, most of them connections."""
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


def heard(socks: list[socket.socket]) -> list[bytes]:
    """Return the bytes that have come to each socket that has some."""
    poll = select.poll()
    for sock in socks:
        poll.register(sock, select.POLLIN)
    by_number = {sock.fileno(): sock for sock in socks}
    return [by_number[number].recv(4096) for number, _ in poll.poll(1000)]


def is_alone(port: int) -> bool:
    """True if there is no other HTTP connection."""
    try:
        said = httpx.get(f"http://127.0.0.1:{port}/admin/connections?limit=500").json()
    except httpx.TransportError:
        return False
    return len([each for each in said.get("connections", ()) if each["wire"] == "http"]) == 1
