"""`backfill` and `copy` killed in the middle and run again: each row and item is there once.

A queue with room for some items holds the job in the middle, until a consumer makes room. Bodies
are compared as multisets.

Promise: spark-sink.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw
from tests.support.spark_classes import submit_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
ROOM = 1_000
ROWS = 5 * ROOM
LINES = [f"line {n % 3_100}" for n in range(ROWS)]
BODIES = Counter(line.encode() for line in LINES)
SECONDS = 240.0
FULL = f"[queues.full]\nmax_items = {ROOM}\n"


class Consumer:
    """Takes items of the queue `full` of a server; each of them counts."""

    def __init__(self, daemon: DaemonProcess) -> None:
        self._port = daemon.port
        self.taken: Counter[bytes] = Counter()

    def waiting(self) -> int:
        """Return how many items wait in the queue."""
        with Raw(("127.0.0.1", self._port)) as raw:
            return int(raw.stats(b"stats full").get("queue_full_items", 0))

    def take(self, most: int = ROWS) -> int:
        """Take what is there; return how many it was."""
        count = 0
        with Raw(("127.0.0.1", self._port)) as raw:
            while count < most:
                raw.send(b"get full\r\n")
                if raw.line() == b"END":
                    break
                self.taken[raw.line()] += 1
                raw.expect(b"END\r\n")
                count += 1
        return count

    def take_until(self, ended: threading.Event) -> None:
        """Take what comes, also what came last."""
        while not ended.wait(0.02) or self.waiting():
            self.take()


class Job:
    """A job in processes of its own; its group has the virtual machine and all of its workers."""

    def __init__(self, folder: Path, name: str, *words: str) -> None:
        environment = {
            **os.environ, "PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": submit_options(),
            "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13",
        }  # fmt: skip
        self._said = folder / f"{name}.log"
        self._log = self._said.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"kestrelpy.spark.jobs.{name}", *words], cwd=folder,
            env=environment, start_new_session=True, stdout=self._log, stderr=self._log,
        )  # fmt: skip

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until it is so, while the job runs."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert self._process.poll() is None, f"not so: {what}\n{self._said.read_text()}"
            assert time.monotonic() < deadline, f"not in {SECONDS} s: {what}"
            time.sleep(0.02)

    def pids(self, words: bytes) -> set[int]:
        """Its processes with these words in their command."""
        found = set()
        for each in Path("/proc").glob("[0-9]*"):
            try:
                session = int((each / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self._process.pid and words in (each / "cmdline").read_bytes():
                    found.add(int(each.name))
            except (OSError, ProcessLookupError):
                continue
        return found

    def kill(self, words: bytes = b"") -> None:
        """Kill these of its processes; all of them without words."""
        for pid in self.pids(words):
            os.kill(pid, signal.SIGKILL)
        if not words:
            self._process.wait(30)
            self._log.close()


@pytest.fixture
def target(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "target", config=FULL) as daemon:
        yield daemon


@pytest.fixture
def jobs() -> Iterator[list[Job]]:
    """Jobs that a test starts; none is left behind."""
    started: list[Job] = []
    yield started
    for job in started:
        job.kill()


def again(name: str, words: list[str], consumer: Consumer) -> None:
    """Run the job to its end, in the Spark of the tests, while a consumer makes room."""
    main = import_module(f"kestrelpy.spark.jobs.{name}").main
    ended = threading.Event()
    taking = threading.Thread(target=consumer.take_until, args=[ended])
    taking.start()
    try:
        assert main(words) == 0
    finally:
        ended.set()
        taking.join(SECONDS)


def test_a_backfill_that_is_killed_and_run_again_stores_each_row_once(
    tmp_path: Path, target: DaemonProcess, jobs: list[Job]
) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in LINES))
    words = [str(file), "--servers", f"127.0.0.1:{target.port}", "--queue", "full"]
    consumer = Consumer(target)

    job = Job(tmp_path, "backfill", *words)
    jobs.append(job)
    job.until(lambda: consumer.waiting() == ROOM, "the queue is full")
    assert consumer.take(ROOM) == ROOM
    job.until(lambda: consumer.waiting() == ROOM, "it goes on")
    job.kill()
    again("backfill", words, consumer)

    assert consumer.taken == BODIES


def test_a_copy_that_is_killed_and_run_again_copies_each_item_once(
    spark: SparkSession, tmp_path: Path, target: DaemonProcess, jobs: list[Job]
) -> None:
    consumer = Consumer(target)
    with DaemonProcess(tmp_path / "a") as a, DaemonProcess(tmp_path / "b") as b:
        for at, daemon in enumerate((a, b)):
            with Raw(("127.0.0.1", daemon.port)) as raw:
                for line in LINES[at::2]:
                    raw.send(b"set full 0 0 %d noreply\r\n%b\r\n" % (len(line), line.encode()))
                raw.ask(b"get none\r\n", b"END\r\n")
        words = ["--servers", f"127.0.0.1:{a.port},127.0.0.1:{b.port}", "--queues", "full", "--to",
                 f"127.0.0.1:{target.port}"]  # fmt: skip

        job = Job(tmp_path, "copy", *words, "--master", "local[2]")
        jobs.append(job)
        job.until(lambda: consumer.waiting() == ROOM, "the queue is full")
        job.kill()
        again("copy", words, consumer)

    assert consumer.taken == BODIES
