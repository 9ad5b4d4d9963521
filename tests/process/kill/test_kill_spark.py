"""Spark from queue to queue while the driver, its workers and the servers are killed.

Bodies are compared as multisets: one lost and one doubled row would not show in a count.

Promise spark-sink: the driver (its whole process group), the processes of tasks and servers killed
    at random, a driver killed inside the sink's commit; a batch repeated in another order and with
    other partitions; a server that hangs up, hangs, is full, read-only or another one. Multisets of
    bodies are compared, and the same check fails without ids.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kestrelpy.spark.session import what_is_missing
from tests.support.daemon import DaemonProcess
from tests.support.kills import new_seed
from tests.support.raw import Raw
from tests.support.spark_classes import submit_options
from tests.support.spark_driver import CURSOR

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
ROWS = 2_000
BODIES = Counter(f"line {n % 1_300}".encode() for n in range(ROWS))
SECONDS = 240.0


class Pipe:
    """Two servers with the queues `in` and `out`, and one driver at a time between them."""

    def __init__(self, folder: Path, daemons: list[DaemonProcess]) -> None:
        self.folder, self.daemons = folder, daemons
        self.checkpoint = folder / "checkpoint"
        self.hold = folder / "hold"
        self.driver: subprocess.Popen[bytes] | None = None
        self.killed: Counter[str] = Counter()

    @property
    def where(self) -> str:
        """What the driver is told to read and write."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.daemons)

    def put(self) -> None:
        for at, daemon in enumerate(self.daemons):
            with Raw(("127.0.0.1", daemon.port)) as raw:
                for n in range(at, ROWS, len(self.daemons)):
                    body = f"line {n % 1_300}".encode()
                    raw.ask(b"set in 0 0 %d\r\n%b\r\n" % (len(body), body), b"STORED\r\n")

    def start(self, *words: str) -> None:
        command = [
            sys.executable, "-m", "tests.support.spark_driver", self.where, "in", "out",
            str(self.checkpoint), *words,
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_SUBMIT_OPTS": submit_options()}
        self.driver = subprocess.Popen(
            command, cwd=self.folder, env=environment, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip

    def wait_for(self, condition: Callable[[], bool], what: str) -> bool:
        """Wait until the condition holds; return False if the driver ended before."""
        assert self.driver is not None
        deadline = time.monotonic() + SECONDS
        while not condition():
            if self.driver.poll() is not None:
                return False
            assert time.monotonic() < deadline, f"not in {SECONDS} s: {what}"
            time.sleep(0.01)
        return True

    def end(self) -> int:
        assert self.driver is not None
        return self.driver.wait(SECONDS)

    def kill_driver(self) -> None:
        """Kill the driver and its JVM; its Python processes end at their next read."""
        assert self.driver is not None
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait(30)
        self.killed["driver"] += 1

    def kill_workers(self) -> None:
        """Kill the processes that run tasks: Spark starts others and repeats the tasks."""
        for pid in self._session(b"pyspark.daemon"):
            os.kill(pid, signal.SIGKILL)
            self.killed["workers"] += 1

    def kill_server(self, at: int) -> None:
        self.daemons[at].kill()
        self.daemons[at].start()
        self.killed["server"] += 1

    def stop(self) -> None:
        """Leave no process behind."""
        self.hold.unlink(missing_ok=True)
        if self.driver is not None:
            for pid in self._session(b""):
                os.kill(pid, signal.SIGKILL)
            self.driver.wait(30)

    def _session(self, words: bytes) -> Iterator[int]:
        """The processes that the driver started, with these words in their command."""
        assert self.driver is not None
        for each in Path("/proc").glob("[0-9]*"):
            try:
                session = int((each / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.driver.pid and words in (each / "cmdline").read_bytes():
                    yield int(each.name)
            except (OSError, ProcessLookupError):
                continue

    def bodies(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        for daemon in self.daemons:
            with Raw(("127.0.0.1", daemon.port)) as raw:
                after = 0
                while values := raw.values(b"out/peek/after=%d/n=10000" % after):
                    found.update(body for _, body in values)
                    after = values[-1][0]
        return found

    def stored(self) -> int:
        """Return how many items came out; the tests ask this often."""
        count = 0
        for daemon in self.daemons:
            with Raw(("127.0.0.1", daemon.port)) as raw:
                count += int(raw.stats(b"stats out").get("queue_out_items", 0))
        return count

    def see_floor(self) -> None:
        """Check that the cursor never confirms more than the checkpoint has."""
        commits = [int(each.name) for each in (self.checkpoint / "commits").glob("[0-9]*")]
        places = {}
        if commits:
            text = (self.checkpoint / "offsets" / str(max(commits))).read_text()
            places = json.loads(text.splitlines()[-1])["places"]
        for daemon in self.daemons:
            with Raw(("127.0.0.1", daemon.port)) as raw:
                stats = raw.stats(b"stats markers")
                server = raw.stats()["server_id"]
            earliest = int(stats.get(f"queue_in+{CURSOR}_marker_earliest", 1))
            assert earliest - 1 <= places.get(server, {}).get("in", (0, 0))[1]


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    with DaemonProcess(tmp_path / "a") as a, DaemonProcess(tmp_path / "b") as b:
        made = Pipe(tmp_path, [a, b])
        made.put()
        try:
            yield made
        finally:
            made.stop()


def kill_them(pipe: Pipe, kinds: list[str]) -> None:
    """Kill these in turn, each after some more rows, then let the query, which runs, end."""
    chance = random.Random(new_seed())
    for kind in kinds:
        wanted = pipe.stored() + chance.randrange(1, ROWS // (2 * len(kinds)))

        def is_so(wanted: int = wanted) -> bool:
            return pipe.stored() >= wanted

        while not pipe.wait_for(is_so, "rows come out"):
            if pipe.end() == 0:
                return
            pipe.start()  # a task whose worker was killed four times ends the query
        if kind == "driver":
            pipe.kill_driver()
            pipe.see_floor()
            pipe.start()
        elif kind == "workers":
            pipe.kill_workers()
        else:
            pipe.kill_server(chance.randrange(2))
    while pipe.end():
        pipe.start()


def kill_in_commit(pipe: Pipe, *words: str) -> None:
    """Kill the driver between the sink's last row and the checkpoint, and start it again."""
    pipe.start("--hold", str(pipe.hold), *words)
    assert pipe.wait_for(pipe.hold.exists, "the sink's commit")
    pipe.kill_driver()
    pipe.see_floor()
    pipe.hold.unlink()
    pipe.start(*words)


def test_nothing_is_lost_or_doubled_while_driver_workers_and_server_are_killed(
    pipe: Pipe,
) -> None:
    kill_in_commit(pipe)
    kill_them(pipe, ["workers", "server"])

    assert pipe.killed["driver"] == 1
    assert pipe.bodies() == BODIES
    pipe.see_floor()


@pytest.mark.sweep
def test_the_same_check_fails_without_ids(pipe: Pipe) -> None:
    kill_in_commit(pipe, "--ids", "none")
    assert pipe.end() == 0

    found = pipe.bodies()
    assert found != BODIES
    assert not BODIES - found


@pytest.mark.sweep
def test_nothing_is_lost_or_doubled_over_many_kills(pipe: Pipe) -> None:
    expected = Counter({body: 3 * count for body, count in BODIES.items()})
    pipe.put()
    pipe.put()
    kinds = ["driver", "workers", "server"] * 5
    random.Random(new_seed()).shuffle(kinds)
    pipe.start()
    kill_them(pipe, kinds)

    found = pipe.bodies()
    lost, doubled = expected - found, found - expected
    print(
        f"killed {dict(pipe.killed)}, rows in {3 * ROWS}, rows out {sum(found.values())}, "
        f"lost {sum(lost.values())}, doubled {sum(doubled.values())}"
    )
    assert found == expected
    assert all(pipe.killed[kind] >= 5 for kind in kinds), "too few kills to prove anything"
    pipe.see_floor()
