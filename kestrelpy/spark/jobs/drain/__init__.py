"""Queues of many servers to Parquet by date; an item is confirmed once it is committed.

    python -m kestrelpy.spark.jobs.drain --servers a:22133,b:22133 --queues orders+drain --out DIR

    look     the markers of each queue           items after `after`, up to `upto`
    stage    read those, write Parquet           nothing is confirmed, nothing is visible
    commit   one rename of a synced file         names the files, and `upto` of each queue
    move     the files to DIR/date=2026-11-25/
    confirm  delete orders+drain/upto=<upto>     the next run begins here, if this one was killed

Why a kill at any moment loses and doubles nothing:

- Before the commit nothing is confirmed, and the next run removes the staged files: it reads the
  same items again. After the commit the next run moves and confirms before it reads, so it never
  reads an item of a commit again.
- The commit has exactly the items that the confirm ends. Each item that has a marker up to `upto`
  was ready when it was read, because a queue with leased, delayed or dead items is refused (a child
  only with leased or dead ones); and a marker up to `upto` is never given again. So no item can
  come between the read and the confirm.
- This holds while the job is the only consumer of the subscription. A child has that for certain:
  `orders+drain` leaves `orders` to its own consumers.
- The generation of each queue is compared before the commit and before the confirm, so a queue that
  was deleted and made again is never taken for the other one.

One rule: an item is confirmed only after its row is committed and synced.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.commits import JobCommits, State
from kestrelpy.spark.jobs.common.fleet import add_flags, ask_each, fleet_options, is_meant, look
from kestrelpy.spark.jobs.common.job import Outcome, Progress, counted, in_spark, perform
from kestrelpy.spark.live import LiveConnection, patience_of, queue_markers, retried
from kestrelpy.spark.live import partitions as live
from kestrelpy.spark.offsets import Address, format_offsets
from kestrelpy.spark.options import Options

AT_ONCE: Final = 1_000_000  # items of one commit
_COLUMNS: Final = ("server", "queue", "marker", "key", "id", "value", "flags", "timestamp",
                   "expires", "attempts")  # fmt: skip
_READY: Final = "ready"


@dataclass(frozen=True, slots=True)
class DrainRange:
    """The markers of one queue after `after`, up to and with `upto`."""

    server: str
    queue: str
    generation: int
    after: int
    upto: int


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="drain", description=__doc__.splitlines()[0])
    add_flags(parser, must_name_queues=True)
    parser.add_argument("--out", required=True, metavar="DIR", help="where the tables go")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, metavar="N", help="of one commit")
    parser.add_argument("--master", help="where Spark runs; default: as it is configured")
    said = parser.parse_args(argv)
    return command(
        said.servers, said.queues, said.option, said.out, said.at_once, said.master, said.as_json,
        said.summary,
    )  # fmt: skip


def command(
    servers: str, queues: str, words: Sequence[str], out: str, at_once: int, master: str | None,
    as_json: bool, summary: str | None,
) -> int:  # fmt: skip
    """Drain and print what was written; return the exit code."""

    def act(progress: Progress) -> Outcome:
        if at_once < 1:
            raise KestrelError(f"--at-once {at_once} is no number of items. Say 1 or more.")
        options = fleet_options(servers, queues, words)
        look(options)  # a mistake is named before Spark starts, which takes seconds
        given = {"servers": servers, "queues": queues, **dict(w.split("=", 1) for w in words)}
        return in_spark("drain", master, progress, lambda spark: outcome(
            out, *drain(spark, options, given, out, at_once, progress)
        ))  # fmt: skip

    return perform("drain", act, as_json, summary)


def drain(
    spark: SparkSession, options: Options, given: Mapping[str, str], out: str, at_once: int,
    progress: Progress,
) -> tuple[int, int, int]:  # fmt: skip
    """Write what the queues have; return the items, the commits and the queues that had any.

    `given` are the options as words. Raises KestrelError.
    """
    items = number = 0
    with JobCommits(out, "drain") as commits:
        progress.step("confirming what the last run has committed")
        state = commits.begin(partial(_confirm, options))
        left = _ranges(options, _done(state))  # later items are for the next run
        queues = len(left)
        while left:
            progress.step(f"writing: {items:,} items are done")
            _refuse_unsafe(options)
            share = max(at_once // len(left), 1)
            now = [replace(each, upto=min(each.upto, each.after + share)) for each in left]
            count = _staged(spark, given, now, commits)
            _refuse_others(options, now)
            state = _after(state, now, count)
            commits.commit(state, then=partial(_confirm, options))
            items, number = items + count, number + 1
            left = [replace(r, after=n.upto) for r, n in zip(left, now, strict=True)]
            left = [each for each in left if each.upto > each.after]
    return items, number, queues


def _done(state: State) -> dict[tuple[str, str, int], int]:
    """Return up to which marker each queue is committed and confirmed."""
    return {(s, q, generation): upto for s, q, generation, upto in state.get("done", [])}


def _after(state: State, ranges: Sequence[DrainRange], count: int) -> State:
    """Return the state after a commit of these ranges."""
    done = _done(state) | {(r.server, r.queue, r.generation): r.upto for r in ranges}
    return {
        "items": int(state.get("items", 0)) + count,
        "done": [[*name, upto] for name, upto in sorted(done.items())],
        "ranges": [asdict(each) for each in ranges],
    }


# -- reading ---------------------------------------------------------------------------------------


def _ranges(options: Options, done: Mapping[tuple[str, str, int], int]) -> list[DrainRange]:
    """Return what the queues have and no commit has yet."""
    found = []
    for server in live.look(options):
        for queue, markers in sorted(server.queues.items()):
            known = done.get((server.server, queue, markers.generation), 0)
            after = max(markers.earliest - 1, known)
            if markers.latest > after and is_meant(options, queue):
                found.append(
                    DrainRange(server.server, queue, markers.generation, after, markers.latest)
                )
    return found


def _refuse_unsafe(options: Options) -> None:
    """Raise KestrelError if an item may come back with a marker that was read already."""
    for server in look(options):
        for queue, figures in server.queues.items():
            parent, _, child = queue.partition("+")
            busy = {"leased": figures.leased, "dead letters": figures.dead}
            if not child:  # of a child, the delayed ones were never available
                busy["delayed"] = figures.delayed
            busy = {words: count for words, count in busy.items() if count}
            if busy and is_meant(options, queue):
                counts = ", ".join(f"{count:,} {words}" for words, count in busy.items())
                raise KestrelError(
                    f"The queue {queue} of {server.address} cannot be drained while items of it "
                    f"may come back ({counts}). Drain a child of it ({parent}+drain), or wait for "
                    "its consumers, and redrive or purge its dead letters."
                )


def _staged(
    spark: SparkSession, given: Mapping[str, str], ranges: Sequence[DrainRange], commits: JobCommits
) -> int:
    """Write the items of these ranges to staged files; return how many they are."""
    starting: dict[str, dict[str, int]] = {}
    ending: dict[str, dict[str, int]] = {}
    for each in ranges:
        starting.setdefault(each.server, {})[each.queue] = each.after
        ending.setdefault(each.server, {})[each.queue] = each.upto
    frame = spark.read.format("kestrel").options(
        **given, startingMarkers=format_offsets(starting), endingMarkers=format_offsets(ending)
    ).load()  # fmt: skip
    counts = Observation()
    (
        _within(spark, frame, ranges)
        .observe(counts, fn.count(fn.lit(1)).alias("items"))
        .write.mode("overwrite")
        .option("compression", "zstd")
        .partitionBy("date")
        .parquet(commits.staged)
    )
    return int(counts.get["items"])


def _within(spark: SparkSession, frame: DataFrame, ranges: Sequence[DrainRange]) -> DataFrame:
    """Return the rows of the ranges that a confirm ends; other queues may have come meanwhile."""
    rows = [(each.server, each.queue, each.after, each.upto) for each in ranges]
    columns = "server string, queue string, after bigint, upto bigint"
    both = frame.join(fn.broadcast(spark.createDataFrame(rows, columns)), ["server", "queue"])
    marker = fn.col("marker")
    wanted = (marker > fn.col("after")) & (marker <= fn.col("upto")) & (fn.col("state") == _READY)
    return both.where(wanted).select(*_COLUMNS, fn.to_date("timestamp").alias("date"))


def _refuse_others(options: Options, ranges: Sequence[DrainRange]) -> None:
    """Raise KestrelError if a queue is not the one that was read any more."""
    now = {
        (server.server, queue): markers.generation
        for server in live.look(options) for queue, markers in server.queues.items()
    }  # fmt: skip
    for each in ranges:
        if now.get((each.server, each.queue)) != each.generation:
            raise KestrelError(
                f"The queue {each.queue} of {each.server} was deleted while it was read. Nothing "
                "of it is committed: run the job again."
            )


# -- confirming ------------------------------------------------------------------------------------


def _confirm(options: Options, state: State) -> None:
    """Confirm the items of a commit. Raises KestrelError; then the next run does it."""
    ranges = [DrainRange(**each) for each in state["ranges"]]
    where = {server: address for address, server in ask_each(options, LiveConnection.server_id)}
    for server in dict.fromkeys(each.server for each in ranges):
        if server not in where:
            raise KestrelError(
                f"The last run committed items of the server {server}, and they are not confirmed "
                "yet. Name that server as well."
            )
        mine = [each for each in ranges if each.server == server]
        patience = patience_of(options)
        retried(where[server], patience, partial(_confirm_at, where[server], mine, options))


def _confirm_at(address: Address, ranges: Sequence[DrainRange], options: Options) -> None:
    wire = LiveConnection(address, patience_of(options))
    try:
        markers = queue_markers(wire.stats("markers"))
        for each in ranges:
            now = markers.get(each.queue)
            if now is not None and now.generation == each.generation:
                wire.answer_to(f"delete {each.queue}/upto={each.upto}")
    finally:
        wire.close()


def outcome(out: str, items: int, commits: int, queues: int) -> Outcome:
    """Return the result as text and facts."""
    text = f"{counted(items, 'item')} of {counted(queues, 'queue')} in {out}, confirmed"
    facts: dict[str, Any] = {"out": out, "items": items, "commits": commits, "queues": queues}
    return Outcome(text, facts)
