"""Events as the jobs want them: numbers instead of words, so that a row is a few bytes.

    jid       the journal: 64 bits of its identity
    kind      the record's kind (`journal.record.Kind`), -1 where its word is not known here
    ms        when it happened; `opened_ms`: when the delivery began that it ends
    before    of what ends a delivery: how many deliveries the item had before this one
    how       what ended a delivery that came to nothing: one of HOW
    key_hash  the item's key: 64 bits of it

One rule: what a job does not need is not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.record import Kind
from kestrelpy.spark.schema import OPS

NEEDED: Final = (
    "journal string, lsn bigint, op string, item bigint, timestamp timestamp, opened timestamp,"
    "attempts int, reason string, key string, segment bigint, reader string"
)
# Words of the journal for what ended a delivery; any other is a reason that somebody gave.
HOW: Final = ("", "abort", "hangup", "lease", "defer")
OTHER: Final = len(HOW)
DEFER: Final = HOW.index("defer")

PUT, CONFIRM, RETURN, DEAD = int(Kind.PUT), int(Kind.DONE), int(Kind.RETURNED), int(Kind.DEAD)
EXPIRE, DISCARD, FLUSH = int(Kind.EXPIRED), int(Kind.DISCARDED), int(Kind.FLUSHED)
TOKENS, MOVE, CANCEL = int(Kind.TOKENS), int(Kind.MOVED), int(Kind.CANCELLED)
REDRIVE: Final = int(Kind.REDRIVEN)
# After one of these an item is gone for good.
ENDS: Final = (CONFIRM, EXPIRE, DISCARD, MOVE, CANCEL)
# These end a delivery, and say when it began.
DELIVERIES: Final = (CONFIRM, RETURN, DEAD, MOVE)
# Records of other kinds are written by later versions: what they do to an item is not known here.
UNDERSTOOD: Final = (
    *ENDS, PUT, RETURN, DEAD, FLUSH, TOKENS, REDRIVE, int(Kind.DECLARED), int(Kind.PAUSED),
    int(Kind.LEASED), int(Kind.RENEWED), int(Kind.SETTLED),
)  # fmt: skip
# In the order of how often they are met: each row is compared with one after the other.
_BY_WORD: Final = {
    **{OPS[kind]: int(kind) for kind in (Kind.DONE, Kind.PUT, Kind.RETURNED)},
    **{word: int(kind) for kind, word in OPS.items()},
}


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush: everything up to item `last` was gone, but what was dead and `spared`."""

    jid: int
    lsn: int
    last: int
    ms: int
    spared: tuple[int, ...]


def read_events(spark: SparkSession, paths: Sequence[str], columns: str) -> DataFrame:
    """Every record under these folders, each once; what is damaged is passed over, not an error."""
    reader = spark.read.format("kestrel").option("mode", "events").schema(columns)
    return reader.option("failOnDataLoss", "false").load(list(paths))


def compact(events: DataFrame, *more: Column | str) -> DataFrame:
    """The columns above from those of NEEDED, and more."""
    kind, how = fn.col("kind"), fn.col("how")
    before = (
        fn.when(kind == RETURN, fn.col("attempts") - (how != DEFER).cast("int"))
        .when(kind == DEAD, fn.col("attempts") - 1)
        .when(kind.isin(CONFIRM, MOVE), fn.col("attempts"))
    )
    return (
        events.select(
            fn.xxhash64("journal").alias("jid"),
            "lsn",
            _number_of(fn.col("op")).alias("kind"),
            "item",
            fn.unix_millis("timestamp").alias("ms"),
            fn.unix_millis("opened").alias("opened_ms"),
            "attempts",
            _how(fn.col("reason")).alias("how"),
            fn.when(fn.col("key").isNotNull(), fn.xxhash64("key")).alias("key_hash"),
            "segment",
            fn.col("reader").isNotNull().alias("of_child"),
            *more,
        )
        .withColumn("before", before)
    )


_FLUSHES: Final = (
    "journal string, lsn bigint, op string, item bigint, timestamp timestamp, value binary"
)


def read_flushes(spark: SparkSession, paths: Sequence[str]) -> list[Flush]:
    """Flushes with the items that they spared. (`value` of all records is read for them.)"""
    rows = read_events(spark, paths, _FLUSHES).where(fn.col("op") == OPS[Kind.FLUSHED])
    named = rows.select(
        fn.xxhash64("journal").alias("jid"), "lsn", "item",
        fn.unix_millis("timestamp").alias("ms"), "value",
    )  # fmt: skip
    return [
        Flush(r.jid, r.lsn, r.item, r.ms, _spared(bytes(r.value or b""))) for r in named.collect()
    ]


def _spared(body: bytes) -> tuple[int, ...]:
    return tuple(
        int.from_bytes(body[at : at + 8], "little") for at in range(0, len(body) // 8 * 8, 8)
    )


def _number_of(op: Column) -> Column:
    words = iter(_BY_WORD.items())
    word, kind = next(words)
    numbered = fn.when(op == word, kind)
    for word, kind in words:
        numbered = numbered.when(op == word, kind)
    return numbered.otherwise(-1)


def _how(reason: Column) -> Column:
    found = fn.when(reason.isNull(), 0)
    for number, word in enumerate(HOW):
        found = found.when(reason == word, number)
    return found.otherwise(OTHER)
