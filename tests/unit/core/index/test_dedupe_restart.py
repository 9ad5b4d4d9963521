"""Dedupe over restarts: from chunks, from the log after them, and after the loss of a chunk.

Promises: id, version, index-damage.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import pytest

from journal.files import Disk
from journal.format.item_header import ItemHeader
from journal.snapshot import dedupe_merge as merging
from journal.tools.repair import repair_of
from journal.write.segment_file import Sizes
from kestrelpy.core.log.log import JournalLog
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.restart import recover
from tests.golden.build import GOLDEN, NEWEST
from tests.golden.layout import TIME_MS
from tests.golden.once import ACCOUNT
from tests.support.transfer_harness import TransferHarness

DAY = "24h"


def add(town: TransferHarness, id_: str) -> bool:
    return town.say("p", b"add jobs/id=%b 0 0 1" % id_.encode(), b"x") == b"STORED\r\n"


def cas(town: TransferHarness, key: str, version: int) -> bytes:
    return town.say("p", b"cas jobs/key=%b 0 0 1 %d" % (key.encode(), version), b"x").strip()


def maintenance_of(town: TransferHarness) -> object:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    return log.store.maintenance


def chunks(town: TransferHarness) -> list[str]:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    return [n for n in town.disk.names(log.journal.folder) if n.endswith(".chunk")]


def remove_chunk(town: TransferHarness) -> None:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    town.disk.remove(f"{log.journal.folder}/{chunks(town)[0]}")


def kill(town: TransferHarness) -> None:
    town.kill()


def test_a_restart_takes_in_the_chunks_and_what_came_behind_them() -> None:
    town = TransferHarness()
    add(town, "a")
    cas(town, "K", 0)
    town.snapshot("jobs")
    add(town, "b")
    cas(town, "K", 1)

    kill(town)

    assert not add(town, "a") and not add(town, "b")
    assert cas(town, "K", 1) == b"EXISTS"
    assert cas(town, "K", 2) == b"STORED"
    assert len(chunks(town)) == 1


def test_no_chunk_is_written_where_nothing_is_new() -> None:
    town = TransferHarness()
    add(town, "a")
    town.snapshot("jobs")
    town.say("p", b"set jobs 0 0 1", b"x")
    town.snapshot("jobs")

    assert len(chunks(town)) == 1


def test_merged_chunks_say_the_same_and_their_parts_go() -> None:
    town = TransferHarness()
    for number in range(6):
        add(town, f"i{number}")
        cas(town, "K", number)
        town.snapshot("jobs")
    assert len(chunks(town)) == 6
    merge(town)
    assert len(chunks(town)) == 1

    kill(town)

    assert not any(add(town, f"i{number}") for number in range(6))
    assert cas(town, "K", 6) == b"STORED"


def merge(town: TransferHarness) -> None:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    maintenance = log.store.maintenance
    snapshot = maintenance.begin_snapshot(log.state(), town.unix_ms)
    snapshot.run(town.disk)
    maintenance.finish_snapshot(snapshot, True)
    job = maintenance.begin_merge(snapshot, lambda: None)
    assert job is not None
    for path in maintenance.finish_merge(job, job.run(town.disk)):
        town.disk.remove(path)


def test_a_crash_between_a_chunk_and_its_snapshot_loses_nothing_and_doubles_nothing() -> None:
    town = TransferHarness()
    add(town, "a")
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    job = log.store.maintenance.begin_snapshot(log.state(), town.unix_ms)
    job.run(town.disk)
    snapshot = next(n for n in town.disk.names(log.journal.folder) if n.endswith(".snapshot"))
    town.disk.remove(f"{log.journal.folder}/{snapshot}")

    kill(town)

    assert not add(town, "a")
    assert add(town, "b")


def test_a_snapshot_that_could_not_be_written_leaves_all_of_it_to_the_next() -> None:
    town = TransferHarness()
    add(town, "a")
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    maintenance = log.store.maintenance
    maintenance.finish_snapshot(maintenance.begin_snapshot(log.state(), town.unix_ms), False)
    add(town, "b")
    town.snapshot("jobs")
    kill(town)

    assert not add(town, "a") and not add(town, "b")


def test_segments_stay_until_a_snapshot_has_what_they_say_of_ids() -> None:
    town = TransferHarness()
    add(town, "a")
    town.say("c", b"get jobs")
    for _ in range(6):
        town.say("p", b"set jobs 0 0 30000", b"x" * 30000)
        town.say("c", b"get jobs")
    town.segments("jobs")

    kill(town)
    assert not add(town, "a")
    town.snapshot("jobs")
    town.snapshot("jobs")
    before = town.segments("jobs")
    kill(town)
    assert not add(town, "a")
    assert len(before) <= 3


def test_forgotten_chunks_go() -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe_window="1s")
    add(town, "a")
    town.snapshot("jobs")
    town.pass_time(2000)
    for _ in range(3):
        town.say("p", b"set jobs 0 0 1", b"x")
        town.snapshot("jobs")

    assert chunks(town) == []
    assert add(town, "a")


@pytest.mark.parametrize("merges", [False, True])
def test_versions_of_a_queue_that_retains_outlive_the_window_in_files(merges: bool) -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe_window="1s", retain="forever")
    cas(town, "K", 0)
    town.snapshot("jobs")
    for number in range(6):
        town.pass_time(2000)
        cas(town, f"L{number}", 0)
        town.snapshot("jobs")
    if merges:
        merge(town)

    kill(town)

    assert cas(town, "K", 0) == b"EXISTS"
    assert cas(town, "K", 1) == b"STORED"


def test_a_lost_chunk_is_named_at_every_start_until_it_would_be_forgotten() -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe_window="1m")
    add(town, "a")
    cas(town, "K", 0)
    town.snapshot("jobs")
    remove_chunk(town)

    for _ in range(2):
        kill(town)
        assert any("remembered ids" in damage.reason for damage in town.found.damages)
        town.say("p", b"set jobs 0 0 1", b"x")
        town.snapshot("jobs")
    town.pass_time(61_000)
    town.snapshot("jobs")
    kill(town)
    assert not town.found.damages


def test_with_versions_lost_a_condition_on_an_unknown_key_is_refused() -> None:
    town = TransferHarness()
    add(town, "a")
    cas(town, "K", 0)
    town.snapshot("jobs")
    cas(town, "L", 0)
    remove_chunk(town)
    kill(town)

    assert cas(town, "K", 0).startswith(b"SERVER_ERROR versions of queue jobs are damaged")
    assert cas(town, "L", 1) == b"STORED"
    assert town.say("p", b"set jobs/key=K 0 0 1", b"x") == b"STORED\r\n"
    assert cas(town, "K", 1) == b"EXISTS"  # it had that one
    assert cas(town, "K", 3) == b"STORED"  # none that was lost was above its item's number
    assert add(town, "a")  # it was named: an id of these counts as not seen


@pytest.mark.parametrize("seed", range(30))
def test_a_power_cut_at_any_verb_of_snapshot_and_merge_forgets_nothing(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_MERGED_FEWEST", 2)
    random, town, stored = Random(seed), TransferHarness(), list[str]()
    for number in range(12):
        name = f"i{number}"
        assert add(town, name)
        stored.append(name)
        log = town.queue("jobs").log
        assert isinstance(log, JournalLog)
        maintenance = log.store.maintenance
        job = maintenance.begin_snapshot(log.state(), town.unix_ms)
        job.run(town.disk)
        if random.random() < 0.2:
            town.crash(random)
            continue
        outdated = maintenance.finish_snapshot(job, True)
        for path in outdated:
            town.disk.remove(path)
        merging_job = maintenance.begin_merge(job, lambda: None) if random.random() < 0.5 else None
        if merging_job is not None:
            merged = merging_job.run(town.disk)
            if random.random() < 0.3:
                town.crash(random)
                continue
            for path in maintenance.finish_merge(merging_job, merged):
                town.disk.remove(path)
                if random.random() < 0.3:
                    town.crash(random)
                    break
        if random.random() < 0.3:
            town.crash(random)
    town.crash(random)

    assert not [name for name in stored if add(town, name)]
    assert add(town, "never")


def test_the_golden_journal_is_remembered_as_it_was_meant(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "once.1"
    shutil.copytree(GOLDEN / NEWEST / "once.1", folder)
    town = TransferHarness()
    directory = DataDirectory(Disk(), str(tmp_path / "data"), Sizes())

    found = recover(directory, town.broker, [], town.now_ms, TIME_MS + 10)

    queue = town.broker.queues[b"once"]
    assert found.damages == []
    for header in (
        ItemHeader(b"order-1"), ItemHeader(b"part 1", b"writer", 8),
        ItemHeader(b"part 2", b"writer", 7), ItemHeader(b"order-2", of_key=True),
    ):  # fmt: skip
        assert queue.dedupe.ids.has_seen(header, queue.policy, TIME_MS + 10, ACCOUNT), header
    part = ItemHeader(b"part 2", b"writer", 8)
    for header in (ItemHeader(b"part 1"), part, ItemHeader(b"order-3"), ItemHeader(b"order-2")):
        assert not queue.dedupe.ids.has_seen(header, queue.policy, TIME_MS + 10), header
    assert queue.dedupe.versions.last(ACCOUNT)[:2] == (3, 7)


def test_what_is_for_nobody_is_not_remembered() -> None:
    town = TransferHarness()
    town.set_queue("o", fanout_only=True)
    assert town.say("p", b"set o/id=a/key=K 0 0 1", b"a") == b"STORED\r\n"
    town.say("c", b"get o+x")
    assert town.say("p", b"set o/id=b/key=L 0 0 1", b"b") == b"STORED\r\n"

    assert town.say("p", b"delete o/id=a") == b"NOT_FOUND\r\n"
    assert town.say("p", b"cas o/key=K 0 0 1 1", b"x") == b"NOT_FOUND\r\n"
    assert town.say("p", b"cas o/key=L 0 0 1 0", b"x") == b"EXISTS\r\n"
    assert town.say("p", b"add o/id=a 0 0 1", b"a") == b"STORED\r\n"


def test_a_hand_off_to_children_alone_opens_its_origin() -> None:
    town = TransferHarness()
    town.set_queue("o", fanout_only=True)
    town.say("c", b"get o+x")
    town.say("c", b"set jobs 0 0 1", b"a")
    town.say("c", b"get jobs/open")
    town.hold_syncs()
    town.say("c", b"set o/confirm 0 0 1", b"b")

    assert len(town.queue("o").origins) == 1


def test_a_scope_with_few_ids_costs_little_and_one_with_many_forgets_nothing() -> None:
    town = TransferHarness()
    for number in range(200):
        line = b"set jobs/id=%d/scope=s/epoch=1 0 0 1" % number
        assert town.say("p", line, b"x") == b"STORED\r\n"

    assert town.queue("jobs").dedupe.ids.scopes[b"s"].count == 200
    for number in range(200):
        line = b"add jobs/id=%d/scope=s/epoch=1 0 0 1" % number
        assert town.say("p", line, b"x") == b"NOT_STORED\r\n"


def test_ids_and_versions_are_the_parents() -> None:
    town = TransferHarness()
    town.say("c", b"get o+x")
    for line in (b"add o+x/key=K 0 0 1", b"cas o+x/key=K 0 0 1 0", b"set o+x/key=K/expect=0 0 0 1",
                 b"set o+x/id=a 0 0 1", b"set o+x/id=a/scope=s/epoch=1 0 0 1"):  # fmt: skip
        assert town.say("p", line, b"x").startswith(b"CLIENT_ERROR o+x is a child")
    assert town.say("p", b"set o+x/key=K 0 0 1", b"x") == b"STORED\r\n"
    kill(town)
    assert town.say("p", b"cas o/key=K 0 0 1 0", b"x") == b"STORED\r\n"
    assert town.say("p", b"add o/id=a 0 0 1", b"x") == b"STORED\r\n"


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_lost_chunk_is_repaired_by_forgetting_it(how: str) -> None:
    town = TransferHarness()
    add(town, "a")
    cas(town, "K", 0)
    town.snapshot("jobs")
    add(town, "b")
    town.snapshot("jobs")
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    folder = log.journal.folder
    path = f"{folder}/{chunks(town)[0]}"
    if how == "missing":
        town.disk.remove(path)
    else:
        handle = town.disk.open(path)
        handle.write(100, b"?")
        handle.close()
    log.journal.close(town.unix_ms)

    repair = repair_of(town.disk, folder)
    assert len(repair.report.damages) == 1
    assert list(repair.sentences())
    repair.run(town.unix_ms)

    assert not repair_of(town.disk, folder).needed
    kill(town)
    assert not town.found.damages
    assert not add(town, "b")
    assert add(town, "a")
