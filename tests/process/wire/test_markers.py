"""Reading by marker from the real daemon, with a client library and with a bare socket.

Promise: observer.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.support.daemon import DaemonProcess
from tests.support.kills import leave_nothing
from tests.support.raw import Raw


def test_pymemcache_walks_a_queue_and_changes_nothing(daemon: DaemonProcess, queue: str) -> None:
    client: Client = daemon.client()
    for body in (b"1", b"2", b"3"):
        assert client.set(queue, body)
    assert client.get(f"{queue}/peek/after=0") == b"1"
    seen, after = [], 0
    while (found := client.gets(f"{queue}/peek/after={after}"))[0] is not None:
        seen.append(found[0])
        after = int(found[1])
    assert seen == [b"1", b"2", b"3"]
    assert client.get_many([f"{queue}/peek/after=1", f"{queue}/peek/after=2"]) == {
        f"{queue}/peek/after=1": b"2", f"{queue}/peek/after=2": b"3",
    }  # fmt: skip
    assert [client.get(queue) for _ in range(4)] == [b"1", b"2", b"3", None]
    client.close()


def test_a_bulk_read_shows_what_consumers_hold_too(
    daemon: DaemonProcess, raw: Raw, queue: str
) -> None:
    name = queue.encode()
    with Raw(("127.0.0.1", daemon.port)) as producer:
        for start in range(0, 3000, 500):
            sets = (b"set %b 0 0 4\r\n%04d\r\n" % (name, n) for n in range(start, start + 500))
            producer.ask(b"".join(sets), b"STORED\r\n" * 500)
        producer.ask(b"get %b/open\r\n" % name, b"VALUE %b/open 0 4\r\n0000\r\nEND\r\n" % name)
        seen: list[tuple[int, bytes]] = []
        while found := raw.values(b"%b/peek/after=%d/n=700/full" % (name, len(seen))):
            seen += found
    assert seen == [(n + 1, b"%04d" % n) for n in range(3000)]


def test_a_wait_is_served_with_what_another_connection_stores(
    daemon: DaemonProcess, raw: Raw, queue: str
) -> None:
    name = queue.encode()
    raw.send(b"gets %b/peek/after=0/t=20s\r\nversion\r\n" % name)
    with Raw(("127.0.0.1", daemon.port)) as producer:
        producer.ask(b"set %b 0 0 1\r\nx\r\n" % name, b"STORED\r\n")
    raw.expect(b"VALUE %b/peek/after=0/t=20s 0 1 1\r\nx\r\nEND\r\nVERSION" % name)


@pytest.mark.slow
def test_markers_are_the_same_after_a_kill_and_little_memory_hides_nothing(tmp_path: Path) -> None:
    config = '[queue_defaults]\nmax_memory = "1"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        client = daemon.client()
        for n in range(300):
            assert client.set("jobs", b"%d" % n * 50)
        for _ in range(20):
            client.get("jobs")
        with Raw(("127.0.0.1", daemon.port)) as raw:
            before = raw.values(b"jobs/peek/after=0/n=10000")
        daemon.kill()
        daemon.start()
        with Raw(("127.0.0.1", daemon.port)) as raw:
            assert raw.values(b"jobs/peek/after=0/n=10000") == before
            one_by_one, after = [], 0
            while found := raw.values(b"jobs/peek/after=%d" % after):
                one_by_one += found
                after = found[0][0]
            stats = raw.stats(b"stats markers")
        leave_nothing(daemon)
    assert one_by_one == before == [(n + 1, b"%d" % n * 50) for n in range(20, 300)]
    assert stats["queue_jobs_marker_earliest"] == "21"
    assert stats["queue_jobs_marker_latest"] == "300"


@pytest.mark.slow
def test_an_observer_that_hangs_up_while_it_is_read_for_harms_nobody(tmp_path: Path) -> None:
    config = '[queue_defaults]\nmax_memory = "1"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        with Raw(("127.0.0.1", daemon.port)) as raw:
            body = b"x" * 20_000
            for _ in range(200):
                raw.ask(b"set jobs 0 0 20000\r\n%b\r\n" % body, b"STORED\r\n")
        for _ in range(30):
            with Raw(("127.0.0.1", daemon.port)) as raw:
                raw.send(b"gets jobs/peek/after=0/n=10000\r\n" * 3)
        with Raw(("127.0.0.1", daemon.port)) as raw:
            assert len(raw.values(b"jobs/peek/after=0/n=10000")) == 200
            assert daemon.client().delete("jobs")
            assert raw.values(b"jobs/peek/after=0/n=10000") == []
        leave_nothing(daemon)
        assert daemon.stop() == 0
        assert not [line for line in daemon.lines if "mistake" in line]
