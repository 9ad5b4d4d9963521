"""`kestrelpy import-kestrel`: what Kestrel would serve is served, once, whatever ends it."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from journal.files import Disk
from journal.format.kinds import Kind
from journal.recovery.recovery import Recovery
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.journals.import_kestrel import ImportReport, ImportRequest, bring_in
from tests.process.cli.command import Command, eventually
from tests.support.daemon import DaemonProcess
from tests.support.journals import TIME_MS
from tests.support.kestrel import FILES, REMOVED, add, golden, opened
from tests.support.memory_disk import MemoryDisk, PowerCut


@pytest.fixture
def run(tmp_path: Path) -> Command:
    return Command(1, tmp_path)  # no daemon is asked


@pytest.fixture
def src(tmp_path: Path) -> Path:
    made = tmp_path / "kestrel"
    made.mkdir()
    return made


def unwatched(doing: str) -> Callable[[int, int], None]:
    return lambda done, total: None


def taken(daemon: DaemonProcess, queue: str) -> list[bytes]:
    client, found = daemon.client(), list[bytes]()
    while (body := client.get(queue)) is not None:
        found.append(body)
    client.close()
    return found


def test_what_kestrel_would_serve_is_served(run: Command, src: Path, tmp_path: Path) -> None:
    for name in FILES:
        (src / name).write_bytes(golden(name))
    whole = {name for name in FILES if name not in ("V5", "V6")}

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert ended.code == 1  # V5 and V6 are damaged
    assert sorted(ended.err.splitlines()) == [
        f"kestrelpy: {src}/V5: offset 22: a record of unknown kind 127; the last 1 bytes of this "
        "file are left out",
        f"kestrelpy: {src}/V6: offset 22: a record says that it has 19 bytes, and the file has 16 "
        "more; the last 21 bytes of this file are left out",
    ]
    with DaemonProcess(tmp_path / "data") as daemon:
        for name, (_, bodies) in FILES.items():
            assert taken(daemon, name) == bodies, name
    assert f"{len(whole) + 1} queues".encode() in ended.out  # V2 is empty, and damage is no end


def test_rotated_files_and_children_are_there_in_sequence(
    run: Command, src: Path, tmp_path: Path
) -> None:
    (src / "orders.100").write_bytes(add(b"1") + add(b"2"))
    (src / "orders.20").write_bytes(add(b"0"))
    (src / "orders").write_bytes(REMOVED + add(b"3"))
    (src / "orders+audit").write_bytes(add(b"2") + add(b"3"))
    (src / "orders+idle").write_bytes(b"")
    (src / "lone+child").write_bytes(add(b"x"))

    assert run("import-kestrel", str(src), "--data-dir", "data").code == 0

    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        assert client.set("orders", "4")
        client.close()
        assert taken(daemon, "orders") == [b"1", b"2", b"3", b"4"]
        assert taken(daemon, "orders+audit") == [b"2", b"3", b"4"]
        assert taken(daemon, "orders+idle") == [b"4"]
        assert taken(daemon, "lone+child") == [b"x"]
        assert taken(daemon, "lone") == []


def test_times_are_those_of_kestrel(run: Command, src: Path, tmp_path: Path) -> None:
    now_ms = time.time_ns() // 1_000_000
    hour_ago, hour_ahead = now_ms - 3_600_000, now_ms + 3_600_000
    (src / "q").write_bytes(
        add(b"old", hour_ago) + add(b"gone", hour_ago, now_ms - 1) + add(b"ends", 0, hour_ahead)
    )

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert ended.out.startswith(b"q: imported, 2 items, 1 expired\n")
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        line = client.raw_command(b"gets q/peek/full", b"\r\n")
        assert line.split()[5] == str(hour_ago).encode()
        client.close()
        assert taken(daemon, "q") == [b"old", b"ends"]


def test_a_dry_run_writes_nothing(run: Command, src: Path, tmp_path: Path) -> None:
    (src / "q").write_bytes(add(b"a") + opened(1))

    ended = run("import-kestrel", str(src), "--data-dir", "data", "--dry-run")

    assert ended.out.startswith(
        b"q: would be imported, 1 items, 1 of them were open\ndry run: nothing was written"
    )
    assert not (tmp_path / "data").exists()


def test_a_second_run_changes_nothing(run: Command, src: Path, tmp_path: Path) -> None:
    (src / "q").write_bytes(add(b"a") + add(b"b"))
    assert run("import-kestrel", str(src), "--data-dir", "data").code == 0
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        assert client.get("q") == b"a"
        client.close()
        daemon.stop()

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert ended.out.startswith(b"q: imported before, left as it is\n")
    with DaemonProcess(tmp_path / "data") as daemon:
        assert taken(daemon, "q") == [b"b"]


def test_a_journal_that_went_on_since_is_not_imported_again(run: Command, src: Path) -> None:
    (src / "q").write_bytes(add(b"a"))
    assert run("import-kestrel", str(src), "--data-dir", "data").code == 0
    (src / "q").write_bytes(add(b"a") + add(b"b"))

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert ended.is_sentence(2)
    assert "queue q was imported from" in ended.err


def test_a_queue_that_is_there_is_never_touched(
    run: Command, src: Path, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        client = daemon.client()
        assert client.set("q", "ours")
        client.close()
        (src / "q").write_bytes(add(b"theirs"))
        (src / "other").write_bytes(add(b"other"))

        running = run("import-kestrel", str(src), "--data-dir", "data")
        assert running.is_sentence(2)
        assert "another kestrelpy is using this data directory; stop it first" in running.err
        daemon.stop()

    ended = run("import-kestrel", str(src), "--data-dir", "data")
    assert ended.is_sentence(2)
    assert "there is a queue q; import into another --data-dir" in ended.err
    assert run("import-kestrel", str(src), "--data-dir", "data", "--queue", "other").code == 0
    with DaemonProcess(tmp_path / "data") as daemon:
        assert taken(daemon, "q") == [b"ours"]
        assert taken(daemon, "other") == [b"other"]


def test_after_a_kill_a_second_run_goes_on(run: Command, src: Path, tmp_path: Path) -> None:
    count = 60_000
    for name in ("a", "b", "c"):
        items = (add(b"%s%06d" % (name.encode(), n)) for n in range(count))
        (src / name).write_bytes(b"".join(items))
    process = run.start("import-kestrel", str(src), "--data-dir", "data")
    data = tmp_path / "data"
    eventually(lambda: data.is_dir() and any(n.startswith("b.") for n in os.listdir(data)))
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert ended.code == 0
    assert ended.out.startswith(b"a: imported before, left as it is\n")
    with DaemonProcess(data) as daemon:
        client = daemon.client()
        counts = client.stats()
        for name in ("a", "b", "c"):
            assert counts[f"queue_{name}_items".encode()] == count
            assert client.get(name) == b"%s%06d" % (name.encode(), 0)
        client.close()


def served(disk: MemoryDisk, queue: str) -> list[bytes] | None:
    """Return the items of a queue as a start finds them; None: there is no such queue."""
    folders = [n for n in disk.names("/data") if n.startswith(queue) and n[-1].isdigit()]
    if not folders:
        return None
    records = Recovery(disk, f"/data/{folders[-1]}").records()
    return [record.body for record in records if record.kind == Kind.PUT]


@pytest.mark.slow
def test_a_power_cut_at_any_verb_leaves_each_queue_absent_or_whole(src: Path) -> None:
    (src / "q").write_bytes(add(b"a") + add(b"b"))
    (src / "q+c").write_bytes(add(b"c"))
    (src / "more").write_bytes(add(b"m" * 3000) * 40)
    chance = random.Random(5)
    whole = {"q": [b"a", b"b", b"c"], "more": [b"m" * 3000] * 40}

    def bring(disk: MemoryDisk) -> ImportReport:
        return bring_in(disk, ImportRequest(str(src), "/data"), TIME_MS, unwatched, Disk())

    for step in range(1, 3000):
        disk = MemoryDisk()
        disk.cut_power_at(step)
        try:
            bring(disk)
        except PowerCut:
            after = disk.crash_clone(chance)
            assert all(served(after, queue) in (None, items) for queue, items in whole.items())
            bring(after)
            disk = after
        else:
            step = 0
        settled = disk.crash_clone(chance)
        assert {queue: served(settled, queue) for queue in whole} == whole
        if not step:
            return
    raise AssertionError("it never ended")


def test_files_that_change_meanwhile_make_no_queue(src: Path) -> None:
    (src / "q").write_bytes(add(b"a"))
    disk = MemoryDisk()

    def grow(doing: str) -> Callable[[int, int], None]:
        with (src / "q").open("ab") as file:
            file.write(add(b"b"))
        return lambda done, total: None

    with pytest.raises(CommandError, match="changed while they were read: stop Kestrel first"):
        bring_in(disk, ImportRequest(str(src), "/data"), TIME_MS, grow, Disk())

    assert [name for name in disk.names("/data") if name.startswith("q")] == []


def test_an_item_of_a_wrong_time_counts_as_added_now(src: Path) -> None:
    (src / "q").write_bytes(add(b"a", -5) + add(b"b", TIME_MS * 1000))
    disk = MemoryDisk()

    bring_in(disk, ImportRequest(str(src), "/data"), TIME_MS, unwatched, Disk())

    (folder,) = [n for n in disk.names("/data") if n.startswith("q.")]
    times = {r.time_ms for r in Recovery(disk, f"/data/{folder}").records() if r.kind == Kind.PUT}
    assert times == {TIME_MS}


def test_what_is_no_directory_of_kestrels_is_refused_in_a_sentence(
    run: Command, src: Path, tmp_path: Path
) -> None:
    def said(path: Path, *words: str) -> str:
        ended = run("import-kestrel", str(path), "--data-dir", "data", *words)
        assert ended.is_sentence(2), ended
        return ended.err

    assert "it does not exist" in said(tmp_path / "nowhere")
    assert "no Kestrel journal here" in said(src)
    (src / "q").write_bytes(add(b"a"))
    assert "it is not a directory" in said(src / "q")
    assert "no queue nosuch here" in said(src, "--queue", "nosuch")
    (tmp_path / "level").mkdir()
    for name in ("CURRENT", "MANIFEST-000001"):
        (tmp_path / "level" / name).write_bytes(b"x")
    assert "this is a LevelDB" in said(tmp_path / "level")
    assert run("import-kestrel", str(src), "--data-dir", "made").code == 0
    assert "this is a data directory of kestrelpy" in said(tmp_path / "made")
    ended = run("import-kestrel", str(src), "--data-dir", str(src))
    assert ended.is_sentence(2)
    assert "SRC and the data directory are one" in ended.err


def test_foreign_files_are_named_and_make_no_queue(
    run: Command, src: Path, tmp_path: Path
) -> None:
    (src / "q").write_bytes(add(b"a"))
    (src / "README").write_text("hello")
    (src / "q.bak").write_bytes(add(b"b"))
    (src / "folder").mkdir()
    (src / "zeros").write_bytes(bytes(100))
    (src / "next").write_bytes(b"\x27\x64\x26\x03" + bytes(20))
    (src / "b ad").write_bytes(add(b"c"))

    ended = run("import-kestrel", str(src), "--data-dir", "data", "--json")

    assert ended.code == 1
    facts = json.loads(ended.out)
    states = {each["queue"]: each["state"] for each in facts["queues"]}
    assert states == {
        "q": "imported", "README": "refused", "zeros": "refused", "next": "refused",
        "b ad": "refused",
    }  # fmt: skip
    assert {each["name"] for each in facts["ignored"]} == {"q.bak", "folder"}
    assert len(ended.err.splitlines()) == 4
    assert "Traceback" not in ended.err
    assert [n for n in os.listdir(tmp_path / "data") if "." in n] == [
        n for n in os.listdir(tmp_path / "data") if n.startswith("q.")
    ]


def test_a_pack_and_empty_items_are_noted(run: Command, src: Path) -> None:
    (src / "q.100.pack").write_bytes(add(b"a") + add(b""))
    (src / "q.50").write_bytes(add(b"old"))

    out = run("import-kestrel", str(src), "--data-dir", "data").out.decode()

    assert out.startswith("q: imported, 2 items\n")
    assert "q.50: ignored: a pack stands for it" in out
    assert "note: q: Kestrel ended during a pack; items may be there twice" in out
    assert "note: q: 1 items are empty" in out


def test_removals_that_damage_made_meaningless_are_noted(run: Command, src: Path) -> None:
    (src / "q.5").write_bytes(add(b"a") + b"\x7f")
    (src / "q").write_bytes(add(b"b") + REMOVED)

    ended = run("import-kestrel", str(src), "--data-dir", "data")

    assert b"q: imported, 2 items\n" in ended.out
    assert b"note: q: 1 removals after the damage do not count" in ended.out


def test_one_run_at_a_time_writes_to_a_data_directory(src: Path, tmp_path: Path) -> None:
    (src / "q").write_bytes(add(b"a"))
    entered, leave = threading.Event(), threading.Event()

    def hold(doing: str) -> Callable[[int, int], None]:
        entered.set()
        leave.wait(30)
        return lambda done, total: None

    order = ImportRequest(str(src), str(tmp_path / "data"))
    first = threading.Thread(target=bring_in, args=(Disk(), order, TIME_MS, hold))
    first.start()
    entered.wait(30)
    ended = Command(1, tmp_path)("import-kestrel", str(src), "--data-dir", "data")
    leave.set()
    first.join()

    assert ended.is_sentence(2)
