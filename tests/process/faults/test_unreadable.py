"""A real daemon whose disk gives other bytes than it was given: every door says so, until an
operator acknowledges the loss."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

ITEMS = 300
CONFIG = """
[server]
max_memory = "64KiB"
[queue_defaults]
max_memory = "16KiB"
[journal]
segment_min = "64KiB"
segment_max = "64KiB"
"""

pytestmark = pytest.mark.slow


def body(number: int) -> bytes:
    return b"%01000d" % number


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG, http_port="0") as process:
        yield process


def web(daemon: DaemonProcess, path: str, method: str = "GET") -> str:
    ask = Request(f"http://127.0.0.1:{daemon.http_port}{path}", method=method)
    with urlopen(ask, timeout=30) as answer:
        return str(answer.read().decode())


def zero_half_a_segment(daemon: DaemonProcess) -> None:
    """Zero half of a segment in the middle of the log."""
    segments = sorted(daemon.data_dir.glob("q.*/*.segment"))
    path = segments[len(segments) // 2 - 1]
    with path.open("r+b") as file:
        file.seek(32 << 10)
        file.write(bytes(32 << 10))


def take_all(raw: Raw) -> list[bytes]:
    bodies = []
    while True:
        raw.send(b"get q/close/open\r\n")
        line = raw.line()
        if line == b"END":
            return bodies
        assert line.startswith(b"VALUE"), line
        bodies.append(raw.line())
        raw.expect(b"END\r\n")


def test_items_that_cannot_be_read_are_counted_until_their_loss_is_acknowledged(
    daemon: DaemonProcess,
) -> None:
    with Raw(("127.0.0.1", daemon.port)) as raw:
        for number in range(ITEMS):
            raw.send(b"set q 0 0 1000\r\n%b\r\n" % body(number))
        raw.expect(b"STORED\r\n" * ITEMS)
        assert json.loads(web(daemon, "/health"))["status"] == "ok"
        zero_half_a_segment(daemon)
        taken = take_all(raw)

        lost = sorted({body(number) for number in range(ITEMS)} - set(taken))
        assert 10 < len(lost) < ITEMS // 2
        first, last = int(lost[0]) + 1, int(lost[-1]) + 1
        said = f"{len(lost)} items cannot be read: {first} to {last}"
        facts = raw.stats()
        assert facts["health"] == facts["queue_q_state"] == "damaged"
        assert facts["queue_q_unreadable"] == str(len(lost))
        assert facts["queue_q_reason"].replace("_", " ") == said
        health = json.loads(web(daemon, "/health"))
        assert (health["status"], health["unwell"]) == ("damaged", ["q"])
        assert json.loads(web(daemon, "/ready"))["ready"], "it takes new items"
        assert json.loads(web(daemon, "/admin/queues/q"))["facts"]["reason"] == said
        metrics = web(daemon, "/metrics")
        assert f'kestrelpy_items_unreadable{{queue="q"}} {len(lost)}.0' in metrics
        assert 'kestrelpy_queues{state="damaged"} 1.0' in metrics
        text = f"q: its journal is damaged: {said}"
        wait_until(lambda: text in web(daemon, "/views?view=overview"), "the page says it")

        path = "/admin/queues/q/acknowledge"
        assert json.loads(web(daemon, f"{path}?dry_run=true", "POST")) == {
            "count": len(lost), "is_dry_run": True,
        }
        assert raw.stats()["queue_q_unreadable"] == str(len(lost))
        done = subprocess.run(
            [sys.executable, "-m", "kestrelpy", "queues", "acknowledge", "q", "--yes",
             "--server", f"127.0.0.1:{daemon.port}"],
            capture_output=True, text=True, check=True, timeout=60,
        )  # fmt: skip
        assert done.stdout == f"gave up {len(lost)} items of q\n"
        assert raw.stats()["health"] == "ok"
    daemon.kill()
    daemon.start()
    with Raw(("127.0.0.1", daemon.port)) as raw:
        assert take_all(raw) == []
        facts = raw.stats()
        assert (facts["queue_q_unreadable"], facts["queue_q_items"]) == ("0", "0")
