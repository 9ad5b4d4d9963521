"""A `Worker` whose connection, lease or server is lost: at least once, and it says so."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from kestrelpy import client as client_module
from kestrelpy.client import LeaseLost, Worker
from tests.cli.command import counts, eventually
from tests.client.items import left, put, take, worker_of
from tests.client.proxy import Proxy
from tests.support.daemon import DaemonProcess

# -- what is lost ---------------------------------------------------------------------------


def test_a_cut_connection_loses_the_item_and_the_loop_goes_on(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    with Proxy(daemon.port) as wire, caplog.at_level(logging.WARNING):
        worker = Worker(queue, wire.address)
        for item in worker:
            seen.append(item.body)
            if len(seen) == 1:
                wire.cut()
            if item.body == b"two":
                worker.stop()

    assert seen == [b"one", b"one", b"two"]
    assert left(daemon, queue) == []
    assert f"{queue}: the item in hand may be handled again" in caplog.text


def test_confirm_after_a_cut_connection_says_lease_lost(
    daemon: DaemonProcess, queue: str
) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address) as worker:
        item = take(worker)
        wire.cut()

        with pytest.raises(LeaseLost, match=queue):
            item.confirm()

        assert item.is_lost
        with pytest.raises(LeaseLost):
            item.confirm()
        item.abort()  # it went back already: what was wanted
    eventually(lambda: counts(daemon, queue)["open_transactions"] == 0)
    assert left(daemon, queue) == [b"one", b"two"]


def test_an_item_is_not_confirmed_on_another_connection(
    daemon: DaemonProcess, queue: str
) -> None:
    """After a break pymemcache connects again by itself; what is open there is another item."""
    with Proxy(daemon.port) as wire, Worker(queue, wire.address) as worker:
        one = take(worker)
        wire.cut()
        with pytest.raises(LeaseLost):
            one.confirm()
        again = take(worker)
        assert again.body == b"one"

        with pytest.raises(LeaseLost):
            one.confirm()

        assert counts(daemon, queue)["open_transactions"] == 1
        assert wire.said[-1] == f"get {queue}/open/t=5000"


def test_an_interrupted_fetch_leaves_nothing_that_could_be_confirmed(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(key: str) -> None:
        raise KeyboardInterrupt

    with worker_of(daemon, queue) as worker:
        one = take(worker)
        assert worker._client is not None
        monkeypatch.setattr(worker._client, "get", interrupted)
        with pytest.raises(KeyboardInterrupt):
            worker.fetch()
        assert take(worker).body == b"one"

        with pytest.raises(LeaseLost):
            one.confirm()

        assert counts(daemon, queue)["open_transactions"] == 1


def test_a_lease_that_ended_is_lost_in_the_loop_and_out_of_it(
    daemon: DaemonProcess, caplog: pytest.LogCaptureFixture
) -> None:
    def ended() -> int:
        return counts(daemon, "hasty")["lease_expired"]

    put(daemon, "hasty", b"x")
    with worker_of(daemon, "hasty") as worker, caplog.at_level(logging.WARNING):
        item = take(worker)
        eventually(lambda: ended() == 1)  # its queue's lease is 50ms
        with pytest.raises(LeaseLost, match="lease expired"):
            item.confirm()

        take(worker)
        eventually(lambda: ended() == 2)
        take(worker).confirm()  # the fetch between confirmed nothing, and fetched it once more

    assert "hasty: the item in hand may be handled again: lease expired" in caplog.text
    assert left(daemon, "hasty") == []


def test_a_killed_daemon_loses_nothing_and_the_loop_goes_on(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put(daemon, "q", b"one", b"two")
        worker = worker_of(daemon, "q")
        seen = []
        for item in worker:
            seen.append(item.body)
            if len(seen) == 1:
                daemon.kill()
                daemon.start()
            elif len(seen) == 3:
                worker.stop()

        assert seen == [b"one", b"one", b"two"]
        assert left(daemon, "q") == []


def test_a_server_that_is_not_there_is_tried_again_until_stop(
    caplog: pytest.LogCaptureFixture,
) -> None:
    worker = Worker("q", ("127.0.0.1", 1))
    with caplog.at_level(logging.WARNING):
        thread = threading.Thread(target=lambda: list(worker))
        thread.start()
        eventually(lambda: caplog.text.count("q: Connection refused; trying again") == 2)
        worker.stop()
        thread.join(10)

    assert not thread.is_alive()


# -- renewal --------------------------------------------------------------------------------


def lease_left_ms(daemon: DaemonProcess, queue: str) -> int:
    client = daemon.client()
    facts = client.stats(f"{queue}/open")
    client.close()
    return next(n for key, n in facts.items() if key.endswith(b"_lease_left_ms"))


def test_a_lease_is_made_the_worker_s_soon_after_the_fetch(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_FIRST_RENEWAL_SECONDS", 0.01)
    with worker_of(daemon, queue, lease="20s") as worker:
        item = take(worker)  # its queue's lease is half an hour

        eventually(lambda: 0 < lease_left_ms(daemon, queue) <= 20_000)
        item.confirm()


def test_a_lease_is_renewed_while_the_item_is_in_hand(daemon: DaemonProcess) -> None:
    put(daemon, "short", b"x")
    with Proxy(daemon.port) as wire, Worker("short", wire.address, lease="1s") as worker:
        item = take(worker)
        eventually(lambda: wire.said.count("touch short 1") == 3)  # longer than its lease

        assert lease_left_ms(daemon, "short") > 0
        assert not item.is_lost
        item.confirm()

    assert counts(daemon, "short")["lease_expired"] == 0


def test_the_next_item_is_renewed_early_too(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_FIRST_RENEWAL_SECONDS", 0.05)
    put(daemon, "short", b"one", b"two")
    with worker_of(daemon, "short", lease="60s", wait="10ms") as worker:
        for _ in range(2):
            take(worker)
            eventually(lambda: lease_left_ms(daemon, "short") > 1000)  # its queue's lease is 1s
        worker.fetch()


def test_nothing_is_renewed_while_nothing_is_in_hand(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_FIRST_RENEWAL_SECONDS", 0.01)
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, wait="30s") as worker:
        first = take(worker)
        eventually(lambda: any(line.startswith("touch") for line in wire.said))
        first.confirm()
        take(worker).confirm()
        said_before = len(wire.said)
        threads = [each for each in threading.enumerate() if each.name == f"lease {queue}"]
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()

        assert len(wire.said) == said_before


def test_an_item_whose_lease_cannot_be_renewed_is_lost(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "_FIRST_RENEWAL_SECONDS", 0.01)
    with Proxy(daemon.port) as wire, Worker(queue, wire.address) as worker:
        item = take(worker)
        wire.cut()

        eventually(lambda: item.is_lost)
        with pytest.raises(LeaseLost, match="the lease of this item is over"):
            item.confirm()
        assert take(worker).body == b"one"
