"""Clients that stop in the middle, or do not read, do not fill the memory of the router.

Promise connection-memory: large sets that stop before their end, and answers that no client reads,
    before slices.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.router.test_slices import slices_of
from tests.support.daemon import DaemonProcess

KIB, MIB = 1 << 10, 1 << 20
LIMIT = 4 * MIB
# Beyond the limit each client may have this much of its requests, and of its answers.
OF_REQUESTS, OF_ANSWERS = 64 * KIB, 32 * KIB
SLACK = 6 * MIB  # what the process takes for other things, and the allocator keeps
CONFIG = '[server]\nmax_connection_memory = "4MiB"\n[fleet]\nslices = 2\n'
NAMES = (b"a", b"g")  # one in each slice


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as running:
        yield running


def memory_of(pid: int) -> int:
    """The bytes of a process that are not of files."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("RssAnon")]
    return int(found) * KIB


def most_memory(pid: int) -> int:
    """The most memory of a process, until it grows no more."""
    most, looks = 0, 0
    while looks < 10:
        time.sleep(0.1)
        now = memory_of(pid)
        looks = 0 if now > most + 100 * KIB else looks + 1
        most = max(most, now)
    return most


def send_what_is_taken(sock: socket.socket, data: bytes) -> None:
    sock.setblocking(False)
    view = memoryview(data)
    try:
        while view:
            view = view[sock.send(view) :]
    except BlockingIOError:
        return


def store(router: DaemonProcess, name: bytes, size: int) -> None:
    with router.socket(60) as sock, sock.makefile("rb") as answers:
        sock.sendall(b"set %b 0 0 %d\r\n%b\r\n" % (name, size, bytes(size)))
        assert answers.readline() == b"STORED\r\n"


def test_large_sets_that_stop_before_their_end_do_not_fill_the_router(
    router: DaemonProcess,
) -> None:
    store(router, b"a", MIB)
    before, count = memory_of(router.pid), 100
    with ExitStack() as stack:
        for number in range(count):
            sock = stack.enter_context(router.socket())
            send_what_is_taken(sock, b"set %b 0 0 1048576\r\n" % NAMES[number % 2] + bytes(MIB - 9))

        assert most_memory(router.pid) - before < LIMIT + count * OF_REQUESTS + 2 * SLACK
        store(router, b"g", 100)
    store(router, b"a", MIB)


def test_answers_that_nobody_reads_do_not_fill_the_router(router: DaemonProcess) -> None:
    size = 60 * KIB
    for name in NAMES:
        store(router, name, size)
    before, count = memory_of(router.pid), 200
    with ExitStack() as stack:
        for number in range(count):
            sock = stack.enter_context(socket.socket())
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # the kernel takes little
            sock.connect((router.host, router.port))
            sock.sendall(b"get %b/peek\r\n" % NAMES[number % 2] * 300)

        assert most_memory(router.pid) - before < LIMIT + count * OF_ANSWERS + SLACK
        assert slices_of(router).keys() == {1, 2}
        with router.socket(60) as sock, sock.makefile("rb") as answers:
            sock.sendall(b"get a/peek\r\n")
            assert answers.readline() == b"VALUE a/peek 0 %d\r\n" % size
            assert answers.read(size + 7) == bytes(size) + b"\r\nEND\r\n"
