"""The lease of a `Worker`'s item: renewed at half time, deferred at its limit."""

from __future__ import annotations

import logging
import threading

import pytest

from kestrelpy.client import Worker
from kestrelpy.client.item import LeaseLost
from tests.process.cli.command import counts, eventually
from tests.process.client.items import attempts, put, take, worker_of
from tests.process.client.proxy import Proxy
from tests.process.client.test_client_lost import end_lease
from tests.support.daemon import DaemonProcess


def test_a_lease_is_the_worker_s_own(daemon: DaemonProcess, queue: str) -> None:
    with worker_of(daemon, queue, lease="20s") as worker:
        take(worker)  # its queue's lease is half an hour
        facts = daemon.client().stats(f"{queue}/open")
        [left_ms] = [n for key, n in facts.items() if key.endswith(b"_lease_left_ms")]

        assert 10_000 < left_ms <= 20_000


def test_a_lease_is_renewed_at_half_time_while_the_worker_has_the_item(
    daemon: DaemonProcess, queue: str
) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease="1s") as worker:
        item = take(worker)
        touch = f"touch {queue}/token={item.token} 1"
        eventually(lambda: wire.said.count(touch) == 3)  # longer than its lease

        assert not item.should_stop
        item.confirm()

    assert counts(daemon, queue)["lease_expired"] == 0
    assert counts(daemon, queue)["items"] == 1


def test_the_next_item_is_renewed_as_well(daemon: DaemonProcess, queue: str) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease="1s") as worker:
        for _ in range(2):
            touch = f"touch {queue}/token={take(worker).token} 1"
            eventually(lambda touch=touch: touch in wire.said)


def test_nothing_is_renewed_while_the_worker_has_no_item(daemon: DaemonProcess, queue: str) -> None:
    def renewing() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each.name == f"lease {queue}"]

    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease="1s") as worker:
        take(worker).confirm()
        for thread in renewing():
            thread.join(10)

        assert renewing() == []
        assert not any(line.startswith("touch") for line in wire.said)


def test_a_renewal_is_made_again_after_a_cut(daemon: DaemonProcess, queue: str) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease="1s") as worker:
        item = take(worker)
        touch = f"touch {queue}/token={item.token} 1"
        for count in (1, 2, 3):
            eventually(lambda count=count: wire.said.count(touch) >= count)
            wire.cut()

        item.confirm()
    assert counts(daemon, queue)["lease_expired"] == 0


def test_a_lease_that_is_over_is_found_lost_at_the_next_renewal(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()
    with worker_of(daemon, queue, lease="1s") as worker, caplog.at_level(logging.WARNING):
        item = take(worker)
        item.when_stop(told.set)
        end_lease(daemon, queue, item)

        assert told.wait(10)
        assert item.is_lost
        with pytest.raises(LeaseLost, match="the lease of this item is over"):
            item.confirm()
        assert take(worker).body == b"one"
    assert f"{queue}: the leased item may be handled again: its lease ended" in caplog.text


def test_a_lease_that_cannot_be_renewed_is_lost_when_it_is_over(
    daemon: DaemonProcess, queue: str
) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address, lease="1s") as worker:
        item = take(worker)
        wire.close()

        eventually(lambda: item.is_lost)


# -- work_limit -----------------------------------------------------------------------------


def test_at_its_limit_an_item_is_asked_to_stop_and_may_still_be_confirmed(
    daemon: DaemonProcess, queue: str
) -> None:
    told = threading.Event()
    with worker_of(daemon, queue, lease="4s", work_limit="1s") as worker:
        item = take(worker)
        item.when_stop(told.set)
        assert not item.should_stop

        assert told.wait(10)
        assert item.should_stop
        assert not item.is_lost
        late: list[str] = []
        item.when_stop(lambda: late.append("at once"))
        assert late == ["at once"]
        item.confirm()
    assert counts(daemon, queue)["items"] == 1


def test_an_item_that_does_not_stop_is_deferred_before_its_lease_ends(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        worker_of(daemon, queue, lease="1s", work_limit="1s") as worker,
        caplog.at_level(logging.WARNING),
    ):
        item = take(worker)

        eventually(lambda: item.is_lost)
        with pytest.raises(LeaseLost):
            item.confirm()

        eventually(lambda: counts(daemon, queue)["items"] == 2)
        take(worker)
        assert attempts(daemon, queue) == 0
    assert counts(daemon, queue)["lease_expired"] == 0
    assert "leased for too long (work_limit)" in caplog.text


def test_a_limit_is_for_each_item(daemon: DaemonProcess, queue: str) -> None:
    put(daemon, queue, b"three")
    with worker_of(daemon, queue, lease="1s", work_limit="1s") as worker:
        for _ in range(2):
            item = take(worker)
            eventually(lambda item=item: item.should_stop)


def test_quick_work_starts_no_thread_for_each_item(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    begin = threading.Thread.start

    def counted(thread: threading.Thread) -> None:
        started.append(thread)
        begin(thread)

    put(daemon, queue, *[b"x"] * 50)
    with worker_of(daemon, queue) as worker:
        monkeypatch.setattr(threading.Thread, "start", counted)
        for _ in range(50):
            take(worker)

    assert len(started) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_call_that_fails_ends_no_renewal_but_its_own(
    daemon: DaemonProcess, queue: str
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    told = threading.Event()
    with worker_of(daemon, queue, lease="1s", work_limit="1s") as worker:
        item = take(worker)
        item.when_stop(fail)
        eventually(lambda: item.should_stop)

        take(worker).when_stop(told.set)
        assert told.wait(10)
