"""A `Worker` whose connection, lease or server is lost: at least once, and it says so.

Promise: worker.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheServerError

from kestrelpy.client import Worker, WorkerItem
from kestrelpy.client.item import LeaseLost
from tests.process.cli.command import counts, eventually
from tests.process.client.items import left, put, take, worker_of
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess


def end_lease(daemon: DaemonProcess, queue: str, item: WorkerItem) -> None:
    """End the lease of an item, as its deadline does."""
    client = daemon.client()
    client.get(f"{queue}/abort/token={item.token}")
    client.close()


# -- what is not lost -----------------------------------------------------------------------


def test_a_cut_connection_loses_nothing(daemon: DaemonProcess, queue: str) -> None:
    seen = []
    with Proxy(daemon.port) as wire:
        worker = Worker(queue, wire.address)
        for item in worker:
            seen.append(item.body)
            wire.cut()
            if item.body == b"two":
                worker.stop()

    assert seen == [b"one", b"two"]
    assert left(daemon, queue) == []
    assert counts(daemon, queue)["open_transactions"] == 0


@pytest.mark.parametrize("end", ["confirm", "abort", "defer"])
def test_an_item_ends_over_another_connection(
    daemon: DaemonProcess, queue: str, end: str
) -> None:
    with Proxy(daemon.port) as wire, Worker(queue, wire.address) as worker:
        item = take(worker)
        wire.cut()

        getattr(item, end)()

        assert counts(daemon, queue)["open_transactions"] == 0
    assert left(daemon, queue) == ([b"two"] if end == "confirm" else [b"one", b"two"])


def test_a_killed_daemon_that_comes_back_in_time_loses_nothing(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put(daemon, "q", b"one", b"two")
        worker = worker_of(daemon, "q")
        seen = []
        for item in worker:
            seen.append(item.body)
            daemon.kill()
            daemon.start()
            if len(seen) == 2:
                worker.stop()

        assert seen == [b"one", b"two"]
        assert left(daemon, "q") == []


def test_a_confirm_is_said_until_the_server_is_back(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put(daemon, "q", b"one", b"two")
        with worker_of(daemon, "q") as worker:
            item = take(worker)
            daemon.kill()
            confirming = threading.Thread(target=item.confirm)
            confirming.start()
            daemon.start()
            confirming.join(10)

            assert not confirming.is_alive()
        assert left(daemon, "q") == [b"two"]


# -- what is lost ---------------------------------------------------------------------------


def test_confirm_and_bury_after_the_lease_say_lease_lost(
    daemon: DaemonProcess, queue: str
) -> None:
    with worker_of(daemon, queue) as worker:
        item = take(worker)
        end_lease(daemon, queue, item)

        with pytest.raises(LeaseLost, match=f"{queue}: token {item.token} of {queue} is not valid"):
            item.confirm()

        assert item.is_lost
        assert item.should_stop
        for end in (item.confirm, lambda: item.bury("why")):
            with pytest.raises(LeaseLost, match="the lease of this item is over"):
                end()
        item.abort()  # it went back already, as intended
    assert left(daemon, queue) == [b"one", b"two"]


def test_a_lease_that_ended_is_said_in_the_loop_which_goes_on(
    daemon: DaemonProcess, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = []
    with caplog.at_level(logging.WARNING):
        worker = worker_of(daemon, queue)
        for item in worker:
            seen.append(item.body)
            if len(seen) == 1:
                end_lease(daemon, queue, item)
            if item.body == b"two":
                worker.stop()

    assert seen == [b"one", b"one", b"two"]
    assert f"{queue}: the leased item may be handled again: token " in caplog.text
    assert left(daemon, queue) == []


def test_no_other_worker_s_item_is_confirmed(daemon: DaemonProcess, queue: str) -> None:
    with worker_of(daemon, queue) as slow, worker_of(daemon, queue) as other:
        item = take(slow)
        end_lease(daemon, queue, item)
        assert take(other).body == b"one"

        with pytest.raises(LeaseLost):
            item.confirm()

        assert counts(daemon, queue)["open_transactions"] == 1
    assert left(daemon, queue) == [b"one", b"two"]


def test_an_interrupted_fetch_leaves_nothing_that_could_be_confirmed(
    daemon: DaemonProcess, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(key: str) -> None:
        raise KeyboardInterrupt

    with worker_of(daemon, queue) as worker:
        one = take(worker)
        with monkeypatch.context() as patch:
            patch.setattr(worker._connection, "open", interrupted)
            with pytest.raises(KeyboardInterrupt):
                worker.fetch()

        with pytest.raises(LeaseLost):
            one.confirm()

        assert counts(daemon, queue)["open_transactions"] == 1  # until its lease is over


def test_a_confirm_without_an_answer_ends_with_the_lease(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        put(daemon, "q", b"one")
        with worker_of(daemon, "q", lease="1s") as worker:
            item = take(worker)
            daemon.kill()

            with pytest.raises(LeaseLost, match="q: Connection refused"):
                item.confirm()

            assert item.is_lost


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


def test_on_a_full_disk_items_are_leased_by_connection_and_it_empties(tmp_path: Path) -> None:
    config = '[journal]\nsegment_min = "16KiB"\n'
    with DaemonProcess(tmp_path / "data", config=config) as daemon:
        put(daemon, "q", b"first")
        daemon.config_file.write_text(config + '[server]\nmin_disk_free = "8000000GiB"\n')
        client = daemon.client()
        assert client.raw_command(b"reload") == b"Reloaded config."
        stored = 1
        with contextlib.suppress(MemcacheServerError):
            while client.set("q", bytes(1000)):
                stored += 1
        with pytest.raises(MemcacheServerError, match="disk full"):
            client.gets("q/open/lease=30s")
        worker = worker_of(daemon, "q")
        for seen, _ in enumerate(worker, 1):
            if seen == stored:
                worker.stop()

        assert counts(daemon, "q")["items"] == counts(daemon, "q")["open_transactions"] == 0
        assert counts(daemon, "q")["canceled_transactions"] == 0
