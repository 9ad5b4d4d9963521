"""`kestrelpy journal` over dead and live directories: facts, exit codes, and no harm done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.process.cli.command import Command
from tests.process.cli.load import drained
from tests.support.daemon import DaemonProcess


def stopped(path: Path, *bodies: bytes) -> Path:
    """A data directory with a queue `jobs`, and no daemon."""
    with DaemonProcess(path) as daemon:
        client = daemon.client()
        for each in bodies:
            assert client.set("jobs", each)
        daemon.stop()
    return path


def body(number: int) -> bytes:
    return b"item %03d " % number * 100


def damaged(path: Path) -> Path:
    """Damage one of three hundred items; return its place."""
    stopped(path, *map(body, range(300)))
    segment = min(path.rglob("*.segment"))
    content = bytearray(segment.read_bytes())
    content[content.find(b"item 020")] ^= 1
    segment.write_bytes(content)
    return segment


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_journal_reads_a_data_directory(kestrelpy: Command, tmp_path: Path) -> None:
    stopped(tmp_path / "data", b"hello")
    verified = kestrelpy("journal", "verify", str(tmp_path / "data"))
    dumped = kestrelpy("journal", "dump", "--bodies", "--data-dir", str(tmp_path / "data"))
    assert verified.code == 0, verified
    assert b"queue jobs, 1 segment" in verified.out
    assert b"no daemon is running here\n" in verified.out
    assert dumped.code == 0, dumped
    assert b"hello" in dumped.out


def test_without_a_folder_it_is_the_configured_one(kestrelpy: Command, tmp_path: Path) -> None:
    stopped(tmp_path / "elsewhere", b"hello")
    (tmp_path / "kestrelpy.toml").write_text('[server]\ndata_dir = "elsewhere"\n')
    verified = kestrelpy("journal", "verify")
    assert verified.code == 0, verified
    assert b"elsewhere" in verified.out
    assert kestrelpy("journal", "verify", "x", "--data-dir", "y").is_sentence(2)


def test_a_running_daemon_is_no_damage_and_is_reported(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        daemon.client().set("jobs", b"hello")
        verified = kestrelpy("journal", "verify", "data", "--json")
        assert verified.code == 0, verified
        facts = json.loads(verified.out)
        assert facts["daemon_running"] is True
        assert facts["clean"] is True
        assert facts["journals"][0]["live_items"] == 1


def test_a_dump_is_of_one_queue_from_one_record_on_and_for_programs(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        for queue in ("jobs", "Other"):
            for each in (b"one", b"\xff\x00", b"three"):
                client.set(queue, each)
        dumped = kestrelpy("journal", "dump", "data", "--queue", "Other", "--from-lsn", "2",
                           "--json")  # fmt: skip
    assert dumped.code == 0, dumped
    lines = [json.loads(line) for line in dumped.out.splitlines()]
    assert all(line["folder"].startswith("%4Fther.") for line in lines)
    assert [line["lsn"] for line in lines] == list(range(2, 2 + len(lines)))
    puts = [line for line in lines if line["kind"] == "put"]
    assert puts[-2]["body_base64"] == "/wA="
    assert puts[-1]["body"] == "three"
    assert kestrelpy("journal", "dump", "data", "--queue", "none").code == 2


def test_a_folder_without_a_journal_is_one_sentence_and_exit_code_2(
    kestrelpy: Command, tmp_path: Path
) -> None:
    ended = kestrelpy("journal", "verify", str(tmp_path))

    assert ended.code == 2, ended
    assert ended.err.count("\n") == 1
    assert kestrelpy("journal").code == 2
    assert b"dump" in kestrelpy("journal", "--help").out


@pytest.mark.slow
def test_a_repair_sets_damage_aside_and_all_the_rest_is_served(
    kestrelpy: Command, tmp_path: Path
) -> None:
    segment = damaged(tmp_path / "data")
    before = listing(tmp_path / "data")
    verified = kestrelpy("journal", "verify", "data")
    assert verified.code == 1, verified
    assert b"may have held items 21 to 21" in verified.out

    dry = kestrelpy("journal", "repair", "data", "--dry-run")
    assert dry.code == 1, dry
    assert b"may have held items 21 to 21" in dry.out
    assert b"are kept as set-aside/0000000001.segment." in dry.out
    refused = kestrelpy("journal", "repair", "data", stdin=b"\n")
    assert refused.code == 1, refused
    assert b"nothing was changed" in refused.out
    assert listing(tmp_path / "data") == before

    done = kestrelpy("journal", "repair", "data", stdin=b"y\n")
    assert done.code == 0, done
    assert b"clean\n" in done.out
    (copy,) = (segment.parent / "set-aside").iterdir()
    assert b"item 020 " * 99 in copy.read_bytes()
    after = listing(tmp_path / "data")
    again = kestrelpy("journal", "repair", "data")
    assert again.code == 0, again
    assert b"nothing is damaged" in again.out
    assert listing(tmp_path / "data") == after
    with DaemonProcess(tmp_path / "data") as daemon:
        assert drained(daemon) == [body(n) for n in range(300) if n != 20]


@pytest.mark.slow
def test_a_repair_needs_the_directory_for_itself(kestrelpy: Command, tmp_path: Path) -> None:
    damaged(tmp_path / "data")
    with DaemonProcess(tmp_path / "data"):
        for folder in ("data", str(next((tmp_path / "data").glob("jobs.*")))):
            ended = kestrelpy("journal", "repair", folder, "--yes")
            assert ended.code == 2, ended
            assert ended.out == b""
            assert ended.err == f"kestrelpy: {folder}: a daemon is running here; stop it first\n"
