"""A real daemon without a descriptor to spare: nothing fails, nothing is lost, and it goes on.

An idle crowd holds every descriptor that the process may have. Queues rest by then, so each has to
open its files again for whatever it is asked.

Promises: shortage, descriptors.
"""

from __future__ import annotations

import os
import resource
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

ITEMS = 3000
QUEUES = 20
CROWD = 50
LIMIT = 256
CONFIG = """
[server]
socket = "admin"
max_open_reads = 4000
max_memory = "64KiB"
[queue_defaults]
max_memory = "16KiB"
"""
SHORT = b"SERVER_ERROR "

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's"),
    pytest.mark.slow,
]


def body(number: int) -> bytes:
    return b"%0100d" % number


def descriptors(daemon: DaemonProcess) -> list[str]:
    """Return the target of each of the daemon's descriptors."""
    found = []
    for each in Path(f"/proc/{daemon.pid}/fd").iterdir():
        try:
            found.append(os.readlink(each))
        except OSError:
            continue
    return found


def segments_open(daemon: DaemonProcess) -> int:
    return sum(each.endswith(".segment") for each in descriptors(daemon))


def allow(daemon: DaemonProcess, count: int) -> None:
    """Limit the daemon to `count` descriptors from now on."""
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (count, LIMIT))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    process = DaemonProcess(tmp_path / "data", config=CONFIG)
    process.start("sh", "-c", 'ulimit -n "$0" && exec "$@"', str(LIMIT))
    with process:
        yield process


@pytest.fixture
def worker(daemon: DaemonProcess) -> Iterator[Raw]:
    with Raw(("127.0.0.1", daemon.port)) as raw:
        for number in range(ITEMS):
            raw.send(b"set big 0 0 100\r\n%b\r\n" % body(number))
        raw.expect(b"STORED\r\n" * ITEMS)
        for q in range(QUEUES):
            raw.ask(b"set q%d 0 0 1\r\nx\r\n" % q, b"STORED\r\n")
        raw.ask(b"set lock 0 0 1\r\nx\r\n", b"STORED\r\n")
        # After this the reserved records are all that a fetch has to write.
        raw.ask(b"get big/open\r\n", b"VALUE big/open 0 100\r\n%b\r\nEND\r\n" % body(0))
        raw.ask(b"get big/abort\r\n", b"END\r\n")
        wait_until(lambda: segments_open(daemon) == 0, "all queues rest")
        yield raw


@pytest.fixture
def crowd(daemon: DaemonProcess, worker: Raw) -> list[socket.socket]:
    """Connections that take all descriptors; they leave when their sockets are closed."""
    sockets = [daemon.socket() for _ in range(CROWD)]
    for each in sockets:
        each.sendall(b"version\r\n")
        each.recv(100)
    allow(daemon, len(descriptors(daemon)))
    return sockets


def take_all(raw: Raw, fetched: list[bytes]) -> bytes:
    """Open what is there; returns the line that was no item."""
    while True:
        raw.send(b"get big/open\r\n")
        line = raw.line()
        if not line.startswith(b"VALUE"):
            return line
        fetched.append(raw.line())
        raw.expect(b"END\r\n")


def test_what_was_stored_comes_back_in_sequence_when_the_crowd_has_left(
    daemon: DaemonProcess, worker: Raw, crowd: list[socket.socket]
) -> None:
    fetched: list[bytes] = []
    answer = take_all(worker, fetched)
    assert answer.startswith(SHORT), "not END, which would say that the queue is empty"
    assert b"Too many open files" in answer
    worker.send(b"gets big/peek/after=0/n=10\r\n")
    assert worker.line().startswith(SHORT)
    told = worker.stats()
    assert int(told["queue_big_items"]) + len(fetched) == ITEMS
    assert told["queue_big_state"] == "out_of_files"
    assert told["health"] == "out_of_files"
    for each in crowd:
        each.close()
    wait_until(lambda: not is_short(worker, "big"), "it goes on by itself")
    assert take_all(worker, fetched) == b"END"
    assert fetched == [body(number) for number in range(ITEMS)]
    assert not [line for line in daemon.lines if "corrupt" in line or "readable" in line]
    worker.send(b"gets big/peek/after=0\r\n")
    assert worker.line() == b"VALUE big/peek/after=0 0 100 1"


def is_short(raw: Raw, queue: str) -> bool:
    return raw.stats()[f"queue_{queue}_state"] == "out_of_files"


def test_resting_queues_store_again_when_the_crowd_has_left(
    daemon: DaemonProcess, worker: Raw, crowd: list[socket.socket]
) -> None:
    worker.send(b"".join(b"set q%d 0 0 1\r\ny\r\n" % q for q in range(QUEUES)))
    time.sleep(0.3)  # the crowd stays for some attempts
    worker.sock.setblocking(False)
    with pytest.raises(BlockingIOError):
        worker.sock.recv(1)
    worker.sock.settimeout(30)
    for each in crowd:
        each.close()
    worker.expect(b"STORED\r\n" * QUEUES)
    for q in range(QUEUES):
        for each in (b"x", b"y"):
            worker.ask(b"get q%d\r\n" % q, b"VALUE q%d 0 1\r\n%b\r\nEND\r\n" % (q, each))
    assert not [line for line in daemon.lines if "acknowledges nothing" in line]
    assert sum("work that needs a file waits" in line for line in daemon.lines) == 1
    wait_until(
        lambda: any("files can be opened again" in line for line in daemon.lines), "it is over"
    )


def test_no_lock_is_taken_twice(
    daemon: DaemonProcess, worker: Raw, crowd: list[socket.socket], tmp_path: Path
) -> None:
    worker.ask(b"add lock 0 0 1\r\nz\r\n", b"NOT_STORED\r\n")
    worker.send(b"get big/open\r\n")
    assert worker.line().startswith(SHORT)
    worker.ask(b"add big 0 0 1\r\nz\r\n", b"NOT_STORED\r\n")
    for each in crowd:
        each.close()
    wait_until(lambda: not is_short(worker, "big"), "it goes on by itself")
    worker.ask(b"add big 0 0 1\r\nz\r\n", b"NOT_STORED\r\n")
    assert worker.stats()["queue_big_items"] == str(ITEMS)


def test_a_shortage_costs_the_processor_next_to_nothing(
    daemon: DaemonProcess, worker: Raw, crowd: list[socket.socket]
) -> None:
    waiting = [Raw(("127.0.0.1", daemon.port)) for _ in range(CROWD)]  # they are not accepted
    worker.send(b"".join(b"set q%d 0 0 1\r\ny\r\n" % q for q in range(QUEUES)))
    before = switches(daemon)
    time.sleep(1)
    assert switches(daemon) - before < 1000, "it does not go round and round"
    for each in waiting:
        each.hang_up()
    for one in crowd:
        one.close()
    worker.expect(b"STORED\r\n" * QUEUES)
    with Raw(("127.0.0.1", daemon.port)) as late:
        late.send(b"version\r\n")
        assert late.line().startswith(b"VERSION")


def switches(daemon: DaemonProcess) -> int:
    """Return the number of context switches of the loop's thread."""
    text = Path(f"/proc/{daemon.pid}/status").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if "ctxt_switches" in line)


def test_connections_leave_room_for_the_queues_and_an_administrator(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    warnings = [line for line in daemon.lines if "max_connections lowered" in line]
    assert len(warnings) == 1
    most = int(warnings[0].split("lowered from 10000 to ")[1].split(":")[0])
    assert 0 < most < LIMIT
    crowd, refused = [], 0
    for _ in range(most + 10):
        raw = Raw(("127.0.0.1", daemon.port))
        raw.send(b"version\r\n")
        try:
            refused += raw.line() == b"SERVER_ERROR too many connections"
        except (ConnectionError, AssertionError):
            refused += 1  # the line was lost with the connection, as TCP has it
        crowd.append(raw)
    assert refused == 10
    time.sleep(1.5)  # queues rest
    crowd[0].ask(b"set jobs 0 0 1\r\nx\r\n", b"STORED\r\n")
    with Raw(str(tmp_path / "admin")) as admin:
        admin.send(b"stats\r\n")
        assert b"STAT" in admin.line()
    assert len(descriptors(daemon)) < LIMIT
    daemon.config_file.write_text(CONFIG.replace("[server]", "[server]\nmax_connections = 500"))
    crowd[1].ask(b"reload\r\n", b"Reloaded config.\r\n")
    wait_until(
        lambda: any("lowered from 500 to" in line for line in daemon.lines), "a reload says so too"
    )
    for raw in crowd:
        raw.hang_up()
