"""`kestrelpy export-kestrel`: Kestrel gets what the daemon would deliver, in its order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess
from tests.support.kestrel import add, left, opened


@pytest.fixture
def run(tmp_path: Path) -> Command:
    return Command(1, tmp_path)


def test_a_directory_comes_back_as_it_was(run: Command, tmp_path: Path) -> None:
    source, later = tmp_path / "kestrel", (time.time_ns() // 1_000_000) + 10**9
    source.mkdir()
    items = [add(b"%d" % n * 40, expires_ms=later * (n % 2)) for n in range(3000)]
    (source / "jobs.7").write_bytes(b"".join(items[:1000]))
    (source / "jobs").write_bytes(b"".join(items[1000:]) + opened(1) + opened(2))
    (source / "jobs+audit").write_bytes(b"".join(items[5:8]) + add(b""))

    assert run("import-kestrel", str(source), "--data-dir", "data").code == 0
    ended = run("export-kestrel", "out", "--data-dir", "data")

    assert ended.code == 0
    assert ended.out.endswith(b"exported into out: 2 queues, 3004 items\n")
    assert (tmp_path / "out" / "jobs").read_bytes() == b"".join(items)
    assert (tmp_path / "out" / "jobs+audit").read_bytes() == b"".join(items[5:8]) + add(b"")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["jobs", "jobs+audit"]


def test_items_stand_in_the_sequence_of_their_delivery(run: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        client.get("q+c/peek")
        assert client.set("q/delay=1h", "late")
        assert client.set("q/delay=200ms", "soon")
        for body in ("a", "b"):
            assert client.set("q", body)
        for body in (b"a", b"b", b"soon"):
            assert client.gets("q/open/lease=1h/t=10s")[0] == body
        client.close()
        daemon.stop()

    ended = run("export-kestrel", "out", "--data-dir", "data")

    assert ended.code == 0
    assert left((tmp_path / "out" / "q").read_bytes()) == [b"a", b"b", b"soon", b"late"]
    assert b"q: 4 items, 1 of them were delayed\n" in ended.out
    with DaemonProcess(tmp_path / "data") as daemon:  # it keeps them all
        assert daemon.client().stats()[b"queue_q_leased"] == 3


def test_dead_letters_stay_and_are_counted(run: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        assert client.set("q", "bad") and client.set("q", "good")
        assert client.get("q/open") == b"bad"
        client.get("q/abort/dead")
        client.close()
        daemon.stop()

    ended = run("export-kestrel", "out", "--data-dir", "data")

    assert ended.out.startswith(b"q: 1 items, 1 dead letters stay here\n")
    assert left((tmp_path / "out" / "q").read_bytes()) == [b"good"]


def test_what_cannot_be_exported_is_one_sentence(run: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        assert client.set("a.b", "x") and client.set("q", "y")
        client.close()
        running = run("export-kestrel", "out", "--data-dir", "data")
        assert running.is_sentence(2)
        assert "another kestrelpy is using this data directory; stop it first" in running.err
        daemon.stop()

    named = run("export-kestrel", "out", "--data-dir", "data")
    assert named.is_sentence(1)
    assert "a.b: not exported: Kestrel allows no . and no ~ in a name" in named.err
    assert (tmp_path / "out" / "q").exists()

    again = run("export-kestrel", "out", "--data-dir", "data")
    assert again.is_sentence(2)
    assert "it is not empty" in again.err
    assert run("export-kestrel", "new", "--data-dir", "nowhere").is_sentence(2)
    assert not (tmp_path / "nowhere").exists()
    assert run("export-kestrel", "new", "--data-dir", "data", "--queue", "nosuch").is_sentence(2)
    only = run("export-kestrel", "only", "--data-dir", "data", "--queue", "q")
    assert only.code == 0
    assert [path.name for path in (tmp_path / "only").iterdir()] == ["q"]


def test_a_damaged_item_is_named_and_the_others_are_exported(
    run: Command, tmp_path: Path
) -> None:
    source = tmp_path / "kestrel"
    source.mkdir()
    (source / "q").write_bytes(add(b"first") + add(b"SECOND" * 20) + add(b"third"))
    assert run("import-kestrel", str(source), "--data-dir", "data").code == 0
    (segment,) = (tmp_path / "data").glob("q.*/*.segment")
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"SECOND", b"SECONd", 1))

    ended = run("export-kestrel", "out", "--data-dir", "data")

    assert ended.code == 1
    assert ".segment" in ended.err
    assert left((tmp_path / "out" / "q").read_bytes()) == [b"first", b"third"]
