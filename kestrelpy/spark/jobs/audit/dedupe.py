"""Checks of item headers: versions, ids, tokens, schedules, hand-offs and moves.

    versions   an item under a key has the version after the one before it, and names that item; the
               first version is 1
    ids        one id is stored once within its window, and no epoch of a scope after a newer one
    tokens     a lease's token is issued once, for all readers of a queue
    times      each time of a schedule is put once
    hand-off   one item is made of another, and that is its only end; a moved item is where its
               record says

A queue forgets ids and keys some time after their last use (`dedupe_window`, `scope_window`), and
no journal says when. An id that comes again within a minute is a breach; one that comes later,
within the default windows, is counted and shown.

One rule: a check needs the records of both sides: a record that may have gone proves nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from journal.format import ENDS, Kind
from journal.tools import utc
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.baseline import JournalState
from kestrelpy.spark.schema import OPS

_READ: Final = (
    "journal string, server string, queue string, generation bigint, op string, item bigint, "
    "lsn bigint, timestamp timestamp, origin string, of_generation bigint, target string, "
    "id string, scope string, epoch bigint, version bigint, previous bigint, key string, "
    "reader_number bigint, number bigint, key_bytes binary, id_bytes binary, scope_bytes binary, "
    "of_key bigint"
)
_ENDED: Final = tuple(OPS[kind] for kind in ENDS - {Kind.MOVED})
# The defaults of the settings, as a test holds them.
DEDUPE_WINDOW_MS: Final = 24 * 60 * 60 * 1000
SCOPE_WINDOW_MS: Final = 30 * DEDUPE_WINDOW_MS
_SURE_MS: Final = 60_000  # no queue forgets so soon
_HEADER_FIELDS: Final = ("version", "id", "scope", "origin")
_LOOKED_AT: Final = 10_000  # breaches of each rule; more are as bad
# The rules, by name.
RULES: Final = (
    "version", "id_twice", "epoch_back", "made_twice", "ended_elsewhere", "moved_nowhere",
    "token_twice", "time_twice",
)  # fmt: skip


@dataclass(slots=True)
class HeaderFindings:
    """The breaches in one journal. `again`: ids that came again, maybe after their window."""

    by_rule: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    again: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def breaches(self) -> int:
        """How many breaches there are."""
        return sum(self.by_rule.values())


def check_headers(
    spark: SparkSession, paths: Sequence[str], states: Mapping[int, JournalState],
    unbroken: Mapping[int, int], examples: int, kinds: Set[int],
) -> dict[int, HeaderFindings]:  # fmt: skip
    """Check puts, moves and leases. `unbroken`: from which lsn on a journal has all its records.

    `kinds`: the kinds of records that there are.
    """
    rows = ev.read_events(spark, paths, _READ).where(
        fn.col("op").isin(OPS[Kind.PUT], OPS[Kind.MOVED], OPS[Kind.LEASED], *_ENDED)
    )
    lines = spark.createDataFrame(
        [(s.identity, s.server or "", s.queue, s.generation, s.lsn_last, unbroken[s.jid], s.reader)
         for s in states.values()],
        "journal string, of_server string, of_queue string, of_life bigint, lsn_known bigint, "
        "unbroken bigint, of_reader bigint",
    )  # fmt: skip
    known = lines.where(fn.col("of_reader") == 0).drop("of_reader")
    rows = rows.join(fn.broadcast(known), "journal").withColumn("ms", fn.unix_millis("timestamp"))
    puts = rows.where(fn.col("op") == OPS[Kind.PUT]).persist()
    found: dict[int, HeaderFindings] = defaultdict(HeaderFindings)
    try:
        said_of = puts.agg(*(fn.count(each).alias(each) for each in _HEADER_FIELDS)).collect()[0]
        wrong: dict[str, list[tuple[Row, str]]] = {}
        # Most queues use few of these, and each check costs Spark a second.
        if said_of.version:
            wrong["version"] = _versions(puts)
        if said_of.id:
            wrong["id_twice"] = _ids(puts)
        if said_of.scope:
            wrong["epoch_back"] = _epoch_back(puts)
            wrong["time_twice"] = _times(puts)
        if said_of.origin:
            wrong["made_twice"] = _twice(puts)
            wrong["ended_elsewhere"] = _both(rows, puts, lines)
        if Kind.MOVED in kinds:
            moved = rows.where(fn.col("op") == OPS[Kind.MOVED])
            wrong["moved_nowhere"] = _lost(puts, moved, known)
        if Kind.LEASED in kinds:
            wrong["token_twice"] = _tokens(rows.where(fn.col("op") == OPS[Kind.LEASED]))
        for rule, row, text in ((rule, *each) for rule, some in wrong.items() for each in some):
            said = found[ev.jid_of(bytes.fromhex(row.journal))]
            said.by_rule[rule] += 1
            if len(said.examples) < examples:
                said.examples.append(text)
        late = _again(puts).where(fn.col("since_ms") >= _SURE_MS).groupBy("journal")
        for row in late.agg(fn.count("*").alias("again")).collect() if said_of.id else ():
            found[ev.jid_of(bytes.fromhex(row.journal))].again = row.again
    finally:
        puts.unpersist()
    return dict(found)


def _rows(found: DataFrame) -> list[Row]:
    return found.orderBy("journal", "lsn").limit(_LOOKED_AT).collect()


def _before(name: str, *within: str) -> Column:
    """Return this column of the record before, among those that share `within`."""
    return fn.lag(name).over(Window.partitionBy(*within).orderBy("lsn"))


def _versions(puts: DataFrame) -> list[tuple[Row, str]]:
    """Find items whose version is not one more than the one before, or 1 for a forgotten key."""
    keyed = puts.where(fn.col("version").isNotNull() & (fn.col("lsn") >= fn.col("unbroken")))
    steps = keyed.select(
        "journal", "lsn", "item", "key", "version", "previous", "ms", "unbroken",
        *(_before(each, "journal", "key_bytes").alias(f"{each}_before")
          for each in ("item", "version", "ms")),
    )  # fmt: skip
    is_new, is_one = fn.col("item_before").isNull(), fn.col("version") == 1
    forgotten = is_one & (fn.col("ms") - fn.col("ms_before") >= _SURE_MS)
    no_first = is_new & (fn.col("unbroken") <= 1) & ~is_one
    other = ~is_new & (fn.col("version") != fn.col("version_before") + 1) & ~forgotten
    says = fn.coalesce("previous", fn.lit(0))
    strays = ~is_new & ~is_one & (says != fn.col("item_before"))
    found = []
    for r in _rows(steps.where(no_first | other | strays)):
        said = f"versions: item {r.item} is version {r.version} of key {r.key}, and "
        if r.item_before is None:
            said += "nothing was written under that before it"
        else:
            said += f"item {r.item_before} before it is version {r.version_before}"
            if r.version == r.version_before + 1:
                said += f"; it says that item {r.previous or 'none'} is"
        found.append((r, said))
    return found


def _again(puts: DataFrame) -> DataFrame:
    """Return ids that were stored before, `since_ms` ago, within the same scope and epoch, or
    within the same stream."""
    of = fn.when(fn.col("of_key").isNotNull(), fn.col("key_bytes"))
    named = puts.where(fn.col("id").isNotNull()).withColumn("of_bytes", of)
    within = ("journal", "scope_bytes", "epoch", "id_bytes", "of_bytes")
    steps = named.select(
        "journal", "lsn", "item", "id", "scope",
        _before("item", *within).alias("item_before"),
        (fn.col("ms") - _before("ms", *within)).alias("since_ms"),
    )  # fmt: skip
    window = fn.when(fn.col("scope").isNull(), DEDUPE_WINDOW_MS).otherwise(SCOPE_WINDOW_MS)
    return steps.where(fn.col("since_ms") < window)


def _ids(puts: DataFrame) -> list[tuple[Row, str]]:
    """Find ids that were stored twice within a window, or within an epoch of a scope."""
    return [
        (r, f"twice: id {r.id}" + (f" of scope {r.scope}" if r.scope else "")
            + f" was stored as item {r.item_before} and, {r.since_ms} ms later, as item {r.item}")
        for r in _rows(_again(puts).where(fn.col("since_ms") < _SURE_MS))
    ]  # fmt: skip


def _epoch_back(puts: DataFrame) -> list[tuple[Row, str]]:
    """Find items of an older epoch that were stored after one of a newer epoch of the scope."""
    earlier = Window.partitionBy("journal", "scope_bytes").orderBy("lsn").rowsBetween(
        Window.unboundedPreceding, -1
    )  # fmt: skip
    newest = fn.max(fn.struct("epoch", "ms", fn.col("item").alias("of"))).over(earlier)
    steps = puts.where(fn.col("scope").isNotNull() & fn.col("id").isNotNull()).select(
        "journal", "lsn", "item", "id", "scope", "epoch", "ms", newest.alias("newest")
    )  # fmt: skip
    back = (fn.col("epoch") < fn.col("newest.epoch")) & (
        fn.col("ms") - fn.col("newest.ms") < _SURE_MS
    )
    return [
        (r, f"order: item {r.item} of epoch {r.epoch} of scope {r.scope} was stored although item "
            f"{r.newest.of} before it is of epoch {r.newest.epoch}")
        for r in _rows(steps.where(back))
    ]  # fmt: skip


def _both(rows: DataFrame, puts: DataFrame, lines: DataFrame) -> list[tuple[Row, str]]:
    """Find items that were handed off to another journal and have another end as well.

    If both items are of one journal, its own sums show it.
    """
    queue = fn.regexp_extract("origin", "^[^:]*:(.*):[0-9]+$", 1)
    made = puts.where(fn.col("origin").isNotNull()).select(
        "journal", "lsn", fn.col("item").alias("copy"), "origin", fn.col("of_queue").alias("of"),
        fn.substring_index("origin", ":", 1).alias("of_server"), queue.alias("of_queue"),
        fn.col("of_generation").alias("of_life"),
        fn.substring_index("origin", ":", -1).cast("bigint").alias("item"),
    )  # fmt: skip
    names = ["of_server", "of_queue", "of_life"]
    source = lines.select(*names, fn.col("journal").alias("source"), "of_reader")
    made = made.join(fn.broadcast(source), names).where(fn.col("source") != fn.col("journal"))
    ends = rows.where(fn.col("op").isin(*_ENDED) & (fn.col("lsn") <= fn.col("lsn_known"))).select(
        fn.col("journal").alias("source"), fn.col("reader_number").alias("of_reader"), "item", "op"
    )  # fmt: skip
    return [
        (r, f"twice: of {r.origin} item {r.copy} of {r.of} was made, and it has a {r.op} beside "
            "that")
        for r in _rows(made.join(ends, ["source", "of_reader", "item"]))
    ]  # fmt: skip


def _twice(puts: DataFrame) -> list[tuple[Row, str]]:
    """Find items that are the origin of two others."""
    made = puts.where(fn.col("origin").isNotNull())
    in_turn = Window.partitionBy("origin", "of_generation").orderBy("ms", "journal", "lsn")
    first = made.select(
        "journal", "lsn", "item", "origin",
        fn.lag(fn.concat_ws(" as item ", "of_queue", "item")).over(in_turn).alias("other"),
    )  # fmt: skip
    return [
        (r, f"twice: item {r.item} was made of {r.origin}, and so was an earlier one, in "
            f"{r.other}")
        for r in _rows(first.where(fn.col("other").isNotNull()))
    ]  # fmt: skip


def _lost(puts: DataFrame, moved: DataFrame, known: DataFrame) -> list[tuple[Row, str]]:
    """Find moved items that are not where the record says, in journals that are here and whole."""
    target, life = "target", "of_generation"
    queue = fn.regexp_extract(target, "^[^:]*:(.*):[0-9]+$", 1)
    aims = moved.where(
        fn.col(target).isNotNull() & (fn.col("lsn") <= fn.col("lsn_known"))
        & (fn.col("lsn") >= fn.col("unbroken"))
    ).select(
        "journal", "lsn", "item", target, fn.col("of_queue").alias("from_queue"),
        fn.substring_index(target, ":", 1).alias("of_server"),
        fn.substring_index(queue, "+", 1).alias("of_queue"), fn.col(life).alias("of_life"),
        fn.substring_index(target, ":", -1).cast("bigint").alias("copy"),
    )  # fmt: skip
    firsts = puts.where(fn.col("lsn") >= fn.col("unbroken")).groupBy("journal").agg(
        fn.min("item").alias("first")
    )  # fmt: skip
    names = ["of_server", "of_queue", "of_life"]
    first = fn.when(fn.col("unbroken") <= 1, 1).otherwise(fn.col("first"))
    there = known.join(firsts, "journal", "left").groupBy(*names).agg(fn.max(first).alias("first"))
    aimed = aims.join(fn.broadcast(there), names).where(fn.col("copy") >= fn.col("first"))
    origin = fn.regexp_extract("origin", "^[^:]*:([^+]*).*:([0-9]+)$", 1)
    copies = puts.select(
        *names, fn.col("item").alias("copy"), origin.alias("from_queue"),
        fn.substring_index("origin", ":", -1).cast("bigint").alias("item"),
    )  # fmt: skip
    return [
        (r, f"missing: item {r.item} was moved to {r.target}, and no put of that is there")
        for r in _rows(aimed.join(copies, [*names, "copy", "from_queue", "item"], "left_anti"))
    ]


def _times(puts: DataFrame) -> list[tuple[Row, str]]:
    """Find times of a schedule that were put twice."""
    put = puts.where(fn.col("scope").isNotNull() & fn.col("id").isNull()).select(
        "journal", "lsn", "item", "scope", "epoch",
        _before("item", "journal", "scope_bytes", "epoch").alias("item_before"),
    )  # fmt: skip
    return [
        (r, f"twice: {utc(1000 * r.epoch)} of schedule {r.scope} was put as item {r.item_before} "
            f"and again as item {r.item}")
        for r in _rows(put.where(fn.col("item_before").isNotNull()))
    ]  # fmt: skip


def _tokens(leases: DataFrame) -> list[tuple[Row, str]]:
    """Find tokens that name two leases."""
    issued = leases.where(fn.col("lsn") <= fn.col("lsn_known")).select(
        "journal", "lsn", "item", "number",
        _before("item", "journal", "number").alias("item_before"),
    )  # fmt: skip
    return [
        (r, f"twice: token {r.number} was issued for item {r.item_before} and again for item "
            f"{r.item}")
        for r in _rows(issued.where(fn.col("item_before").isNotNull()))
    ]  # fmt: skip
