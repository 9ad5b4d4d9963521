"""HAProxy's configuration in docs/clients.md, in front of two daemons."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.process.clients.page import PAGE
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

pytestmark = pytest.mark.slow

QUEUES = [f"jobs{number}" for number in range(12)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    if not shutil.which("haproxy"):
        pytest.skip("haproxy: not installed (Debian haproxy; make test-clients)")
    with DaemonProcess(tmp_path / "a") as one, DaemonProcess(tmp_path / "b") as two:
        yield [one, two]


@pytest.fixture
def port(daemons: list[DaemonProcess], tmp_path: Path) -> Iterator[int]:
    """HAProxy's port."""
    found = re.search(r"^```haproxy\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    port, text = free_port(), found[1]
    for named, real in zip((22133, 22201, 22202), (port, *(d.port for d in daemons)), strict=True):
        assert text.count(f":{named}\n") == 1
        text = text.replace(f":{named}\n", f":{real}\n")
    config = tmp_path / "haproxy.cfg"
    config.write_text(text)
    process = subprocess.Popen(["haproxy", "-db", "-f", str(config)], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: answers(port), "HAProxy")
        yield port
    finally:
        process.kill()
        process.wait()


def connected(port: int) -> Client:
    return Client(("127.0.0.1", port), timeout=30, default_noreply=False)


def queues(daemon: DaemonProcess) -> set[str]:
    """Return the names of the queues of a daemon."""
    with Raw(("127.0.0.1", daemon.port)) as raw:
        names = raw.stats()
    return {queue for queue in QUEUES if f"queue_{queue}_items" in names}


def test_every_connection_for_a_queue_comes_to_the_same_daemon(
    port: int, daemons: list[DaemonProcess]
) -> None:
    for queue in QUEUES:
        child = connected(port)
        assert child.get(f"{queue}+audit/peek") is None
        producer = connected(port)
        assert producer.set(f"{queue}/id=7", b"one")
        worker = connected(port)
        assert worker.get(f"{queue}/open/t=10s") == b"one"
        worker.close()  # the hang-up goes through
        again = connected(port)
        assert again.get(f"{queue}/open/t=20s") == b"one"
        assert again.get(f"{queue}/close") is None
        assert again.get(queue) is None
        assert child.get(f"{queue}+audit") == b"one"

    one, two = map(queues, daemons)
    assert one | two == set(QUEUES)
    assert one and two and not one & two


def test_a_queue_waits_for_its_daemon_and_goes_to_no_other(
    port: int, daemons: list[DaemonProcess]
) -> None:
    for queue in QUEUES:
        assert connected(port).set(queue, b"one")
    here, there = map(queues, daemons)
    daemons[1].kill()

    with Raw(("127.0.0.1", port)) as raw:
        raw.send(b"set %s 0 0 3\r\ntwo\r\n" % min(there).encode())
        assert raw.rest() in (b"", b"(reset)")
    assert queues(daemons[0]) == here

    daemons[1].start()
    for queue in sorted(there):
        assert connected(port).get(f"{queue}/open") == b"one"


def test_a_person_who_types_slowly_is_served_too(port: int) -> None:
    with Raw(("127.0.0.1", port)) as raw:
        raw.send(b"set jo")
        raw.send(b"bs1 0 0 3\r\n")
        raw.ask(b"one\r\n", b"STORED\r\n")
        raw.ask(b"get jobs1/close/open\r\n", b"VALUE jobs1/close/open 0 3\r\none\r\nEND\r\n")
