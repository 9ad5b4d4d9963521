"""One daemon for all requests of a queue, with pymemcache's HashClient over two daemons."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheUnexpectedCloseError

from kestrelpy.client import QueueHasher
from tests.support.daemon import DaemonProcess

QUEUES = [f"jobs{number}" for number in range(20)]


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[list[DaemonProcess]]:
    with DaemonProcess(tmp_path / "a") as one, DaemonProcess(tmp_path / "b") as two:
        yield [one, two]


def hashed(daemons: list[DaemonProcess], hasher: Callable[[], object] = QueueHasher) -> HashClient:
    servers = [("127.0.0.1", daemon.port) for daemon in daemons]
    return HashClient(servers, hasher=hasher, timeout=10, default_noreply=False)


def waiting(daemon: DaemonProcess) -> dict[str, int]:
    """Return how many items each queue of a daemon has."""
    stats: dict[bytes, object] = daemon.client().stats()
    return {
        queue: int(str(stats[f"queue_{queue}_items".encode()]))
        for queue in QUEUES
        if f"queue_{queue}_items".encode() in stats
    }


def test_every_request_of_a_queue_goes_to_the_daemon_that_has_it(
    daemons: list[DaemonProcess],
) -> None:
    client = hashed(daemons)
    for queue in QUEUES:
        assert client.get(f"{queue}+audit/peek") is None  # the child is where its queue will be
        assert client.set(f"{queue}/id=1", b"1")
        assert client.set(queue, b"2")
        assert client.get(f"{queue}/open") == b"1"
        assert client.get(f"{queue}/close/open/t=10s") == b"2"
        assert client.get(f"{queue}/close") is None
        assert client.get(f"{queue}/open") is None
        assert client.get(f"{queue}+audit/open") == b"1"
        assert client.get(f"{queue}+audit/abort") is None
        assert client.delete(f"{queue}/id=1") is False

    one, two = map(waiting, daemons)
    assert one and two, "both daemons have queues"
    assert not set(one) & set(two), "no queue is on both"
    client.close()


def test_the_plain_hash_sends_a_queue_to_two_daemons(daemons: list[DaemonProcess]) -> None:
    """The reason for the hasher. It begins to fail when pymemcache mends this."""
    servers = [("127.0.0.1", daemon.port) for daemon in daemons]
    client = HashClient(servers, timeout=10, default_noreply=False)
    for queue in QUEUES:
        client.set(queue, b"1")

    found = [client.get(f"{queue}/peek") for queue in QUEUES]

    assert None in found
    client.close()


def test_with_the_whole_key_a_queue_spreads_and_a_key_stays(daemons: list[DaemonProcess]) -> None:
    client = hashed(daemons, functools.partial(QueueHasher, whole_key=True))
    for number in range(20):
        assert client.add(f"jobs0/key=k{number}", b"1")
        assert client.gets(f"jobs0/peek/key=k{number}") == (b"1", b"1")
        assert client.cas(f"jobs0/key=%6B{number}", b"2", b"1") is True

    counts = [waiting(daemon)["jobs0"] for daemon in daemons]
    assert sum(counts) == 40
    assert all(counts)
    client.close()


def test_with_many_retries_a_queue_waits_for_its_daemon(daemons: list[DaemonProcess]) -> None:
    servers = [("127.0.0.1", daemon.port) for daemon in daemons]
    client = HashClient(
        servers, hasher=QueueHasher, timeout=10, default_noreply=False,
        retry_attempts=1_000_000_000, retry_timeout=0,
    )  # fmt: skip
    for queue in QUEUES:
        assert client.set(queue, b"1")
    here, there = map(waiting, daemons)
    daemons[1].kill()

    for queue in there:
        with pytest.raises((OSError, MemcacheUnexpectedCloseError)):
            client.set(queue, b"2")
    assert waiting(daemons[0]) == here

    daemons[1].start()
    assert [client.get(queue) for queue in there] == [b"1"] * len(there)
    client.close()


@pytest.mark.parametrize(
    ("key", "whole_key", "same"),
    [
        ("jobs/open/t=5s", False, "jobs"),
        (b"jobs/close", False, "jobs"),
        ("jobs/key=a", False, "jobs"),
        ("orders+audit/open", False, "orders"),
        ("orders+audit+more", False, "orders"),
        ("jobs/dead/peek", True, "jobs"),
        ("jobs/id=1/key=a%2Bb/delay=5s", True, "jobs/key=a+b"),
        (b"jobs+audit/peek/key=a", True, "jobs/key=a"),
        ("+jobs", False, "+jobs/open"),  # the name of a queue, which is no child
    ],
)
def test_keys_of_one_place_go_to_one_node(key: str | bytes, whole_key: bool, same: str) -> None:
    hasher = QueueHasher(whole_key=whole_key)
    for node in range(100):
        hasher.add_node(f"daemon-{node}")

    assert hasher.get_node(key) == hasher.get_node(same)


def test_without_a_server_there_is_no_node() -> None:
    assert QueueHasher().get_node("jobs") is None
