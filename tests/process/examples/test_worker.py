"""The worker on plain pymemcache: written down before it is confirmed, and unsure when cut off."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.examples.worker import Worker
from tests.process.client.proxy import Proxy
from tests.support.daemon import DaemonProcess


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data") as running:
        yield running


def test_the_worker_writes_down_before_it_confirms(daemon: DaemonProcess, tmp_path: Path) -> None:
    client = daemon.client()
    client.set("q", b"0 some line")
    client.set("q", b"1 another")
    results = tmp_path / "results"
    worker = Worker([("127.0.0.1", daemon.port)], "q", str(results))
    handled = worker.handle

    def handle(body: bytes) -> None:
        assert client.stats("q")[b"queue_q_open_transactions"] == 1
        handled(body)
        if body.startswith(b"1"):
            worker.stop()

    worker.handle = handle
    worker.run()

    checksums = [zlib.crc32(b"some line"), zlib.crc32(b"another")]
    assert results.read_text() == "done 0 {:08x}\ndone 1 {:08x}\n".format(*checksums)
    assert client.stats("q")[b"queue_q_open_transactions"] == 0
    assert client.get("q") is None


def test_an_item_whose_confirm_was_not_answered_is_noted_and_handled_again(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    daemon.client().set("q", b"0 some line")
    results = tmp_path / "results"
    with Proxy(daemon.port) as wire:
        worker = Worker([wire.address], "q", str(results))
        handled = worker.handle

        def handle(body: bytes) -> None:
            first = not results.read_bytes()
            handled(body)
            if first:
                wire.cut()
            else:
                worker.stop()

        worker.handle = handle
        worker.run()

    words = [line.split()[:2] for line in results.read_text().splitlines()]
    assert words == [["done", "0"], ["unsure", "0"], ["done", "0"]]
    assert daemon.client().get("q") is None
