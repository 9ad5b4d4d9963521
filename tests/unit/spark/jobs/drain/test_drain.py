"""A drained item is in one file and in no queue, whatever is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs import drain
from kestrelpy.spark.jobs.drain import main
from tests.support.daemon import DaemonProcess
from tests.support.spark_fixture import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
CONFIG = '[queues.kept]\nretain = "1h"\n[queue_defaults]\nmax_attempts = 1\n'
PATIENCE_SECONDS = 120.0


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as process:
        yield process


def put(daemon: DaemonProcess, queue: str, *bodies: bytes) -> None:
    client = daemon.client()
    for body in bodies:
        assert client.set(queue, body)
    client.close()


def left(daemon: DaemonProcess, queue: str) -> int:
    client = daemon.client()
    items = int(client.stats(queue)[f"queue_{queue}_items".encode()])
    client.close()
    return items


def written(spark: SparkSession, out: Path) -> Counter[bytes]:
    rows = spark.read.parquet(str(out)).select("value").collect()
    return Counter(bytes(row.value) for row in rows)


def words(daemon: DaemonProcess, queues: str, out: Path) -> list[str]:
    return ["--servers", f"127.0.0.1:{daemon.port}", "--queues", queues, "--out", str(out)]


def run(capsys: pytest.CaptureFixture[str], *said: str) -> dict[str, Any]:
    code = main([*said, "--json"])
    told = capsys.readouterr()
    assert code == 0, told.err
    facts: dict[str, Any] = json.loads(told.out)
    return facts


def test_a_queue_goes_to_parquet_by_date_in_several_commits_and_a_second_run_adds_what_came(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    bodies = [b"%d" % n for n in range(50)] + [b"same", b"same"]
    put(daemon, "jobs", *bodies)

    first = run(capsys, *words(daemon, "jobs", out), "--at-once", "20")
    put(daemon, "jobs", b"late")
    second = run(capsys, *words(daemon, "jobs", out))
    third = run(capsys, *words(daemon, "jobs", out))

    assert (first["items"], first["commits"]) == (52, 3)
    assert (second["items"], third["items"], third["commits"]) == (1, 0, 0)
    assert written(spark, out) == Counter([*bodies, b"late"])
    assert left(daemon, "jobs") == 0
    assert {path.name[:5] for path in out.iterdir()} == {"date=", "_kest"}
    row = spark.read.parquet(str(out)).where("value = binary('late')").collect()[0]
    assert (row.queue, row.marker, row.flags) == ("jobs", 53, 0)


def test_a_child_is_drained_and_its_queue_keeps_its_items(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = daemon.client()
    client.get("kept+drain/peek")
    put(daemon, "kept", b"1", b"2", b"3")
    assert client.get("kept") == b"1"  # its own consumers go on
    client.close()

    facts = run(capsys, *words(daemon, "kept+drain", tmp_path / "out"))
    again = run(capsys, *words(daemon, "kept+drain", tmp_path / "out"))

    assert (facts["items"], again["items"]) == (3, 0)
    assert written(spark, tmp_path / "out") == Counter([b"1", b"2", b"3"])
    assert left(daemon, "kept+drain") == 0
    assert left(daemon, "kept") == 2


def test_a_queue_of_which_items_may_come_back_is_refused(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(daemon, "jobs", b"1", b"2")
    client = daemon.client()
    client.get("jobs/open")
    leased = main(words(daemon, "jobs", tmp_path / "out"))
    client.get("jobs/abort")
    dead = main(words(daemon, "jobs", tmp_path / "out"))
    client.close()

    told = capsys.readouterr().err.splitlines()
    assert (leased, dead) == (2, 2)
    assert "cannot be drained while items of it may come back (1 leased)" in told[0]
    assert "(1 dead letters). Drain a child of it (jobs+drain)" in told[1]
    assert left(daemon, "jobs") == 1


def test_a_killed_run_that_had_committed_is_finished_by_the_next_one(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kill comes between the commit and the confirm: the items are in both places."""
    class Killed(BaseException):
        pass

    def die(*_: object) -> None:
        raise Killed

    out = tmp_path / "out"
    put(daemon, "jobs", b"1", b"2")
    with monkeypatch.context() as patch:
        patch.setattr(drain, "_confirm_at", die)
        with pytest.raises(Killed):
            main(words(daemon, "jobs", out))
    assert left(daemon, "jobs") == 2
    put(daemon, "jobs", b"3")

    facts = run(capsys, *words(daemon, "jobs", out))

    assert facts["items"] == 1
    assert written(spark, out) == Counter([b"1", b"2", b"3"])
    assert left(daemon, "jobs") == 0


def killed_runs(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, kills: int, seed: int
) -> None:
    """Kill the job's process group at random moments while items come, then let it end."""
    chance, out = random.Random(seed), tmp_path / "out"
    bodies: list[bytes] = []
    command = [sys.executable, "-m", "kestrelpy.spark.jobs.drain", *words(daemon, "jobs", out),
               "--at-once", "40", "--master", "local[1]"]  # fmt: skip
    place = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    for number in range(kills + 1):
        some = [b"%d-%d" % (number, n) for n in range(100)]
        put(daemon, "jobs", *some)
        bodies += some
        process = subprocess.Popen(
            command, env=place, start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if number == kills:
            assert process.wait(PATIENCE_SECONDS) == 0
            break
        _wait_for_a_moment(out, chance, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    assert written(spark, out) == Counter(bodies), f"seed {seed}"
    assert left(daemon, "jobs") == 0


def _wait_for_a_moment(
    out: Path, chance: random.Random, process: subprocess.Popen[bytes]
) -> None:
    """Wait until the job stages files, has a commit to finish, or has made one: by chance."""
    place = out / "_kestrelpy" / "drain"
    wanted = chance.choice(["staged", "commit.json", "state.json"])
    deadline = time.monotonic() + PATIENCE_SECONDS
    before = (place / "state.json").stat().st_mtime_ns if (place / "state.json").exists() else 0
    while time.monotonic() < deadline and process.poll() is None:
        path = place / wanted
        if path.exists() and (wanted != "state.json" or path.stat().st_mtime_ns > before):
            return


def test_a_kill_of_the_job_at_a_random_moment_loses_and_doubles_nothing(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path
) -> None:
    killed_runs(spark, daemon, tmp_path, 1, random.randrange(1 << 30))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_of_the_job_lose_and_double_nothing(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path, seed: int
) -> None:
    killed_runs(spark, daemon, tmp_path, 5, seed)


def test_the_items_of_a_commit_need_their_server(
    spark: SparkSession, daemon: DaemonProcess, tmp_path: Path,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise KestrelError("The server went away.")

    put(daemon, "jobs", b"1")
    with monkeypatch.context() as patch:
        patch.setattr(drain, "_confirm_at", refuse)
        assert main(words(daemon, "jobs", tmp_path / "out")) == 2
    with DaemonProcess(tmp_path / "other") as other:
        put(other, "jobs", b"x")
        code = main(words(other, "jobs", tmp_path / "out"))

    assert code == 2
    assert "they are not confirmed yet. Name that server as well." in capsys.readouterr().err
    assert run(capsys, *words(daemon, "jobs", tmp_path / "out"))["items"] == 0
    assert left(daemon, "jobs") == 0
    assert written(spark, tmp_path / "out") == Counter([b"1"])
