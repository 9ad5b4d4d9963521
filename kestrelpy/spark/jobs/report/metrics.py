"""Events and items to figures: all of the counting, by Spark.

    events ─┬─ ticks: by journal, kind and second ─▶ the span, the busiest, rates, deaths
            └─ item rows ───────────┬──────────────▶ waiting, service, repeated deliveries
    items ─── still there ──────────┘ └────────────▶ depth: one more at its put, one less at its end

Events are read twice, once for each table; all figures come from these two tables, which Spark
stores.

Series have the figures of each interval, for each queue that is shown:

    label     0 the busiest queue, 1 the next, ...; one after the last of them: all the others
    bucket    0 the interval with the first event, ...
    -1        all labels, or all buckets

Percentiles of latencies are counted in bins, by group; only the bins are sorted. (Spark's own
`percentile_approx` has a sketch for each group and sorts all rows with more than 128 groups.) A
percentile is the latency of an item, not a value between two: the least latency that the given
share of items does not exceed.

    0 .. 511 ms     a bin for each millisecond
    from there on   256 bins for each doubling: the value of a bin is at most 0.2 % off

One rule: the driver gets aggregates only, each with a limit; rows beyond the limit are summed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Final

from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window
from pyspark.sql import Row as Found
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.queries import Begin, at_once
from kestrelpy.spark.jobs.report import tables as ev
from kestrelpy.spark.jobs.report.figures import (
    BUCKETS_MAX,
    DEATHS_MAX,
    HISTORIES_MAX,
    QUEUES_MAX,
    ROWS_MAX,
    Bucket,
    DeathCount,
    KnownSince,
    ReportFigures,
    ReportRow,
    Series,
    Spread,
    bucket_count,
    interval_for,
    interval_word,
)

PRECISION_BITS: Final = 8
ACCURACY: Final = (
    f"A percentile is that of all items; above {2 << PRECISION_BITS} ms it is at most "
    f"{1 / (2 << PRECISION_BITS):.1%} off."
)
RANKS: Final[Mapping[str, float]] = {"p50_ms": 0.50, "p95_ms": 0.95, "p99_ms": 0.99}


def bins(rows: DataFrame, keys: Sequence[str], name: str) -> DataFrame:
    """Count the rows for each group and bin of the column `name`: `bin`, `n`."""
    bits = f"greatest(cast(floor(log2(greatest({name}, 1))) as int) - {PRECISION_BITS}, 0)"
    middle = f"shiftleft(shiftright({name}, {bits}), {bits}) + shiftright(shiftleft(1L, {bits}), 1)"
    known = rows.where(fn.col(name).isNotNull())
    return known.groupBy(*keys, fn.expr(middle).alias("bin")).agg(fn.count(fn.lit(1)).alias("n"))


def spreads(binned: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return one row for each group: `count` and the percentiles, by the names of RANKS."""
    counted = binned.groupBy(*keys, "bin").agg(fn.sum("n").alias("n"))
    group = Window.partitionBy(*keys)
    up_to = fn.sum("n").over(group.orderBy("bin"))
    rows = counted.select(
        *keys, "bin", up_to.alias("up_to"), fn.sum("n").over(group).alias("count")
    )
    return rows.groupBy(*keys).agg(
        fn.max("count").alias("count"),
        *(_percentile(rank).alias(name) for name, rank in RANKS.items()),
    )


def _percentile(rank: float) -> Column:
    enough = fn.col("up_to") >= fn.ceil(fn.col("count") * fn.lit(rank))
    return fn.min(fn.when(enough, fn.col("bin")))


def spread_of(found: Mapping[str, int]) -> Spread:
    """Return a row of `spreads` as a `Spread`."""
    return Spread(found["count"], *(found[name] for name in RANKS))


UNNAMED: Final = "unnamed"  # a server whose id is not in the journal
TICK_MS: Final = 1_000  # the interval of the first count of events
_COUNTS: Final = {
    "put": ev.PUT, "confirmed": ev.CONFIRM, "returned": ev.RETURN, "expired": ev.EXPIRE,
    "discarded": ev.DISCARD, "died": ev.DEAD,
}  # fmt: skip

Journal = tuple[str, str, int]  # server, queue, generation
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RecordSpan:
    """The records of a journal: from `begin_lsn` on all are there; `end_lsn` was the last."""

    begin_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class ShownLimits:
    """How much is shown; `interval_ms` None: the span decides."""

    queues: int = QUEUES_MAX
    rows: int = ROWS_MAX
    deaths: int = DEATHS_MAX
    histories: int = HISTORIES_MAX
    interval_ms: int | None = None


def measure(
    events: DataFrame, items: DataFrame, spans: Mapping[Journal, RecordSpan], limits: ShownLimits,
    say: Say,
) -> ReportFigures | None:  # fmt: skip
    """Return all figures, from tables with the columns EVENTS and ITEMS; None: there is no event.

    Daemons may be writing: `spans` is from before both tables are first read, and items are read
    before events.
    """
    known = _known(events.sparkSession, spans)
    events = ev.compact(events.na.fill(UNNAMED, ["server"]))
    items = items.na.fill(UNNAMED, ["server"]).withColumn("jid", ev.jid()).persist()
    ticks = _ticks(events, known, any(each.begin_lsn > 1 for each in spans.values())).persist()
    table: DataFrame | None = None
    try:
        say("reading items")
        items.count()
        say("counting events")
        axes = _axes(ticks, limits)
        if axes is None:
            return None
        say("following every item")
        flushed = not ticks.where(fn.col("kind") == ev.FLUSH).isEmpty()
        table = ev.item_rows_of(events, items, known.select("jid", "end_lsn"), flushed).persist()
        with at_once(events.sparkSession) as begin:
            counting = begin(partial(_rows, ticks, table, items, limits))
            dying = begin(partial(_deaths, ticks, limits))
            beginning = begin(partial(_histories, ticks, limits))
            everything, series = all_series(ticks, table, axes, begin)
            rows, total, left_out = counting.result()
            histories, journals, broken = beginning.result()
        total = replace(total, waiting=everything.waiting, service=everything.service)
        return ReportFigures(
            axes.interval_ms, axes.first_ms, axes.last_ms, everything, series, total,
            axes.servers, axes.queues, rows, left_out, _with_others(dying.result(), total.died),
            histories, journals, broken,
        )  # fmt: skip
    finally:
        for each in (table, ticks, items):
            if each is not None:
                each.unpersist()


def _known(spark: SparkSession, spans: Mapping[Journal, RecordSpan]) -> DataFrame:
    schema = "server string, queue string, generation bigint, begin_lsn bigint, end_lsn bigint"
    rows = [(*journal, each.begin_lsn, each.end_lsn) for journal, each in spans.items()]
    return spark.createDataFrame(rows, schema).withColumn("jid", ev.jid())


def _ticks(events: DataFrame, known: DataFrame, is_broken: bool) -> DataFrame:
    """Count the events of each kind (and reason) of every journal in every second.

    `begin_ms` is the time of the first event after which none is missing.
    """
    at, counts = fn.col("at"), [fn.count(fn.lit(1)).alias("n")]
    whole = at
    if is_broken:
        begins = known.where("begin_lsn > 1").select("jid", "begin_lsn")
        events = events.join(fn.broadcast(begins), "jid", "left")
        begin_lsn = fn.coalesce("begin_lsn", fn.lit(1))
        whole = fn.when(fn.col("lsn") >= begin_lsn, at)
        counts.append(fn.max(begin_lsn).alias("begin_lsn"))
    tick = fn.floor(at / TICK_MS).alias("tick")
    ticks = events.groupBy("jid", *ev.JOURNAL, "kind", "reason", tick).agg(
        *counts, fn.min(whole).alias("begin_ms"), fn.min(at).alias("first_ms"),
        fn.max(at).alias("last_ms"),
    )  # fmt: skip
    return ticks if is_broken else ticks.withColumn("begin_lsn", fn.lit(1))


def _axes(ticks: DataFrame, limits: ShownLimits) -> Axes | None:
    span = _one(ticks.agg(
        fn.min("first_ms").alias("first_ms"), fn.max("last_ms").alias("last_ms"),
        fn.countDistinct("queue").alias("queues"), fn.countDistinct("server").alias("servers"),
    ))  # fmt: skip
    if span["first_ms"] is None:
        return None
    busiest = (
        ticks.groupBy("queue").agg(fn.sum("n").alias("n"))
        .orderBy(fn.desc("n"), "queue").limit(limits.queues)
    ).collect()  # fmt: skip
    first_ms, last_ms = span["first_ms"], span["last_ms"]
    interval_ms = limits.interval_ms or interval_for(first_ms, last_ms)
    _check_interval(interval_ms, bucket_count(first_ms, last_ms, interval_ms))
    names = tuple(each["queue"] for each in busiest)
    return Axes(interval_ms, first_ms, last_ms, names, span["queues"], span["servers"])


def _check_interval(interval_ms: int, buckets: int) -> None:
    if buckets > BUCKETS_MAX:
        raise KestrelError(
            f"An interval of one {interval_word(interval_ms)} makes {buckets:,} points in time, "
            f"and a page has at most {BUCKETS_MAX:,}. Say a longer one, or none."
        )


def _rows(
    ticks: DataFrame, table: DataFrame, items: DataFrame, limits: ShownLimits
) -> tuple[tuple[ReportRow, ...], ReportRow, int]:
    """Return the busiest rows, the sum over all, and how many rows are not shown."""
    by = ["server", "queue"]
    names = fn.broadcast(ticks.select("jid", *by).distinct())
    counted = ticks.groupBy(*by).agg(
        fn.sum("n").alias("events"),
        *(
            fn.sum(fn.when(fn.col("kind") == kind, fn.col("n")).otherwise(0)).alias(name)
            for name, kind in _COUNTS.items()
        ),
    )
    held = items.groupBy(*by).agg(
        fn.count(fn.when(fn.col("state") != "dead", 1)).alias("ready"),
        fn.count(fn.when(fn.col("state") == "dead", 1)).alias("dead"),
    )
    lived = _lived(table).join(names, "jid").groupBy(*by).agg(
        *(fn.sum(name).alias(name) for name in ("flushed", "unknown", "delivered", "repeated"))
    )  # fmt: skip
    rows = counted.join(held, by, "outer").join(lived, by, "outer")
    for name in ("waiting", "service"):
        found = spreads(bins(table, ["jid"], name).join(names, "jid"), by)
        values = fn.struct(*(each for each in found.columns if each not in by)).alias(name)
        rows = rows.join(found.select(*by, values), by, "left")
    sums = [each for each in rows.columns if each not in (*by, "waiting", "service")]
    how_many, total = fn.count(fn.lit(1)).alias("rows"), Observation()
    rows = rows.observe(total, how_many, *(fn.sum(name).alias(name) for name in sums))
    busiest = rows.orderBy(fn.desc_nulls_last("events"), *by).limit(limits.rows).collect()
    shown = tuple(_row(each.asDict(), each["server"], each["queue"]) for each in busiest)
    return shown, _row(total.get, "", ""), total.get["rows"] - len(shown)


def _lived(table: DataFrame) -> DataFrame:
    is_gone = fn.col("left_ms").isNull() & fn.col("state").isNull()
    return table.groupBy("jid").agg(
        fn.count(fn.when(fn.col("is_flushed"), 1)).alias("flushed"),
        fn.count(fn.when(is_gone & fn.col("put_ms").isNotNull(), 1)).alias("unknown"),
        fn.count(fn.when(fn.col("deliveries") > 0, 1)).alias("delivered"),
        fn.sum(fn.greatest(fn.col("deliveries") - 1, fn.lit(0))).alias("repeated"),
    )


def _row(values: Mapping[str, Any], server: str, queue: str) -> ReportRow:
    counts = {
        each.name: values.get(each.name) or 0 for each in fields(ReportRow) if each.type == "int"
    }
    counts["dropped"] = (values["discarded"] or 0) + (values["flushed"] or 0)
    waiting, service = (
        spread_of(each.asDict()) if (each := values.get(name)) else None
        for name in ("waiting", "service")
    )
    return ReportRow(server, queue, **counts, waiting=waiting, service=service)


def _deaths(ticks: DataFrame, limits: ShownLimits) -> tuple[DeathCount, ...]:
    found = (
        ticks.where(fn.col("kind") == ev.DEAD)
        .groupBy("queue", "reason").agg(fn.sum("n").alias("n"))
        .orderBy(fn.desc("n"), "queue", "reason").limit(limits.deaths)
    ).collect()  # fmt: skip
    return tuple(
        DeathCount(each["queue"], each["reason"] or "not said", each["n"]) for each in found
    )


def _with_others(deaths: tuple[DeathCount, ...], died: int) -> tuple[DeathCount, ...]:
    """Add the deaths that are not among these."""
    others = died - sum(each.count for each in deaths)
    return (*deaths, DeathCount(None, None, others)) if others else deaths


def _histories(ticks: DataFrame, limits: ShownLimits) -> tuple[tuple[KnownSince, ...], int, int]:
    """Return the histories, those that are not whole first; how many; how many are not whole."""
    journals = ticks.groupBy(*ev.JOURNAL).agg(
        fn.max("begin_lsn").alias("lsn"),
        fn.min("begin_ms").alias("begin_ms"),
        fn.max("last_ms").alias("end_ms"),
    )
    is_whole = fn.col("lsn") <= 1
    shown = journals.orderBy(is_whole, *ev.JOURNAL).limit(limits.histories).collect()
    how_many = _one(journals.agg(
        fn.count(fn.lit(1)).alias("all"), fn.count(fn.when(~is_whole, 1)).alias("broken")
    ))  # fmt: skip
    histories = tuple(KnownSince(**each.asDict()) for each in shown)
    return histories, how_many["all"], how_many["broken"]


def _one(found: DataFrame) -> Found:
    row = found.first()
    assert row is not None, "an aggregate over nothing is one row all the same"
    return row


_RATES: Final = {
    ev.PUT: "put", ev.CONFIRM: "confirmed", ev.RETURN: "returned", ev.DEAD: "dead",
}  # fmt: skip
_ALL: Final = -1

Place = tuple[int, int]  # label and bucket


@dataclass(frozen=True, slots=True)
class Axes:
    """The queues and intervals of the series; `names` are the queues with a label of their own."""

    interval_ms: int
    first_ms: int
    last_ms: int
    names: tuple[str, ...]
    queues: int
    servers: int

    def labels(self, ticks: DataFrame) -> DataFrame:
        """Return the label of every journal, by `jid`."""
        known = ticks.sparkSession.createDataFrame(
            list(zip(self.names, range(len(self.names)), strict=True)), "queue string, label int"
        )
        journals = ticks.select("jid", "queue").distinct().join(known, "queue", "left")
        rest = fn.lit(len(self.names))
        return fn.broadcast(journals.select("jid", fn.coalesce("label", rest).alias("label")))

    def bucket(self, ms: Column) -> Column:
        """Return the interval of a time."""
        first = self.first_ms // self.interval_ms
        return (fn.floor(ms / fn.lit(self.interval_ms)) - fn.lit(first)).cast("int")

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return bucket_count(self.first_ms, self.last_ms, self.interval_ms)


@dataclass(slots=True)
class _Points:
    rates: dict[Place, dict[str, int]]
    steps: dict[Place, int]  # by how many the depth changed
    waiting: dict[Place, Spread]
    service: dict[Place, Spread]


def all_series(
    ticks: DataFrame, table: DataFrame, axes: Axes, begin: Begin
) -> tuple[Series, tuple[Series, ...]]:
    """Return the series of all queues together, and of each shown queue, the others as the last.

    `begin` runs the queries, at once.
    """
    labels = axes.labels(ticks)
    table = table.join(labels, "jid")
    rates = begin(partial(_rates, ticks.join(labels, "jid"), axes))
    steps = begin(partial(_steps, table, axes))
    waiting = begin(partial(_latencies, table, axes, "opened_ms", "waiting"))
    service = begin(partial(_latencies, table, axes, "confirmed_ms", "service"))
    points = _Points(rates.result(), steps.result(), waiting.result(), service.result())
    named = [_series(points, axes, [label], name, 1) for label, name in enumerate(axes.names)]
    rest = axes.queues - len(axes.names)
    if rest:
        named.append(_series(points, axes, [len(axes.names)], None, rest))
    everything = _series(points, axes, range(len(axes.names) + 1), None, axes.queues)
    return everything, tuple(named)


def _series(
    points: _Points, axes: Axes, labels: Sequence[int], name: str | None, queues: int
) -> Series:
    label_of_all = labels[0] if len(labels) == 1 else _ALL
    depth, buckets = 0, []
    for number in range(axes.count):
        counted: dict[str, int] = defaultdict(int)
        for label in labels:
            depth += points.steps.get((label, number), 0)
            for what, n in points.rates.get((label, number), {}).items():
                counted[what] += n
        begin_ms = (axes.first_ms // axes.interval_ms + number) * axes.interval_ms
        at = (label_of_all, number)
        # When a clock steps back, an item may leave before it came.
        buckets.append(Bucket(
            begin_ms, counted["put"], counted["confirmed"], counted["returned"], counted["dead"],
            max(depth, 0), points.waiting.get(at), points.service.get(at),
        ))  # fmt: skip
    whole = (label_of_all, _ALL)
    return Series(
        name, queues, tuple(buckets), points.waiting.get(whole), points.service.get(whole)
    )


def _rates(ticks: DataFrame, axes: Axes) -> dict[Place, dict[str, int]]:
    found = (
        ticks.where(fn.col("kind").isin(*_RATES))
        .groupBy("label", axes.bucket(fn.col("first_ms")).alias("bucket"), "kind")
        .agg(fn.sum("n").alias("n"))
    )
    rates: dict[Place, dict[str, int]] = defaultdict(dict)
    for each in found.collect():
        rates[each["label"], each["bucket"]][_RATES[each["kind"]]] = each["n"]
    return rates


def _steps(table: DataFrame, axes: Axes) -> dict[Place, int]:
    """Return the changes of depth; an item from before the history came in the first interval."""
    was_there = fn.col("left_ms").isNotNull() | (fn.col("state") != "dead")
    came = axes.bucket(fn.coalesce(fn.col("put_ms"), fn.lit(axes.first_ms)))
    left = axes.bucket(fn.col("left_ms"))
    both = table.where(was_there).groupBy("label", came.alias("came"), left.alias("left")).agg(
        fn.count(fn.lit(1)).alias("n")
    )  # fmt: skip
    steps = fn.array(
        fn.struct(fn.col("came").alias("bucket"), fn.col("n").alias("step")),
        fn.struct(fn.col("left").alias("bucket"), (-fn.col("n")).alias("step")),
    )
    found = (
        both.select("label", fn.inline(steps)).where(fn.col("bucket").isNotNull())
        .groupBy("label", "bucket").agg(fn.sum("step").alias("n"))
    )  # fmt: skip
    return {(each["label"], each["bucket"]): each["n"] for each in found.collect()}


def _latencies(table: DataFrame, axes: Axes, when: str, name: str) -> dict[Place, Spread]:
    placed = table.select("label", axes.bucket(fn.col(when)).alias("bucket"), name)
    counted = bins(placed, ["label", "bucket"], name)
    for key in ("label", "bucket"):  # a row counts in its own, and in all
        twice = fn.explode(fn.array(fn.col(key), fn.lit(_ALL)))
        counted = counted.withColumn(key, twice)
    found = spreads(counted, ["label", "bucket"]).collect()
    return {(each["label"], each["bucket"]): spread_of(each.asDict()) for each in found}
