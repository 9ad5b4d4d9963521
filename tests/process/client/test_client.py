"""`for item in Worker("jobs")`: one item at a time, and no more trips than needed."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import threading
import time
from typing import Any

import pytest
from pymemcache.exceptions import MemcacheClientError

from kestrelpy.client import LeaseLost, Worker, WorkerItem
from tests.process.cli.command import counts, eventually
from tests.process.client.items import attempts, left, put, take, worker_of
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess

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
        f"gets {queue}/open/lease=30s/full/t=10000",
        f"gets {queue}/close/open/token=1/lease=30s/full",
        f"get {queue}/close/token=2",
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

        assert wire.said[-1] == f"get {queue}/abort/token=2"  # and was answered: it is there again
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


def test_an_item_has_its_facts(daemon: DaemonProcess, queue: str) -> None:
    left(daemon, queue)
    daemon.client().set(f"{queue}/key=a%20b,c/id=4711", b"keyed" * 20)
    with worker_of(daemon, queue, lease=20) as worker:
        take(worker).abort()
        item = take(worker)

        assert (item.queue, item.attempts, item.key, item.id) == (queue, 1, "a%20b,c", "4711")
        assert 0 <= item.age < 60
        assert item.number == 3  # two were put before
        assert repr(item) == (
            f"<WorkerItem of {queue}: token={item.token} leased attempts=1 key=a%20b,c "
            f"body={b'keyed' * 8!r} and 60 bytes>"
        )
        item.confirm()
        assert "confirmed" in repr(item)


def test_the_number_of_an_item_whose_lease_is_over_is_refused(
    daemon: DaemonProcess, queue: str
) -> None:
    with worker_of(daemon, queue) as worker:
        item = take(worker)
        daemon.client().get(f"{queue}/abort/token={item.token}")

        with pytest.raises(LeaseLost, match="the lease of this item is over"):
            _ = item.number


def test_a_lease_in_seconds_is_as_long_as_one_in_words(
    daemon: DaemonProcess, queue: str
) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease=1.5, wait=2) as worker:
        take(worker).defer(delay=0.25)

        assert wire.said[1:] == [
            f"gets {queue}/open/lease=2s/full/t=2000", f"get {queue}/defer/delay=250ms/token=1",
        ]  # fmt: skip


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


def test_an_item_of_the_past_does_not_end_the_present_one(
    daemon: DaemonProcess, queue: str
) -> None:
    with worker_of(daemon, queue) as worker:
        one = take(worker)
        two = take(worker)

        with pytest.raises(ValueError, match="this item was confirmed already"):
            one.abort()

        two.confirm()
    assert left(daemon, queue) == []


@pytest.mark.parametrize("end", ["abort", "defer"])
def test_with_a_delay_it_is_back_when_that_is_over(
    daemon: DaemonProcess, queue: str, end: str
) -> None:
    with worker_of(daemon, queue) as worker:
        getattr(take(worker), end)(delay="300ms")
        assert counts(daemon, queue)["delayed"] == 1
        assert take(worker).body == b"two"
        assert take(worker).body == b"one"
        assert attempts(daemon, queue) == (end == "abort")


def test_a_delay_that_cannot_be_changes_nothing(daemon: DaemonProcess, queue: str) -> None:
    with worker_of(daemon, queue) as worker:
        item = take(worker)
        with pytest.raises(ValueError, match="is not a duration"):
            item.defer(delay="5")
        item.confirm()


def test_bury_makes_it_a_dead_letter_with_the_reason(
    daemon: DaemonProcess, queue: str
) -> None:
    with worker_of(daemon, queue) as worker:
        take(worker).bury("no such account: 7/8 & 50 % café\nsecond line")
        take(worker).bury("")

    said = daemon.client().stats(f"{queue}/dead")
    reasons = [word for key, word in said.items() if key.endswith(b"_reason")]
    assert reasons == [b"no%20such%20account:%207%2F8%20&%2050%20%25%20caf%C3%A9%20second%20line",
                       b"abort"]  # fmt: skip


@pytest.mark.parametrize("text", ["x" * 500, "é" * 500, "€ " * 500, "a/" * 100, "\udcff" * 500])
def test_a_reason_of_any_length_is_cut_at_whole_characters(
    daemon: DaemonProcess, request: pytest.FixtureRequest, text: str
) -> None:
    queue = "long" + "." * 80
    put(daemon, queue, b"x")
    with worker_of(daemon, queue) as worker:
        take(worker).bury(text)

    assert counts(daemon, queue)["items"] == 0
    daemon.client().delete(queue)


def test_run_confirms_gives_back_and_buries_and_goes_on(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(daemon, queue, b"three", b"four")
    worker = worker_of(daemon, queue, retry_delay="0s")
    seen = []

    def handle(item: WorkerItem) -> None:
        seen.append(item.body)
        if item.body == b"one":
            raise ValueError("one is no number")
        if seen == [b"one", b"two"]:
            raise RuntimeError("not now")
        if item.body == b"three":
            item.bury("by itself")
        if item.body == b"four":
            worker.stop()

    with caplog.at_level(logging.WARNING):
        worker.run(handle, bury=(ValueError,))

    assert seen == [b"one", b"two", b"two", b"three", b"four"]
    assert left(daemon, queue) == []
    said = daemon.client().stats(f"{queue}/dead")
    reasons = [word for key, word in said.items() if key.endswith(b"_reason")]
    assert reasons == [b"one%20is%20no%20number", b"by%20itself"]
    assert f"{queue}: buried: one is no number" in caplog.text
    assert f"{queue}: given back: not now" in caplog.text


def test_an_item_that_failed_waits_and_those_behind_it_are_served(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.client.worker.random.random", lambda: 0.5)
    with Proxy(daemon.port) as wire:
        worker = Worker(queue, wire.address, retry_delay="100ms")
        seen: list[bytes] = []

        def handle(item: WorkerItem) -> None:
            seen.append(item.body)
            if seen.count(b"one") == 3:
                worker.stop()
            elif item.body == b"one":
                raise RuntimeError("not yet")

        worker.run(handle)

        assert seen == [b"one", b"two", b"one", b"one"]
        given_back = [line for line in wire.said if "/abort" in line]
        assert [line.split("/")[2] for line in given_back] == ["delay=100ms", "delay=200ms"]
    assert left(daemon, queue) == []


def test_an_item_that_failed_max_attempts_times_is_a_dead_letter(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(daemon, queue, retry_delay="1ms", max_attempts=3)
    failed = []

    def handle(item: WorkerItem) -> None:
        if item.body == b"two":
            return
        failed.append(item.attempts)
        if len(failed) == 3:
            worker.stop()
        raise RuntimeError("no such account")

    with caplog.at_level(logging.WARNING):
        worker.run(handle)

    assert failed == [0, 1, 2]
    said = daemon.client().stats(f"{queue}/dead")
    [why] = [word for key, word in said.items() if key.endswith(b"_reason")]
    assert why == b"no%20such%20account"
    assert f"{queue}: buried: no such account" in caplog.text


def test_run_names_a_dead_letter_that_the_queue_made(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.client().set(f"{queue}/declare", b"max_attempts = 1")
    worker = worker_of(daemon, queue)

    def handle(item: WorkerItem) -> None:
        worker.stop()
        raise RuntimeError("no such account")

    with caplog.at_level(logging.WARNING):
        worker.run(handle)

    assert f"{queue}: buried: no such account" in caplog.text


def test_run_pauses_longer_with_each_failure_in_a_row(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(daemon, queue, b"three")
    worker = worker_of(daemon, queue)
    pauses: list[float] = []
    monkeypatch.setattr(worker, "_sleep", pauses.append)
    fails = [True, True, True, False, True, False, False]

    def handle(item: WorkerItem) -> None:
        if len(fails) == 1:
            worker.stop()
        if fails.pop(0):
            raise RuntimeError

    worker.run(handle)

    assert pauses == [0.05, 0.1, 0.2, 0.05]


def test_run_raises_errors_that_are_not_of_an_item(daemon: DaemonProcess, queue: str) -> None:
    def handle(item: WorkerItem) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker_of(daemon, queue).run(handle)

    gc.collect()
    assert left(daemon, queue) == [b"one", b"two"]


def test_abort_counts_an_attempt_and_defer_does_not(daemon: DaemonProcess, queue: str) -> None:
    with worker_of(daemon, queue) as worker:
        take(worker).defer()
        take(worker)
        assert attempts(daemon, queue) == 0
        worker.close()
        take(worker)
        assert attempts(daemon, queue) == 1


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"wait": "5"}, "is not a duration"),
        ({"wait": "0ms"}, "wait must be at least 1ms"),
        ({"lease": "999ms"}, "lease must be at least 1s"),
        ({"work_limit": "999ms"}, "work_limit must be at least 1s"),
        ({"lease": 0.5}, "lease must be at least 1s"),
        ({"retry_delay": "1"}, "retry_delay: .* is not a duration"),
        ({"max_attempts": 0}, "max_attempts must be at least 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Worker("q", **settings)


def test_a_queue_s_name_that_cannot_be_is_not_tried_again(daemon: DaemonProcess) -> None:
    with pytest.raises(MemcacheClientError):
        next(iter(worker_of(daemon, "a+b+c")))


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
