"""Modes that change under a daemon that is not root: nothing that was STORED is lost.

Promise closed-file: modes of the directory, of a queue's folder and of a segment under a daemon
    that is not root.
Promise: no-new-queue.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

# Root may open everything: the daemon gets another user.
SECONDS = 30.0
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
PREFIX = NOBODY if os.geteuid() == 0 else ()

pytestmark = pytest.mark.skipif(
    bool(PREFIX) and shutil.which("setpriv") is None, reason="setpriv makes it another user"
)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may use: pytest's own folders belong to its user."""
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o777)
        yield Path(path)


def closed(data: Path, what: str) -> Path:
    queue = next(data.glob("q.*"))
    return {"data": data, "queue": queue, "segment": next(queue.glob("*1.segment"))}[what]


@pytest.mark.parametrize("what", ["data", "queue", "segment"])
def test_no_stored_item_is_lost_when_a_folder_or_a_file_is_closed_to_the_daemon(
    folder: Path, what: str
) -> None:
    daemon = DaemonProcess(folder / "data")
    daemon.config_file.chmod(0o644)
    with daemon.start(*PREFIX):
        stored = 0
        with Raw(("127.0.0.1", daemon.port)) as raw:
            raw.ask(b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
            path = closed(daemon.data_dir, what)
            mode = path.stat().st_mode
            path.chmod(0)
            for _ in range(20):
                raw.send(b"set q 0 0 1\r\ny\r\n")
                said = raw.line()
                assert said == b"STORED" or said.startswith(b"SERVER_ERROR "), said
                stored += said == b"STORED"
            path.chmod(mode)
        assert daemon.stop() == 0
        assert not [each for each in daemon.lines if "Traceback" in each]

        daemon.start(*PREFIX)

        with Raw(("127.0.0.1", daemon.port)) as raw:
            for body in (b"x", *[b"y"] * stored):
                raw.ask(b"get q\r\n", b"VALUE q 0 1\r\n%b\r\nEND\r\n" % body)
        assert daemon.stop() == 0


def test_a_new_queue_is_refused_at_once_where_no_file_can_be_made(folder: Path) -> None:
    daemon = DaemonProcess(folder / "data", http_port="0")
    daemon.config_file.chmod(0o644)
    with daemon.start(*PREFIX), Raw(("127.0.0.1", daemon.port)) as raw:
        raw.ask(b"set q 0 0 1\r\nx\r\n", b"STORED\r\n")
        daemon.data_dir.chmod(0o500)
        until(lambda: "no new queue is made" in "".join(daemon.lines))
        why = b"no new queue is made: this process may make no file in "
        for request in (
            b"set new 0 0 1\r\nx\r\n", b"set new 0 0 1\r\nx\r\n", b"set new/declare 0 0 0\r\n\r\n",
            b"get new+child/peek\r\n",
        ):  # fmt: skip
            raw.send(request)
            assert raw.line() == b"SERVER_ERROR %b%b" % (why, str(daemon.data_dir).encode())
        item = urllib.request.Request(
            f"http://127.0.0.1:{daemon.http_port}/queues/new/items", b"x", method="POST"
        )
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(item)
        assert refused.value.code == 503
        assert why.decode() in refused.value.read().decode()
        raw.ask(b"set q 0 0 1\r\ny\r\n", b"STORED\r\n")
        told = raw.stats()
        assert told["health"] == "no_new_queue"
        assert told["health_reason"] == (why.decode() + str(daemon.data_dir)).replace(" ", "_")
        said = urllib.request.urlopen(f"http://127.0.0.1:{daemon.http_port}/ready").read().decode()
        assert why.decode() in said

        daemon.data_dir.chmod(0o700)
        until(lambda: "new queues can be made again" in "".join(daemon.lines))
        raw.ask(b"set new 0 0 1\r\nx\r\n", b"STORED\r\n")
        assert raw.stats()["health"] == "ok"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
