"""After the loss of a chunk or of every snapshot, ids and versions are known less, but not wrongly.

Promise: index-damage.
"""

from __future__ import annotations

from random import Random

import pytest

from journal.format.item_header import ItemHeader
from journal.format.key import join, text_of
from journal.snapshot import dedupe_merge as merging
from kestrelpy.core.log.log import JournalLog
from tests.support.core_harness import make_queue
from tests.support.transfer_harness import TransferHarness
from tests.unit.core.index.test_dedupe_restart import add, cas, chunks, kill, merge


def write_and_take(town: TransferHarness, key: str, times: int) -> None:
    for _ in range(times):
        assert town.say("p", b"set jobs/key=%b 0 0 1" % key.encode(), b"x") == b"STORED\r\n"
        town.say("c", b"get jobs")


def lose_chunk(town: TransferHarness, number: int) -> None:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    town.disk.remove(f"{log.journal.folder}/{chunks(town)[number]}")


def damage_chunk(town: TransferHarness, number: int) -> None:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    handle = town.disk.open(f"{log.journal.folder}/{chunks(town)[number]}")
    handle.write(100, b"?")
    handle.close()


def remove_snapshots(town: TransferHarness) -> None:
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    folder = log.journal.folder
    for name in town.disk.names(folder):
        if name.endswith(".snapshot"):
            town.disk.remove(f"{folder}/{name}")


def merge_some(town: TransferHarness) -> None:
    """Take a snapshot, and merge chunks if there are some to merge."""
    log = town.queue("jobs").log
    assert isinstance(log, JournalLog)
    maintenance = log.store.maintenance
    if maintenance.snapshots[-1:] == [log.journal.commit.lsn_written]:
        return
    snapshot = maintenance.begin_snapshot(log.state(), town.unix_ms)
    snapshot.run(town.disk)
    outdated = maintenance.finish_snapshot(snapshot, True)
    job = maintenance.begin_merge(snapshot, lambda: None)
    outdated += maintenance.finish_merge(job, job.run(town.disk)) if job is not None else []
    for path in outdated:
        town.disk.remove(path)


def fill_and_forget(town: TransferHarness) -> None:
    """Store and consume enough items that segments are sealed."""
    for _ in range(4):
        town.say("p", b"set jobs 0 0 30000", b"x" * 30000)
        town.say("c", b"get jobs")


@pytest.mark.parametrize("starts", [1, 2])
def test_with_versions_lost_what_an_older_chunk_says_is_no_version_to_insist_on(
    starts: int,
) -> None:
    town = TransferHarness()
    write_and_take(town, "K", 3)
    town.snapshot("jobs")
    write_and_take(town, "K", 3)
    town.snapshot("jobs")
    write_and_take(town, "L", 1)
    town.snapshot("jobs")
    lose_chunk(town, 1)
    for start in range(starts):
        kill(town)
        if start + 1 < starts:
            write_and_take(town, "M", 1)
            town.snapshot("jobs")

    for version in (0, 3, 6):
        assert cas(town, "K", version).startswith(b"SERVER_ERROR versions of queue jobs")
    assert town.say("p", b"replace jobs/key=K 0 0 1", b"x").startswith(b"SERVER_ERROR")
    assert town.say("p", b"add jobs/key=K 0 0 1", b"x").startswith(b"SERVER_ERROR")
    assert cas(town, "L", 1) == b"STORED"  # it was written since
    write_and_take(town, "K", 1)
    for version in range(1, 7):  # no client with an older version is told that it is the last
        assert cas(town, "K", version) == b"EXISTS"
    assert cas(town, "K", 7) == b"STORED"


def test_with_versions_lost_a_move_gives_none_twice_either() -> None:
    town = TransferHarness()
    write_and_take(town, "K", 2)
    town.snapshot("jobs")
    write_and_take(town, "K", 2)
    town.snapshot("jobs")
    lose_chunk(town, 1)
    kill(town)
    town.set_queue("other", max_attempts=1, dead_letter_to="jobs")
    town.say("p", b"set other/key=K 0 0 1", b"x")
    town.fail("other")

    assert cas(town, "K", 3) == cas(town, "K", 4) == b"EXISTS"
    assert cas(town, "K", 5) == b"STORED"


def test_what_was_lost_is_open_until_it_would_be_forgotten() -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe_window="1m")
    write_and_take(town, "K", 2)
    town.snapshot("jobs")
    lose_chunk(town, 0)
    kill(town)
    town.pass_time(59_000)
    assert cas(town, "K", 0).startswith(b"SERVER_ERROR")
    town.pass_time(1000)

    assert cas(town, "K", 0) == b"STORED"
    assert cas(town, "K", 1) == b"STORED"


def test_what_is_lost_between_two_chunks_is_not_merged_over(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_MERGED_FEWEST", 2)
    town = TransferHarness()
    for _ in range(3):
        write_and_take(town, "K", 1)
        town.snapshot("jobs")
    for number in range(2):
        write_and_take(town, f"L{number}", 1)
        town.snapshot("jobs")
    lose_chunk(town, 2)
    kill(town)
    merge(town)
    assert len(chunks(town)) == 3
    kill(town)

    assert any("versions are lost" in damage.reason for damage in town.found.damages)
    assert cas(town, "K", 2).startswith(b"SERVER_ERROR")
    assert cas(town, "L1", 1) == b"STORED"


@pytest.mark.parametrize("starts", [1, 2, 3])
def test_a_damaged_chunk_is_a_loss_without_a_snapshot_too(starts: int) -> None:
    town = TransferHarness()
    write_and_take(town, "K", 1)
    fill_and_forget(town)
    town.snapshot("jobs")
    write_and_take(town, "K", 1)
    town.snapshot("jobs")
    fill_and_forget(town)
    town.snapshot("jobs")
    town.snapshot("jobs")
    town.segments("jobs")
    damage_chunk(town, 1)
    remove_snapshots(town)
    kill(town)
    if starts == 3:
        kill(town)
    if starts > 1:
        write_and_take(town, "L", 1)
        town.snapshot("jobs")
        kill(town)

    assert any("versions are lost" in d.reason for d in town.found.damages)
    for version in (0, 1, 2):
        assert cas(town, "K", version).startswith(b"SERVER_ERROR")
    write_and_take(town, "K", 1)
    for version in (1, 2):
        assert cas(town, "K", version) == b"EXISTS"


def test_without_a_snapshot_an_older_put_that_is_alive_takes_nothing_back() -> None:
    town = TransferHarness()
    town.set_queue("jobs", dedupe_window="1m")
    for line in (b"set jobs/key=K/delay=1h 0 0 1", b"set jobs/id=a/delay=1h 0 0 1",
                 b"set jobs/id=x/scope=s/epoch=1/delay=1h 0 0 1"):  # fmt: skip
        assert town.say("p", line, b"x") == b"STORED\r\n"
    fill_and_forget(town)
    town.pass_time(50_000)
    write_and_take(town, "K", 3)
    town.pass_time(20_000)
    for line in (b"set jobs/id=a 0 0 1", b"set jobs/id=y/scope=s/epoch=2 0 0 1"):
        assert town.say("p", line, b"x") == b"STORED\r\n"
        town.say("c", b"get jobs")
    fill_and_forget(town)
    fill_and_forget(town)
    for _ in range(3):
        town.snapshot("jobs")
        town.say("p", b"set jobs 0 0 1", b"x")
        town.say("c", b"get jobs")
    town.segments("jobs")
    remove_snapshots(town)
    for _ in range(2):
        kill(town)
        assert town.queue("jobs").reader.delays.count == 3  # the older puts are alive
        assert not add(town, "a")
        for id_ in (b"z/scope=s/epoch=1", b"y/scope=s/epoch=2"):
            line = b"add jobs/id=%b 0 0 1" % id_
            assert town.say("p", line, b"x") == b"NOT_STORED\r\n"
        assert cas(town, "K", 1) == b"EXISTS"
        town.say("p", b"set jobs 0 0 1", b"x")
        town.snapshot("jobs")  # older facts are not written as newer ones either
    assert cas(town, "K", 4) == b"STORED"


def test_an_older_put_of_an_epoch_adds_its_id_and_does_not_age_the_scope() -> None:
    ids = make_queue().queue.dedupe.ids
    older, newer = ItemHeader(b"a", b"s", 1), ItemHeader(b"b", b"s", 1)
    ids._apply_seen(newer, 5, 1000)

    assert ids.is_newer(older, 3)  # its chunk is lost, and it is alive
    ids._apply_seen(older, 3, 10)

    assert ids.scopes[b"s"].used_ms == 1000
    assert ids.scopes[b"s"].count == 2
    assert not ids.is_newer(older, 3) and not ids.is_newer(newer, 5)


def test_what_the_log_still_says_of_a_lost_chunk_is_stored_in_a_new_one() -> None:
    town = TransferHarness()
    write_and_take(town, "K", 2)
    add(town, "a")
    town.snapshot("jobs")
    damage_chunk(town, 0)
    remove_snapshots(town)
    kill(town)
    town.snapshot("jobs")  # of the same records
    lose_chunk(town, 0)
    kill(town)

    assert len(chunks(town)) == len(town.found.damages) == 1
    assert not add(town, "a")
    assert cas(town, "K", 2).startswith(b"SERVER_ERROR")  # later versions may be lost as well
    write_and_take(town, "K", 1)
    assert cas(town, "K", 3) == b"EXISTS"


@pytest.mark.parametrize("seed", range(20))
def test_whatever_chunks_are_lost_no_version_is_made_twice(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "_MERGED_FEWEST", 2)
    random, town = Random(seed), TransferHarness()
    town.set_queue("jobs", dedupe_window="forever")
    made: dict[str, list[int]] = {key: [] for key in "KLM"}
    for _ in range(60):
        key, step = random.choice("KLM"), random.random()
        if step < 0.7:
            known = random.choice([0, *made[key][-2:]])
            verb = random.choice([b"set", b"cas"])
            line = b"%b jobs/key=%b 0 0 1" % (verb, key.encode())
            if town.say("p", line + b" %d" % known * (verb == b"cas"), b"x") != b"STORED\r\n":
                continue
            town.say("c", b"get jobs")
            queue = town.queue("jobs")
            canonical = join([text_of(key.encode())], False)
            version = queue.dedupe.versions.last(canonical).version
            assert version > max(made[key], default=0)
            assert verb == b"set" or known == max(made[key], default=0)
            made[key].append(version)
        elif step < 0.85 and made["K"]:
            merge_some(town)
        elif any(made.values()):
            if random.random() < 0.5 and chunks(town):
                number = random.randrange(len(chunks(town)))
                (lose_chunk if random.random() < 0.5 else damage_chunk)(town, number)
                if random.random() < 0.3:
                    kill(town)
            kill(town)
    assert sum(map(len, made.values())) > 10
