"""One row for each item, as Parquet by date, server and queue; a second run reads what is new.

    python -m kestrelpy.spark.jobs.lifecycle PATH... --out DIR

    date=2026-11-21/server=5f2c/queue=jobs/   item, put, deliveries, its end, dwell, service

    put ──dwell_ms──▶ first opened ··· given back, opened again ··· ──service_ms──▶ confirmed

The date is that of the put (UTC). Times are those of the records; a crash ends deliveries without a
record, so these are not in the row.

A fan-out child is a queue here, `orders+audit`: an item for all readers has a row for each reader,
with that reader's deliveries, times and end.

In `_kestrelpy`, next to the tables, a run stores how far it read each journal (`positions`) and
the records of items that may still change (`kept-N`). The next run reads the records after those.
It adds files for items that are final, and replaces the files of the others; all of that is one
commit (`common.commits`). Records that were reclaimed between two runs are missing: name archives
as well. Rows of items whose end was among these stay as they were.

One rule: the rows are those of one run over all records that any of the runs has read.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from journal.errors import ITEM_MAX
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import PlannedJournal, plan_events
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common.blocks import read_flushes
from kestrelpy.spark.jobs.common.commits import JobCommits, State, is_final, visible
from kestrelpy.spark.jobs.common.events import Flush
from kestrelpy.spark.jobs.common.job import Outcome, Progress, Request, counted, folders, parse, run
from kestrelpy.spark.jobs.common.queries import at_once, sized
from kestrelpy.spark.jobs.lifecycle.positions import (
    Plan,
    ReadBounds,
    as_json,
    from_json,
    names,
    numbers_of,
    what_is_new,
)
from kestrelpy.spark.jobs.lifecycle.rows import (
    DEAD,
    EXTRA,
    FLUSHED,
    ITEM_ROWS,
    OPEN,
    STATES,
    UNFINISHED,
    AllBounds,
    flushes_needed,
    item_rows,
    unfinished,
    without_read_again,
)

_PARTITION: Final = ("date", "server", "queue")
_COMPRESSION: Final = "zstd"
_UNFINISHED_PREFIX: Final = "kept-"
_WORDS: Final = (*STATES.values(), FLUSHED, DEAD, OPEN)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    about = "One row for each item, as Parquet by date, server and queue."
    return run("lifecycle", work, parse("lifecycle", about, argv))


def work(spark: SparkSession, request: Request, progress: Progress) -> Outcome:
    """Write a row for every item under some folders, from what the last run left."""
    out = request.out
    if out is None:
        raise KestrelError("There is no place for the tables. Say --out DIR.")
    folders(request.paths)
    with JobCommits(out, "lifecycle") as commits:
        before = commits.begin(partial(_remove_unfinished, commits))
        if not before and glob.glob(os.path.join(out, "date=*")):
            raise KestrelError(
                f"{out} has tables and no state of this job, so their rows would be doubled. Say "
                "another --out."
            )
        made = _Run(spark, request.paths, commits, before)
        with sized(spark, made.bytes):
            states, facts = made.made(progress)
    return _outcome(out, states, {"out": out, **facts}, is_first=not before)


class _Run:
    """One run; `before` is the state that the last one left."""

    def __init__(
        self, spark: SparkSession, paths: Sequence[str], commits: JobCommits, before: State
    ) -> None:
        self._spark, self._commits, self._before = spark, commits, before
        history = plan_events(paths)
        self._plan = what_is_new(history, from_json(before.get("read", {})))
        self._paths = paths
        known = {int(jid): tuple(name) for jid, name in before.get("names", {}).items()}
        self._names = known | names(history.journals)
        self._bounds = _bounds(history.journals, self._plan, before)
        self._number = int(before.get("number", 0)) + 1

    @property
    def bytes(self) -> int:
        """About how many bytes are read, of the journals and of the last run's records."""
        name = self._before.get("kept")
        kept_bytes = self._commits.size(name) if name is not None else 0
        return kept_bytes + sum(split.bytes for split in self._plan.history.splits)

    def made(self, progress: Progress) -> tuple[dict[str, int], dict[str, Any]]:
        """Read, write and commit; return how many items are in each state, and other facts."""
        progress.step("reading events")
        chunks = packed.together(self._spark, self._chunks()).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            flushes = self._earlier_flushes()
            if packed.has_flushes(chunks):
                flushes += read_flushes(self._spark, self._paths, self._plan.history)
            flushes = sorted(set(flushes), key=lambda each: each.lsn)
            progress.step("writing rows and records of items that may change")
            with at_once(self._spark) as begin:
                keeping = begin(partial(self._write_unfinished, chunks, flushes))
                counts = self._write_rows(chunks, flushes)
            state = self._state(keeping.result(), flushes)
        finally:
            chunks.unpersist()
        progress.step("committing")
        return self._committed(state, counts)

    def _earlier_flushes(self) -> list[Flush]:
        """Return the flushes that the last run stored, without those that are read again."""
        said = [_flush(each) for each in self._before.get("flushes", [])]
        bounds = self._bounds
        return [f for f in said if f.jid not in bounds or f.lsn <= bounds[f.jid].again_after]

    def _chunks(self) -> DataFrame:
        new = packed.read(
            self._spark, self._paths, EXTRA, with_gone=True, history=self._plan.history
        )
        name = self._before.get("kept")
        if name is None:
            return new
        old = self._spark.read.schema(UNFINISHED).parquet(self._commits.path(name))
        old = old.where("chunk is not null").select(*new.columns)
        if self._plan.again_after:
            again = partial(packed.sifted, sift=partial(without_read_again, bounds=self._bounds))
            old = old.mapInArrow(again, new.schema)
        return new.unionByName(old)

    def _write_rows(self, chunks: DataFrame, flushes: Sequence[Flush]) -> dict[str, int]:
        """Stage the rows; return how many are in each state, those that are final by `=state`."""
        table = lifecycle(self._spark, chunks, flushes, self._bounds, self._names)
        counts = Observation()
        each = [
            fn.count(fn.when((fn.col("state") == word) & (fn.col("final") == final), 1)).alias(
                f"{'=' if final else ''}{word}"
            )
            for word in _WORDS for final in (True, False)
        ]  # fmt: skip
        (
            table.observe(counts, *each)
            .sortWithinPartitions("final", *_PARTITION, "generation", "item")
            .write.option("compression", _COMPRESSION)
            .partitionBy("final", *_PARTITION)
            .parquet(self._commits.staged)
        )
        return {word: int(count) for word, count in counts.get.items() if count}

    def _write_unfinished(self, chunks: DataFrame, flushes: Sequence[Flush]) -> str:
        name = f"{_UNFINISHED_PREFIX}{self._number}"
        fold = partial(unfinished, flushes=flushes, bounds=self._bounds)
        table = packed.folded(chunks, fold, UNFINISHED)
        table.write.mode("overwrite").parquet(self._commits.path(name))
        self._commits.sync(name)
        return name

    def _state(self, name: str, flushes: Sequence[Flush]) -> State:
        columns = ["jid", "unsure", "item_first", "item_last"]
        rows = pq.read_table(self._commits.path(name), columns=columns).to_pylist()
        unsure = dict[int, int]()
        items = {int(jid): tuple(pair) for jid, pair in self._before.get("items", {}).items()}
        for row in rows:
            jid = row["jid"]
            if row["unsure"] is not None:
                unsure[jid] = min(unsure.get(jid, row["unsure"]), row["unsure"])
            if row["item_first"] is not None:
                first, last = items.get(jid, (row["item_first"], row["item_last"]))
                items[jid] = min(first, row["item_first"]), max(last, row["item_last"])
        left = flushes_needed(flushes, unsure, self._bounds)
        return {
            "number": self._number, "kept": name, "read": as_json(self._plan.read),
            "names": {str(jid): name for jid, name in self._names.items()},
            "items": {str(jid): pair for jid, pair in items.items()},
            "flushes": [asdict(each) for each in left],
        }  # fmt: skip

    def _committed(
        self, state: State, counts: Mapping[str, int]
    ) -> tuple[dict[str, int], dict[str, Any]]:
        final = dict(self._before.get("final", {}))
        for word in _WORDS:
            if count := counts.get(f"={word}"):
                final[word] = final.get(word, 0) + count
        open_files = [visible(each) for each in self._commits.staged_files() if not is_final(each)]
        said = {**state, "final": final, "open_files": open_files}
        before = self._before.get("open_files", [])
        self._commits.commit(said, before, partial(_remove_unfinished, self._commits))
        states = {word: final.get(word, 0) + counts.get(word, 0) for word in _WORDS}
        facts = {
            "rows_written": sum(counts.values()),
            "segments_read": len(self._plan.history.splits),
            "records_missing": sum(each.missing for each in self._plan.read.values()),
        }
        return {word: count for word, count in states.items() if count}, facts


def _flush(said: Mapping[str, Any]) -> Flush:
    return Flush(**{**said, "spared": tuple(said["spared"])})


def _remove_unfinished(commits: JobCommits, state: State) -> None:
    commits.remove_others(_UNFINISHED_PREFIX, state["kept"])


def _outcome(
    out: str, states: Mapping[str, int], facts: dict[str, Any], is_first: bool
) -> Outcome:
    items, missing = sum(states.values()), facts["records_missing"]
    each = ", ".join(f"{state} {count:,}" for state, count in sorted(states.items()))
    text = f"{counted(items, 'item')} in {out}" + (f": {each}" if each else "")
    if not is_first:
        text += f"\n{counted(facts['rows_written'], 'row')} written, the others stay"
    if missing:
        text += (
            f"\n{counted(missing, 'record')} went from the journals before this job read them, and "
            "rows of these items are as they were. Run it more often, or name archives."
        )
    return Outcome(text, {**facts, "items": items, "states": dict(states)})


def lifecycle(
    spark: SparkSession, chunks: DataFrame, flushes: Sequence[Flush], bounds: AllBounds,
    named: Mapping[int, tuple[Any, ...]],
) -> DataFrame:  # fmt: skip
    """Return one row for each item, from chunks that are `blocks.together`."""
    table = packed.folded(chunks, partial(item_rows, flushes=flushes, bounds=bounds), ITEM_ROWS)
    columns = "jid bigint, server string, queue string, generation bigint"
    known = spark.createDataFrame([(jid, *name) for jid, name in named.items()], columns)
    table = table.join(fn.broadcast(known), "jid")
    ends = (fn.when(fn.col("end") == kind, fn.col("ended")).alias(s) for kind, s in STATES.items())
    return table.select(
        "server", "queue", "generation", "item", "key", "origin", "put", "bytes", "flags",
        "expires", "state", "deliveries", "returns", "aborts", *ends, "flushed", "dead",
        "dead_reason", "dwell_ms", "service_ms", fn.to_date("put").alias("date"), "final",
    )  # fmt: skip


def _bounds(journals: Sequence[PlannedJournal], plan: Plan, before: State) -> dict[int, ReadBounds]:
    """Return how far each journal and child was read before."""
    items = {int(jid): tuple(pair) for jid, pair in before.get("items", {}).items()}
    found: dict[int, ReadBounds] = {}
    for journal in journals:
        identity = journal.identity.hex()
        again = plan.again_after.get(identity, ITEM_MAX)
        for jid in numbers_of(journal):
            found[jid] = ReadBounds(plan.read[identity].synced, again, *items.get(jid, (0, 0)))
    return found
