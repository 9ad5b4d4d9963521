"""`for item in Worker("jobs")`: at least once, whatever breaks, and no more trips than needed."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymemcache.exceptions import MemcacheClientError

from kestrelpy import client as client_module
from kestrelpy.client import Item, LeaseLost, Worker
from tests.cli.command import counts, eventually
from tests.client.proxy import Proxy
from tests.support.daemon import DaemonProcess

CONFIG = """
[queues."hasty"]
lease = "50ms"
[queues."short"]
lease = "1s"
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path_factory.mktemp("client") / "data", config=CONFIG) as running:
        yield running


@pytest.fixture
def queue(daemon: DaemonProcess, request: pytest.FixtureRequest) -> str:
    """A queue of this test's own, with two items."""
    name: str = request.node.name
    put(daemon, name, b"one", b"two")
    return name


def put(daemon: DaemonProcess, queue: str, *bodies: bytes) -> None:
    client = daemon.client()
    for body in bodies:
        assert client.set(queue, body)
    client.close()


def worker_of(daemon: DaemonProcess, queue: str, **settings: str) -> Worker:
    return Worker(queue, ("127.0.0.1", daemon.port), **{"wait": "10s", **settings})


def take(worker: Worker) -> Item:
    item = worker.fetch()
    assert item is not None
    return item


def left(daemon: DaemonProcess, queue: str) -> list[bytes]:
    """Every body that is still there, open ones excepted."""
    client = daemon.client()
    return list(iter(lambda: client.get(queue), None))


# -- the loop -------------------------------------------------------------------------------


def test_the_end_of_the_body_confirms_together_with_the_next_fetch(
    daemon: DaemonProcess, queue: str
) -> None:
    with Proxy(daemon.port) as wire:
        seen = []
        worker = Worker(queue, wire.address, wait="10s")
        for item in worker:
            seen.append(item.body)
            if len(seen) == 2:
                worker.stop()

    assert seen == [b"one", b"two"]
    assert wire.said == [
        "version",
        f"get {queue}/open/t=10000",
        f"get {queue}/close/open",
        f"get {queue}/close",
    ]
    assert left(daemon, queue) == []


def test_when_the_queue_is_empty_the_confirm_does_not_wait(
    daemon: DaemonProcess, queue: str
) -> None:
    worker = worker_of(daemon, queue, wait="30s")
    seen: list[bytes] = []
    thread = threading.Thread(target=lambda: seen.extend(item.body for item in worker))
    thread.start()

    eventually(lambda: counts(daemon, queue)["waiters"] == 1)

    assert counts(daemon, queue)["open_transactions"] == 0
    put(daemon, queue, b"three")
    eventually(lambda: len(seen) == 3)
    worker.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert left(daemon, queue) == []


def test_an_exception_gives_the_item_back_and_propagates(
    daemon: DaemonProcess, queue: str
) -> None:
    with pytest.raises(ZeroDivisionError):
        for item in worker_of(daemon, queue):
            assert item.body == b"one"
            _ = 1 // 0

    assert counts(daemon, queue)["canceled_transactions"] == 1
    assert left(daemon, queue) == [b"one", b"two"]


def test_break_gives_back_what_was_not_confirmed(daemon: DaemonProcess, queue: str) -> None:
    with Proxy(daemon.port) as wire:
        for item in Worker(queue, wire.address):
            if item.body == b"two":
                break
        gc.collect()

        assert wire.said[-1] == f"get {queue}/abort"  # and was answered: it is there again
    assert left(daemon, queue) == [b"two"]


def test_what_was_confirmed_before_break_is_done(daemon: DaemonProcess, queue: str) -> None:
    for item in worker_of(daemon, queue):
        item.confirm()
        break

    assert left(daemon, queue) == [b"two"]


def test_a_body_may_end_its_item_itself(daemon: DaemonProcess, queue: str) -> None:
    worker = worker_of(daemon, queue)
    seen = []
    for item in worker:
        seen.append(item.body)
        if len(seen) == 1:
            item.abort()
        elif len(seen) == 2:
            item.defer()
        elif len(seen) == 3:
            item.confirm()
        else:
            worker.stop()

    assert seen == [b"one", b"one", b"one", b"two"]
    assert left(daemon, queue) == []


def test_stop_from_a_signal_handler_ends_a_wait(daemon: DaemonProcess, queue: str) -> None:
    left(daemon, queue)
    worker = worker_of(daemon, queue, wait="30s")
    before = signal.signal(signal.SIGUSR1, lambda *_: worker.stop())

    def interrupt() -> None:
        eventually(lambda: counts(daemon, queue)["waiters"] == 1)
        assert threading.main_thread().ident is not None
        signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1)

    waiting = threading.Thread(target=interrupt)
    waiting.start()
    began = time.monotonic()

    assert list(worker) == []

    assert time.monotonic() - began < 10
    waiting.join()
    signal.signal(signal.SIGUSR1, before)


# -- one item -------------------------------------------------------------------------------


def test_an_item_has_its_body_and_flags(daemon: DaemonProcess) -> None:
    daemon.client().set("flags", b"\0\r\n\xff", flags=7)

    with worker_of(daemon, "flags") as worker:
        item = take(worker)

        assert (item.body, item.flags, item.is_lost) == (b"\0\r\n\xff", 7, False)
        item.confirm()


def test_fetch_answers_none_when_nothing_came(daemon: DaemonProcess) -> None:
    with worker_of(daemon, "nothing", wait="10ms") as worker:
        assert worker.fetch() is None


def test_an_item_ends_once(daemon: DaemonProcess, queue: str) -> None:
    with worker_of(daemon, queue) as worker:
        item = take(worker)
        item.abort()

        for end in (item.confirm, item.abort, item.defer):
            with pytest.raises(ValueError, match="this item was given back already"):
                end()


def test_an_item_of_the_past_does_not_end_the_one_in_hand(
    daemon: DaemonProcess, queue: str
) -> None:
    with worker_of(daemon, queue) as worker:
        one = take(worker)
        two = take(worker)

        with pytest.raises(ValueError, match="this item was confirmed already"):
            one.abort()

        two.confirm()
    assert left(daemon, queue) == []


def test_abort_counts_an_attempt_and_defer_does_not(daemon: DaemonProcess, queue: str) -> None:
    def attempts() -> int:
        facts = daemon.client().stats(f"{queue}/open")
        return next(n for key, n in facts.items() if key.endswith(b"_attempts"))

    with worker_of(daemon, queue) as worker:
        take(worker).defer()
        take(worker)
        assert attempts() == 0
        worker.close()
        take(worker)
        assert attempts() == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"wait": "5"}, "is not a duration"),
        ({"wait": "0ms"}, "wait must be at least 1ms"),
        ({"lease": "999ms"}, "lease must be at least 1s"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Worker("q", **settings)


def test_a_queue_s_name_that_cannot_be_is_not_tried_again(daemon: DaemonProcess) -> None:
    with pytest.raises(MemcacheClientError):
        next(iter(worker_of(daemon, "a/b")))


def test_every_address_of_a_name_is_tried(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = socket.getaddrinfo

    def two_addresses(host: str, *rest: Any, **more: Any) -> list[Any]:
        hosts = ["127.0.0.2", "127.0.0.1"] if host == "localhost" else [host]
        return [found for each in hosts for found in real(each, *rest, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
    put(daemon, "named", b"x")

    with Worker("named", ("localhost", daemon.port)) as worker:
        take(worker).confirm()


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
