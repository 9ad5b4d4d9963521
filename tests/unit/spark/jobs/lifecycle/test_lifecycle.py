"""Lives of items as Parquet: one row for each, however often it runs and whatever was rewritten."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.core.queue.child_queue import ChildQueue
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.job import Progress, Request
from kestrelpy.spark.jobs.lifecycle import work
from tests.support.disk_harness import WALL_MS
from tests.unit.spark.jobs.audit.test_audit_readers import Fanned
from tests.unit.spark.jobs.stories import ROOM, TINY, Story, journal_of, one_step

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.slow


def ran(spark: SparkSession, out: Path, *folders: Path) -> dict[str, Any]:
    """Run it, and return what it says."""
    request = Request(tuple(map(str, folders)), str(out))
    return work(spark, request, Progress(io.StringIO(), False)).facts


def table(spark: SparkSession, out: Path, *folders: Path) -> list[Row]:
    """Run it, and read what it wrote."""
    ran(spark, out, *folders)
    return spark.read.parquet(str(out)).orderBy("server", "generation", "item").collect()


def after(ms: int) -> Any:
    """A moment of a story, as Spark gives it to Python."""
    return datetime.fromtimestamp((WALL_MS + ms) / 1000, UTC).astimezone().replace(tzinfo=None)


def test_a_row_goes_from_put_to_confirm(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(max_attempts=2)
    story.put(b"hello", b"dies", b"waits")  # at 1000, 1001, 1002
    story.open()
    story.pass_time(10)
    story.give_back()
    story.open()
    story.pass_time(20)
    story.confirm()
    for reason in (b"lease", b"hangup"):
        story.open()
        story.give_back(reason)

    hello, dies, waits = table(spark, tmp_path / "out", story.save(tmp_path / "data"))

    assert (hello.state, hello.bytes, hello.aborts, hello.returns) == ("confirmed", 5, 1, 1)
    assert hello.put == after(1000)
    assert [(d.how, d.attempts) for d in hello.deliveries] == [("abort", 1), ("confirm", 1)]
    assert [(d.ended - d.opened).microseconds for d in hello.deliveries] == [11_000, 21_000]
    assert hello.confirmed == hello.deliveries[-1].ended
    assert (hello.dwell_ms, hello.service_ms) == (3, 21)
    assert (dies.state, dies.dead_reason, dies.returns) == ("dead", "hangup", 1)
    assert [d.how for d in dies.deliveries] == ["lease", "dead"]
    assert (waits.state, waits.deliveries, waits.dwell_ms) == ("open", [], None)
    assert {str(row.date) for row in (hello, dies, waits)} == {str(hello.put.date())}


def test_every_end_has_its_word(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(max_items=2, discard_old_when_full=True)
    story.put(b"discarded", b"flushed", b"flushed too")
    story.flush()
    story.put(b"expires", expires_in_ms=5)
    story.pass_time(20)

    rows = table(spark, tmp_path / "out", story.save(tmp_path / "data"))

    assert [row.state for row in rows] == ["discarded", "flushed", "flushed", "expired"]
    assert rows[3].expired is not None
    assert rows[3].expires == after(1008)


def test_a_compacted_item_is_put_once_and_a_second_run_changes_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(TINY)
    story.grow_old()
    data = story.save(tmp_path / "data")

    first = table(spark, tmp_path / "out", data)
    again = table(spark, tmp_path / "out", data)

    assert first == again
    keys = [(row.server, row.generation, row.item) for row in first]
    assert len(keys) == len(set(keys))
    alive = set(story.life.reader.live)
    assert alive <= {row.item for row in first if row.state == "open"}


@pytest.mark.parametrize("rounds", [6, 8])
def test_rows_stay_when_the_journals_do_not_have_their_records_any_more(
    spark: SparkSession, tmp_path: Path, rounds: int
) -> None:
    """With eight, compacted segments reach to the first record left of the log."""
    story = Story(TINY)
    story.put(*(b"%d" % n for n in range(10)))
    table(spark, tmp_path / "out", story.save(tmp_path / "early"))
    story.grow_old(rounds)
    late = story.save(tmp_path / "late")

    later = table(spark, tmp_path / "out", late)
    alone = table(spark, tmp_path / "alone", late)

    items = [row.item for row in later]
    assert len(items) == len(set(items))
    assert set(range(1, 11)) <= set(items)
    assert all(row.put is not None for row in later if row.item <= 10)
    assert any(row.put is None for row in alone), "nothing was reclaimed"
    assert {row.item for row in alone} <= set(items)


def in_steps(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Runs over a random life with crashes make the rows of one run over all of it."""
    chance = random.Random(seed)
    story = Story(ROOM, max_attempts=chance.choice([2, 3, 100]),
                  lease_ms=chance.choice([20, 1000, None]))  # fmt: skip
    saved: list[Path] = []
    for step in range(3):
        for _ in range(70):
            one_step(story, chance, keyed=seed % 4 == 1, delays=seed % 4 > 1)
        saved.append(story.save(tmp_path / f"{seed}-{step}"))
        step_by_step = table(spark, tmp_path / f"out-{seed}", saved[-1])
    at_once = table(spark, tmp_path / f"at-once-{seed}", *saved)

    assert step_by_step == at_once, f"seed {seed}"


def test_runs_in_steps_make_the_rows_of_one_run_over_everything(
    spark: SparkSession, tmp_path: Path
) -> None:
    in_steps(spark, tmp_path, random.randrange(1 << 30))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(24))
def test_many_runs_in_steps_make_the_rows_of_one_run(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    in_steps(spark, tmp_path, seed)


def test_a_second_run_reads_new_segments_only_and_leaves_final_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(ROOM)
    story.put(*(b"%d" % n for n in range(50)))
    story.take(40)
    story.stop()  # its segment is sealed
    data, out = tmp_path / "data", tmp_path / "out"
    ran(spark, out, story.save(data))
    before = {path: path.stat().st_mtime_ns for path in out.glob("date=*/*/*/part-*")}
    sealed = min(journal_of(data).glob("*.segment"))
    story.put(b"new")
    story.take(5)

    story.save(data)
    whole = sealed.read_bytes()
    sealed.write_bytes(whole[:2000] + bytes(1000) + whole[3000:])
    facts = ran(spark, out, data)

    assert facts["segments_read"] == 1, "the sealed segment, damaged now, was read again"
    assert facts["states"] == {"confirmed": 45, "open": 6}
    assert facts["rows_written"] < 20
    after = {path: path.stat().st_mtime_ns for path in before}
    assert after == before
    assert spark.read.parquet(str(out)).count() == 51


def test_nothing_new_reads_nothing_and_changes_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(ROOM)
    story.put(*(b"%d" % n for n in range(5)))
    story.stop()
    data = story.save(tmp_path / "data")
    first = table(spark, tmp_path / "out", data)

    facts = ran(spark, tmp_path / "out", data)

    assert facts["segments_read"] == 0
    assert facts["items"] == 5
    assert table(spark, tmp_path / "out", data) == first


def test_the_journals_of_another_server_may_come_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    one, other = Story(ROOM), Story(ROOM)
    one.put(b"1", b"2")
    other.put(b"3")
    table(spark, tmp_path / "out", one.save(tmp_path / "one"))

    rows = table(spark, tmp_path / "out", other.save(tmp_path / "other"))

    assert sorted((row.item, row.state) for row in rows) == [
        (1, "open"), (1, "open"), (2, "open"),
    ]  # fmt: skip


def test_tables_without_a_state_and_another_history_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    story = Story(ROOM)
    story.put(b"1", b"2")
    data, out = story.save(tmp_path / "data"), tmp_path / "out"
    table(spark, out, data)
    state = out / "_kestrelpy" / "lifecycle" / "state.json"
    said = json.loads(state.read_text())
    for each in said["state"]["read"].values():
        each["generation"] += 1
    state.write_text(json.dumps(said))

    with pytest.raises(KestrelError, match=r"is another history than .* Say another --out\."):
        table(spark, out, data)
    state.unlink()
    with pytest.raises(KestrelError, match="has tables and no state of this job"):
        table(spark, out, data)


def test_a_child_has_a_row_of_its_own_for_each_item(spark: SparkSession, tmp_path: Path) -> None:
    story = Fanned(max_attempts=2)
    story.put(b"before")
    story.child(b"audit")
    story.child(b"gone")
    story.put(b"confirmed", b"dies", b"waits")
    story.life.broker.queues[b"jobs+audit"].put(b"for it alone", 0, 0, story.life.now_ms)
    story.take(1)
    story.take_of(b"audit", 1)
    story.give_back_of(b"audit")
    story.give_back_of(b"audit")
    story.take_of(b"gone", 1)
    branch = story.life.broker.queues[b"jobs+gone"]
    assert isinstance(branch, ChildQueue)
    story.life.broker.remove_child(branch.child, story.life.now_ms)
    story.child(b"gone")
    story.put(b"for all")

    rows = table(spark, tmp_path / "out", story.save(tmp_path / "data"))

    states = {name: {row.item: row.state for row in rows if row.queue == name}
              for name in ("jobs", "jobs+audit", "jobs+gone")}  # fmt: skip
    assert states == {
        "jobs": {1: "confirmed", 2: "open", 3: "open", 4: "open", 6: "open"},
        "jobs+audit": {2: "confirmed", 3: "dead", 4: "open", 5: "open", 6: "open"},
        # The items of a removed child went with it; a new child of its name begins anew.
        "jobs+gone": {2: "confirmed", 3: "flushed", 4: "flushed", 6: "open"},
    }
    assert len(rows) == 14
    own = {(row.queue, row.item): row for row in rows}
    dies = own["jobs+audit", 3]
    assert [(d.how, d.attempts) for d in dies.deliveries] == [("abort", 1), ("dead", 2)]
    assert (dies.dead_reason, dies.bytes, dies.put) == ("abort", 4, own["jobs", 3].put)
    assert own["jobs", 3].deliveries == []
    assert own["jobs+audit", 2].confirmed > own["jobs", 1].confirmed
