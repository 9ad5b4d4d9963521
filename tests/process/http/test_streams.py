"""Streams over a real daemon that is killed: a version is written once, over both wires.

Promise http-stored: kill of the real process; the whole server with random crashes, faults and
    clients of both protocols.
Promise http-version: kill.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from tests.support.daemon import DaemonProcess

RACERS = 8
VERSIONS = 12


def http(daemon: DaemonProcess) -> httpx.Client:
    return httpx.Client(base_url=f"http://127.0.0.1:{daemon.http_port}", timeout=10)


def events(daemon: DaemonProcess, url: str) -> list[tuple[str, str]]:
    """Each event of this stream or category: its stream and its body."""
    with http(daemon) as client:
        return [(each["stream"], each["body"]) for each in client.get(url).json()["events"]]


def by_http(daemon: DaemonProcess, name: str) -> Callable[[int], str]:
    client = http(daemon)

    def write(expected: int) -> str:
        headers = {"If-Match": f'"{expected}"'} if expected else {"If-None-Match": "*"}
        body = f"{name} {expected}".encode()
        said = client.post("/streams/acc-1", content=body, headers=headers)
        assert said.status_code in (201, 412), said.text
        return body.decode() if said.status_code == 201 else ""

    return write


def by_memcache(daemon: DaemonProcess, name: str) -> Callable[[int], str]:
    client = daemon.client()

    def write(expected: int) -> str:
        body = f"{name} {expected}"
        if expected:
            done = client.cas("acc/key=1", body, str(expected).encode())
        else:
            done = client.add("acc/key=1", body)
        return body if done else ""

    return write


def race(
    daemon: DaemonProcess, won: dict[int, list[str]], stop: Callable[[int], None]
) -> list[threading.Thread]:
    """Let writers over both wires race for each version; `won` has the winners. `stop` is called
    by each one before a version, and may kill the daemon."""

    def run(number: int) -> None:
        write = (by_http if number % 2 else by_memcache)(daemon, f"writer{number}")
        for expected in range(VERSIONS):
            stop(expected)
            try:
                if body := write(expected):
                    won.setdefault(expected, []).append(body)
            except (OSError, httpx.HTTPError, EOFError):
                return  # the daemon is gone
            except Exception as error:
                if "onnection" in type(error).__name__ or "UnexpectedClose" in type(error).__name__:
                    return
                raise

    threads = [threading.Thread(target=run, args=(number,)) for number in range(RACERS)]
    for thread in threads:
        thread.start()
    return threads


def test_one_of_the_writers_of_each_version_wins(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as daemon:
        begin(daemon)
        won: dict[int, list[str]] = {}
        meet = threading.Barrier(RACERS, timeout=30)
        for thread in race(daemon, won, lambda expected: void(meet.wait())):
            thread.join(30)
        assert {expected: len(bodies) for expected, bodies in won.items()} == dict.fromkeys(
            range(VERSIONS), 1
        )
        kept = events(daemon, "/streams/acc-1")
        assert [body for _, body in kept] == [won[n][0] for n in range(VERSIONS)]


@pytest.mark.parametrize("at", [0, 3, 7])
def test_a_version_that_was_answered_survives_a_kill_and_is_written_once(
    tmp_path: Path, at: int
) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as daemon:
        begin(daemon)
        won: dict[int, list[str]] = {}
        meet = threading.Barrier(RACERS, timeout=30)
        killed = threading.Event()

        def stop(expected: int) -> None:
            try:
                number = meet.wait()
            except threading.BrokenBarrierError:
                return
            if expected == at and number == 0:
                daemon.kill()  # while the others write
                killed.set()
                meet.abort()

        for thread in race(daemon, won, stop):
            thread.join(30)
        assert killed.is_set()
        assert all(len(bodies) == 1 for bodies in won.values())
        daemon.start()
        kept = [body for _, body in events(daemon, "/streams/acc-1")]
        for expected, (body,) in won.items():
            assert kept[expected] == body
        # a write without an answer can be looked up: the version is there once, or not at all
        assert [int(body.split()[1]) for body in kept] == list(range(len(kept)))
        assert at <= len(kept) <= at + 1
        for version in range(len(kept)):
            assert not by_http(daemon, "late")(version)
        assert by_http(daemon, "late")(len(kept))


def test_a_stream_is_retained_after_its_events_were_confirmed_and_the_daemon_killed(
    tmp_path: Path,
) -> None:
    with DaemonProcess(tmp_path / "data", http_port="0") as daemon:
        with http(daemon) as client:
            for number in range(3):
                said = client.post("/streams/acc-1", content=b"%d" % number)
                assert said.status_code == 201
        daemon.kill()
        daemon.start()
        memcache = daemon.client()
        assert [memcache.get("acc") for _ in range(4)] == [b"0", b"1", b"2", None]
        daemon.kill()
        daemon.start()
        for url in ("/streams/acc-1", "/categories/acc"):
            assert events(daemon, url) == [("acc-1", "0"), ("acc-1", "1"), ("acc-1", "2")]


def begin(daemon: DaemonProcess) -> None:
    """Have the queue retain its items, as the first stream of a category does."""
    with http(daemon) as client:
        assert client.post("/streams/acc-0", content=b"first").status_code == 201


def void(_: object) -> None:
    """Drop a result."""
