"""Events and items to figures: all of the counting, by Spark.

    events ─┬─ by server, queue and op ───▶ the busiest queues, the span of time, the counts
            ├─ by queue, interval and op ─▶ rates
            └─ by item: a life each ──┬───▶ waiting, service, repeated deliveries
    items ─── what is still there ────┘ └─▶ depth: one more where it was put, one less where it left

One rule: the driver is handed aggregates only, each with a limit; what is beyond it is summed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Row as Found
from pyspark.sql import functions as fn
from pyspark.sql.types import LongType

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.figures import (
    BUCKETS_MAX,
    DEATHS_MAX,
    HISTORIES_MAX,
    QUEUES_MAX,
    ROWS_MAX,
    Bucket,
    Death,
    Figures,
    History,
    Row,
    Series,
    Spread,
    bucket_count,
    interval_for,
    interval_word,
)
from kestrelpy.spark.jobs.lives import JOURNAL, lives_of, ms_of

# A percentile is that of a rank at most a ten-thousandth of the count away.
ACCURACY: Final = 10_000
_RANKS: Final = (0.5, 0.95, 0.99)

_RATES: Final = {"put": "put", "confirm": "confirmed", "return": "returned", "dead": "dead"}
_COUNTS: Final = {
    "put": "put", "confirmed": "confirm", "returned": "return", "expired": "expire",
    "discarded": "discard", "died": "dead",
}  # fmt: skip

UNNAMED: Final = "unnamed"  # a server whose id is not in the journal

Journal = tuple[str, str, int]  # server, queue, generation
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Kept:
    """Of a journal: from `begin_lsn` on every record is kept; `end_lsn` was its last record."""

    begin_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is shown; `interval_ms` None: as wide as the span asks for."""

    queues: int = QUEUES_MAX
    rows: int = ROWS_MAX
    deaths: int = DEATHS_MAX
    histories: int = HISTORIES_MAX
    interval_ms: int | None = None


def measure(
    events: DataFrame, items: DataFrame, kept: Mapping[Journal, Kept], limits: Limits, say: Say
) -> Figures | None:
    """All figures, from tables with the columns EVENTS and ITEMS; None: there is no event.

    Daemons may be writing: `kept` is from before both tables are first read, and what is still
    there is read before events are.
    """
    # A fan-out child's line is a queue of its own, in the same journal.
    events = events.where(fn.col("reader").isNull()).na.fill(UNNAMED, ["server"])
    items = items.na.fill(UNNAMED, ["server"])
    say("counting items")
    held = _held(items).persist()
    held.count()
    say("counting events")
    known = _known(events.sparkSession, kept)
    counts = _counts(events, known).persist()
    lives = lives_of(events, items, known).persist()
    try:
        axes = _axes(counts, limits)
        if axes is None:
            return None
        say("following every item")
        rows, total, left_out = _rows(counts, lives, held, limits)
        say("rates and latencies")
        everything, series = _all_series(events, lives, axes)
        deaths = _deaths(events, total.died, limits)
        histories, journals, broken = _histories(counts, limits)
        total = replace(total, waiting=everything.waiting, service=everything.service)
        return Figures(
            axes.interval_ms, axes.first_ms, axes.last_ms, everything, series, total,
            axes.servers, axes.queues, rows, left_out, deaths, histories, journals, broken,
        )  # fmt: skip
    finally:
        lives.unpersist()
        counts.unpersist()
        held.unpersist()


def _known(spark: SparkSession, kept: Mapping[Journal, Kept]) -> DataFrame:
    schema = "server string, queue string, generation bigint, begin_lsn bigint, end_lsn bigint"
    rows = [(*journal, each.begin_lsn, each.end_lsn) for journal, each in kept.items()]
    return fn.broadcast(spark.createDataFrame(rows, schema))


def _held(items: DataFrame) -> DataFrame:
    """How many items are still there, by server and queue."""
    return items.groupBy("server", "queue").agg(
        fn.count(fn.when(fn.col("state") != "dead", 1)).alias("ready"),
        fn.count(fn.when(fn.col("state") == "dead", 1)).alias("dead"),
    )


def _counts(events: DataFrame, known: DataFrame) -> DataFrame:
    """How many events of each kind every journal has, and when; from where on it has all."""
    at = ms_of("timestamp")
    begin_lsn = fn.coalesce("begin_lsn", fn.lit(1))
    return events.join(known, list(JOURNAL), "left").groupBy(*JOURNAL, "op").agg(
        fn.count(fn.lit(1)).alias("n"),
        fn.min(at).alias("first_ms"),
        fn.max(at).alias("last_ms"),
        fn.min(fn.when(fn.col("lsn") >= begin_lsn, at)).alias("begin_ms"),
        fn.max(begin_lsn).alias("begin_lsn"),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Axes:
    """Which queues and which intervals there are; a queue's label is its rank, the rest's the
    number after the last."""

    interval_ms: int
    first_ms: int
    last_ms: int
    names: tuple[str, ...]
    queues: int
    servers: int

    @property
    def label(self) -> Column:
        """Of the column `queue`."""
        rest = fn.lit(len(self.names))
        pairs = [fn.lit(each) for rank, name in enumerate(self.names) for each in (name, rank)]
        return fn.coalesce(fn.try_element_at(fn.create_map(*pairs), fn.col("queue")), rest)

    def bucket(self, ms: str | Column) -> Column:
        """Which interval a time is in; the first is 0."""
        at = fn.col(ms) if isinstance(ms, str) else ms
        first = self.first_ms // self.interval_ms
        return (fn.floor(at / fn.lit(self.interval_ms)) - fn.lit(first)).cast("int")

    @property
    def count(self) -> int:
        """How many intervals."""
        return bucket_count(self.first_ms, self.last_ms, self.interval_ms)


def _axes(counts: DataFrame, limits: Limits) -> _Axes | None:
    span = _one(counts.agg(
        fn.min("first_ms").alias("first_ms"), fn.max("last_ms").alias("last_ms"),
        fn.countDistinct("queue").alias("queues"), fn.countDistinct("server").alias("servers"),
    ))  # fmt: skip
    if span["first_ms"] is None:
        return None
    busiest = (
        counts.groupBy("queue").agg(fn.sum("n").alias("n"))
        .orderBy(fn.desc("n"), "queue").limit(limits.queues)
    ).collect()  # fmt: skip
    first_ms, last_ms = span["first_ms"], span["last_ms"]
    interval_ms = limits.interval_ms or interval_for(first_ms, last_ms)
    _check_interval(interval_ms, bucket_count(first_ms, last_ms, interval_ms))
    names = tuple(each["queue"] for each in busiest)
    return _Axes(interval_ms, first_ms, last_ms, names, span["queues"], span["servers"])


def _check_interval(interval_ms: int, buckets: int) -> None:
    if buckets > BUCKETS_MAX:
        raise KestrelError(
            f"An interval of {interval_word(interval_ms)} makes {buckets:,} points in time, and a "
            f"page has at most {BUCKETS_MAX:,}. Say a longer one, or none."
        )


def _rows(
    counts: DataFrame, lives: DataFrame, held: DataFrame, limits: Limits
) -> tuple[tuple[Row, ...], Row, int]:
    """The busiest rows, the sum over all, and how many are not shown."""
    by = ("server", "queue")
    counted = counts.groupBy(*by).agg(
        fn.sum("n").alias("events"),
        *(
            fn.sum(fn.when(fn.col("op") == op, fn.col("n")).otherwise(0)).alias(name)
            for name, op in _COUNTS.items()
        ),
    )  # fmt: skip
    is_gone = fn.col("left_ms").isNull() & fn.col("state").isNull()
    lived = lives.groupBy(*by).agg(
        fn.count(fn.when(fn.col("is_flushed"), 1)).alias("flushed"),
        fn.count(fn.when(is_gone & fn.col("put_ms").isNotNull(), 1)).alias("unknown"),
        fn.count(fn.when(fn.col("deliveries") > 0, 1)).alias("delivered"),
        fn.sum(fn.greatest(fn.col("deliveries") - 1, fn.lit(0))).alias("repeated"),
        *_spread("waiting"),
        *_spread("service"),
    )
    rows = counted.join(held, list(by), "outer").join(lived, list(by), "outer").persist()
    numbers = [each for each in rows.columns if rows.schema[each].dataType == LongType()]
    try:
        how_many = fn.count(fn.lit(1)).alias("rows")
        sums = _one(rows.agg(how_many, *(fn.sum(name).alias(name) for name in numbers)))
        busiest = rows.orderBy(fn.desc_nulls_last("events"), *by).limit(limits.rows).collect()
    finally:
        rows.unpersist()
    shown = tuple(_row(each, each["server"], each["queue"]) for each in busiest)
    return shown, _row(sums, "", ""), sums["rows"] - len(shown)


def _row(found: Found, server: str, queue: str) -> Row:
    values = found.asDict()
    counts = {
        each.name: values.get(each.name) or 0 for each in fields(Row) if each.type == "int"
    }  # fmt: skip
    counts["dropped"] = (values["discarded"] or 0) + (values["flushed"] or 0)
    waiting, service = (_spread_of(found, name) for name in ("waiting", "service"))
    return Row(server, queue, **counts, waiting=waiting, service=service)


def _deaths(events: DataFrame, died: int, limits: Limits) -> tuple[Death, ...]:
    found = (
        events.where(fn.col("op") == "dead")
        .groupBy("queue", "reason").agg(fn.count(fn.lit(1)).alias("n"))
        .orderBy(fn.desc("n"), "queue", "reason").limit(limits.deaths)
    ).collect()  # fmt: skip
    deaths = [Death(each["queue"], each["reason"] or "not said", each["n"]) for each in found]
    others = died - sum(each.count for each in deaths)
    return (*deaths, Death(None, None, others)) if others else tuple(deaths)


def _histories(counts: DataFrame, limits: Limits) -> tuple[tuple[History, ...], int, int]:
    """Those that are not whole first; how many there are, and how many are not whole."""
    journals = counts.groupBy(*JOURNAL).agg(
        fn.max("begin_lsn").alias("lsn"),
        fn.min("begin_ms").alias("begin_ms"),
        fn.max("last_ms").alias("end_ms"),
    )
    is_whole = fn.col("lsn") <= 1
    shown = journals.orderBy(is_whole, *JOURNAL).limit(limits.histories).collect()
    how_many = _one(journals.agg(
        fn.count(fn.lit(1)).alias("all"), fn.count(fn.when(~is_whole, 1)).alias("broken")
    ))  # fmt: skip
    histories = tuple(History(**each.asDict()) for each in shown)
    return histories, how_many["all"], how_many["broken"]


@dataclass(slots=True)
class _Points:
    """What was found, by label and interval; None: over all of them."""

    rates: dict[tuple[int, int], dict[str, int]]
    moves: dict[tuple[int, int], int]  # by how many the depth changed
    waiting: dict[tuple[int | None, int | None], Spread]
    service: dict[tuple[int | None, int | None], Spread]


def _all_series(
    events: DataFrame, lives: DataFrame, axes: _Axes
) -> tuple[Series, tuple[Series, ...]]:
    labelled = lives.withColumn("label", axes.label)
    points = _Points(
        _rates(events, axes),
        _moves(labelled, axes),
        _latencies(labelled.where(fn.col("waiting").isNotNull()), axes, "opened_ms", "waiting"),
        _latencies(labelled.where(fn.col("service").isNotNull()), axes, "confirmed_ms", "service"),
    )
    named = [
        _series(points, axes, [label], name, 1) for label, name in enumerate(axes.names)
    ]  # fmt: skip
    rest = axes.queues - len(axes.names)
    if rest:
        named.append(_series(points, axes, [len(axes.names)], None, rest))
    everything = _series(points, axes, range(len(axes.names) + 1), None, axes.queues)
    return everything, tuple(named)


def _series(
    points: _Points, axes: _Axes, labels: Sequence[int], name: str | None, queues: int
) -> Series:
    key = labels[0] if len(labels) == 1 else None
    depth, buckets = 0, []
    for number in range(axes.count):
        counted: dict[str, int] = defaultdict(int)
        for label in labels:
            depth += points.moves.get((label, number), 0)
            for op, n in points.rates.get((label, number), {}).items():
                counted[op] += n
        begin_ms = (axes.first_ms // axes.interval_ms + number) * axes.interval_ms
        # Between servers whose clocks differ, or when one steps, an item may leave before it came.
        buckets.append(Bucket(
            begin_ms, counted["put"], counted["confirmed"], counted["returned"], counted["dead"],
            max(depth, 0), points.waiting.get((key, number)), points.service.get((key, number)),
        ))  # fmt: skip
    waiting, service = points.waiting.get((key, None)), points.service.get((key, None))
    return Series(name, queues, tuple(buckets), waiting, service)


def _rates(events: DataFrame, axes: _Axes) -> dict[tuple[int, int], dict[str, int]]:
    found = (
        events.where(fn.col("op").isin(*_RATES))
        .groupBy(axes.label.alias("label"), axes.bucket(ms_of("timestamp")).alias("bucket"), "op")
        .agg(fn.count(fn.lit(1)).alias("n"))
    )
    rates: dict[tuple[int, int], dict[str, int]] = defaultdict(dict)
    for each in found.collect():
        rates[each["label"], each["bucket"]][_RATES[each["op"]]] = each["n"]
    return rates


def _moves(lives: DataFrame, axes: _Axes) -> dict[tuple[int, int], int]:
    """Who was there before the history begins came in the first interval."""
    was_there = fn.col("left_ms").isNotNull() | (fn.col("state") != "dead")
    came = fn.coalesce(fn.col("put_ms"), fn.lit(axes.first_ms))
    steps = fn.array(
        fn.struct(axes.bucket(came).alias("bucket"), fn.lit(1).alias("step")),
        fn.struct(axes.bucket("left_ms").alias("bucket"), fn.lit(-1).alias("step")),
    )
    found = (
        lives.where(was_there).select("label", fn.inline(steps))
        .where(fn.col("bucket").isNotNull())
        .groupBy("label", "bucket").agg(fn.sum("step").alias("n"))
    )  # fmt: skip
    return {(each["label"], each["bucket"]): each["n"] for each in found.collect()}


def _latencies(
    lives: DataFrame, axes: _Axes, when: str, name: str
) -> dict[tuple[int | None, int | None], Spread]:
    placed = lives.withColumn("bucket", axes.bucket(when))
    found = placed.cube("label", "bucket").agg(*_spread(name)).collect()
    spreads = ((each, _spread_of(each, name)) for each in found)
    return {
        (each["label"], each["bucket"]): spread for each, spread in spreads if spread is not None
    }


def _spread(name: str) -> tuple[Column, Column]:
    ranks = [fn.lit(each) for each in _RANKS]
    return (
        fn.count(name).alias(f"{name}s"),
        fn.percentile_approx(name, fn.array(*ranks), ACCURACY).alias(name),
    )


def _spread_of(found: Found, name: str) -> Spread | None:
    values: Mapping[str, object] = found.asDict()
    ranks = values.get(name)
    if not isinstance(ranks, list) or not ranks:
        return None
    return Spread(int(found[f"{name}s"]), *(int(each) for each in ranks))


def _one(found: DataFrame) -> Found:
    row = found.first()
    assert row is not None, "an aggregate over nothing is one row all the same"
    return row
