"""Events as arrays of numbers, for the jobs, and those of each reader of a journal.

    jid           the journal, or a child in it: a number (`jid_of`, `reader_jid`)
    kind          the record's kind (`journal.format.record.Kind`); -1: its word is not known here
    ms            when it happened
    opened_ms     when the delivery began that it ends; 0: it ends none
    before        how many deliveries the item had before the one that it ends
    how           what ended a delivery without a confirm: one of HOW
    key_hash      64 bits of the item's key
    with_header   1: a put with an id, a schedule, or the origin of its item

The jobs treat a child as a journal with a number of its own; an item for all readers is put for
each of them (`by_reader`). Events of children are also among those of the parent, marked
`of_child`, because the numbers of records are checked there.

    records of `orders`    PUT 1   PUT 2   DONE 1 (reader 1)   PUT 3 (reader 1)   DONE 2
    events of `orders`     PUT 1   PUT 2                                          DONE 2
    events of reader 1     PUT 1   PUT 2   DONE 1              PUT 3

One rule: the reader of a record follows from its own number and the READER records around it.
"""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.errors import ITEM_MAX
from journal.format import (
    ENDS_DELIVERY,
    IN_LOG,
    STOPS,
    Beginning,
    Draft,
    Effect,
    Kind,
    kinds_with,
)
from kestrelpy.spark.files import Bools, Ints, children, passed_on
from kestrelpy.spark.schema import OPS

if TYPE_CHECKING:
    from kestrelpy.spark.files import Split

NEEDED: Final = (
    "lsn bigint, op string, item bigint, timestamp timestamp, opened timestamp, "
    "attempts int, reason string, key_bytes binary, segment bigint, reader_number bigint, "
    "origin string, id string, scope_bytes binary"
)
# The columns of `Events.rows`, for Spark.
ROWS: Final = (
    "jid bigint, kind int, item bigint, lsn bigint, ms bigint, opened_ms bigint, segment bigint, "
    "of_child boolean, key_hash bigint"
)
# The journal's words for the end of a delivery; any other is a reason from a client.
HOW: Final = ("", "abort", "hangup", "lease", "defer")
OTHER: Final = len(HOW)
DEFER: Final = HOW.index("defer")

PUT, CONFIRM, RETURN, DEAD = int(Kind.PUT), int(Kind.DONE), int(Kind.RETURNED), int(Kind.DEAD)
EXPIRE, DISCARD, FLUSH = int(Kind.EXPIRED), int(Kind.DISCARDED), int(Kind.FLUSHED)
TOKENS, MOVE, CANCEL = int(Kind.TOKENS), int(Kind.MOVED), int(Kind.CANCELLED)
REDRIVE, RELEASE = int(Kind.REDRIVEN), int(Kind.RELEASED)
LEASE, RENEW = int(Kind.LEASED), int(Kind.RENEWED)
NAME, UPTO = int(Kind.READER), int(Kind.UPTO)
# Besides the kinds of records: facts about an item that come from no record.
THERE: Final = 1000
DEAD_THERE: Final = 1001
HANDED: Final = 1002  # the put of another item names this one as its origin
KEYED: Final = 1003  # its put, before this child was named, has its key
# One of these ends an item for good.
ENDS: Final = tuple(map(int, kinds_with(Effect.END)))
# These end a delivery, and say when it began.
DELIVERIES: Final = tuple(map(int, ENDS_DELIVERY))
# Only a live item has one of these, and stays live after it.
ONLY_LIVE: Final = tuple(
    map(int, kinds_with(Effect.RETURN, Effect.DIE, Effect.LEASE, Effect.RENEW, Effect.REDRIVE))
)
# Records of other kinds come from later versions: their effect on an item is not known here.
UNDERSTOOD: Final = tuple(map(int, IN_LOG))
_WORDS: Final = pa.array([*OPS.values()], pa.string())
_KINDS: Final = np.array([*map(int, OPS), -1], np.int16)
_REASONS: Final = pa.array(HOW[1:], pa.string())


@dataclass(frozen=True, slots=True)
class Flush:
    """A flush of all items up to `last`, except dead letters and the `spared`.

    `is_upto`: a confirm of all items up to the marker `last`; it also spares delayed items.
    """

    jid: int
    lsn: int
    last: int
    ms: int
    spared: tuple[int, ...]
    is_upto: bool = False


class Events:
    """Some events as arrays, one for each column; 0 where there is no value."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    @classmethod
    def of(
        cls, jid: int, read: pa.RecordBatch, extra: Sequence[str] = (), last: int | None = None
    ) -> Events:
        """Make events of a journal up to the lsn `last`, from the columns NEEDED and `extra`."""
        if last is not None and (late := ints(read["lsn"]) > last).any():
            read = read.filter(pa.array(~late))
        kind = ints(pc.fill_null(pc.index_in(read["op"], _WORDS), len(_WORDS)))
        how = ints(pc.fill_null(pc.index_in(read["reason"], _REASONS), OTHER - 1)) + 1
        columns = {
            "jid": np.full(read.num_rows, jid),
            "kind": _KINDS[kind],
            "item": ints(read["item"]),
            "lsn": ints(read["lsn"]),
            "ms": _millis(read["timestamp"]),
            "opened_ms": _millis(read["opened"]),
            "attempts": ints(read["attempts"]).astype(np.int32),
            "how": np.where(bools(read["reason"].is_valid()), how, 0).astype(np.int8),
            "segment": ints(read["segment"]),
            "of_child": pa.array(ints(read["reader_number"]) > 0),
            "key_hash": _hashes(read["key_bytes"]),
            "with_header": _any_of(read["origin"], read["id"], read["scope_bytes"]),
            **{name: read[name] for name in extra},
        }
        return cls(pa.RecordBatch.from_pydict(columns))

    @classmethod
    def bare(
        cls, jid: int, kind: int, items: Ints, lsn: Ints | int = 0, keys: pa.Array | None = None
    ) -> Events:
        """Make facts about items that come from no record, with an `lsn` and hashes of `keys`."""
        nothing = np.zeros(len(items), np.int64)
        hashes = pa.nulls(len(items), pa.int64()) if keys is None else keys
        columns = {
            "jid": nothing + jid, "kind": (nothing + kind).astype(np.int16), "item": items,
            "lsn": nothing + lsn, "ms": nothing, "opened_ms": nothing,
            "attempts": nothing.astype(np.int32), "how": nothing.astype(np.int8),
            "segment": nothing, "of_child": nothing == 1, "key_hash": hashes,
            "with_header": nothing,
        }  # fmt: skip
        return cls(pa.RecordBatch.from_pydict(columns))

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def records(self) -> Events:
        """Return the events that are records."""
        return self.pick(self.kind < THERE) if (self.kind >= THERE).any() else self

    def pick(self, which: Ints | Bools) -> Events:
        """Return some of the events, by position or by a mask."""
        chosen = pa.array(which)
        taken = self.batch.filter(chosen) if which.dtype == bool else self.batch.take(chosen)
        return Events(taken)

    @cached_property
    def jid(self) -> Ints:
        return ints(self.batch["jid"])

    @cached_property
    def kind(self) -> Ints:
        return ints(self.batch["kind"])

    @cached_property
    def item(self) -> Ints:
        return ints(self.batch["item"])

    @cached_property
    def lsn(self) -> Ints:
        return ints(self.batch["lsn"])

    @cached_property
    def ms(self) -> Ints:
        return ints(self.batch["ms"])

    @cached_property
    def opened_ms(self) -> Ints:
        return ints(self.batch["opened_ms"])

    @cached_property
    def attempts(self) -> Ints:
        return ints(self.batch["attempts"])

    @cached_property
    def how(self) -> Ints:
        return ints(self.batch["how"])

    @cached_property
    def segment(self) -> Ints:
        return ints(self.batch["segment"])

    @cached_property
    def of_child(self) -> Bools:
        return bools(self.batch["of_child"])

    @cached_property
    def before(self) -> Ints:
        """How many deliveries ended before the one that each event ends."""
        counted = (self.kind == DEAD) | ((self.kind == RETURN) & (self.how != DEFER))
        made: Ints = self.attempts - counted
        return made

    def is_one_of(self, kinds: Sequence[int]) -> Bools:
        """Return which events are of one of these kinds."""
        found: Bools = self.kind == kinds[0]
        for kind in kinds[1:]:
            found |= self.kind == kind
        return found

    def rows(self) -> pa.RecordBatch:
        """Return the events with the columns of ROWS."""
        item, opened = self.item, self.opened_ms
        columns = {
            "jid": self.jid, "kind": self.kind.astype(np.int32),
            "item": pa.array(item, mask=item == 0), "lsn": self.lsn, "ms": self.ms,
            "opened_ms": pa.array(opened, mask=opened == 0),
            "segment": self.segment, "of_child": self.batch["of_child"],
            "key_hash": self.batch["key_hash"],
        }  # fmt: skip
        return pa.RecordBatch.from_pydict(columns)


def ints(column: pa.Array) -> Ints:
    """Return a column as an array; 0 for null."""
    column = column.fill_null(0) if column.null_count else column
    made: npt.NDArray[np.integer] = column.to_numpy(zero_copy_only=False)
    return made.astype(np.int64, copy=False)


def bools(column: pa.Array) -> Bools:
    """Return a column as an array."""
    made: Bools = column.to_numpy(zero_copy_only=False)
    return made


def _millis(column: pa.Array) -> Ints:
    return ints(column.view(pa.int64())) // 1000


def _any_of(*columns: pa.Array) -> pa.Array:
    found = columns[0].is_valid()
    for column in columns[1:]:
        found = pc.or_(found, column.is_valid())
    return found.cast(pa.int64())


def _hashes(keys: pa.Array) -> pa.Array:
    if keys.null_count == len(keys):
        return pa.nulls(len(keys), pa.int64())
    words = keys.dictionary_encode()
    numbers = [number_of(each) for each in words.dictionary.to_pylist()]
    return pa.array(numbers, pa.int64()).take(words.indices)


def number_of(name: bytes) -> int:
    """Return 64 bits of a name: two names share them with a chance of 1 in 10^19."""
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), "little", signed=True)


def jid_of(identity: bytes) -> int:
    """Return a journal's number."""
    return number_of(identity)


def reader_jid(jid: int, reader: int) -> int:
    """Return a child's number: the jobs treat a child as a journal of its own. Reader 0: `jid`."""
    return number_of(struct.pack("<qQ", jid, reader)) if reader else jid


def read_events(spark: SparkSession, paths: Sequence[str], columns: str) -> DataFrame:
    """Read every record under these folders, each once; skip damaged ones."""
    reader = spark.read.format("kestrel").option("mode", "events").schema(columns)
    return reader.option("failOnDataLoss", "false").load(list(paths))


_FLUSHES: Final = (
    "journal string, lsn bigint, op string, item bigint, timestamp timestamp, value binary, "
    "reader_number bigint, number bigint, flags bigint"
)


def read_beginnings(
    spark: SparkSession, paths: Sequence[str]
) -> dict[tuple[str, int], list[tuple[int, Beginning | None]]]:
    """Return when children were named, and their first items, by journal identity and number."""
    rows = read_events(spark, paths, _FLUSHES).where(
        (fn.col("op") == OPS[Kind.READER]) & (fn.col("reader_number") > 0)
        & (fn.col("flags") != STOPS)
    )  # fmt: skip
    found = defaultdict[tuple[str, int], list[tuple[int, Beginning | None]]](list)
    for r in rows.orderBy("lsn").collect():
        draft = Draft(Kind.READER, 0, 0, 0, 0, b"", bytes(r.value or b""), r.reader_number, 0)
        found[r.journal, r.reader_number].append((r.lsn, Beginning.decode(draft)))
    return found


def read_positions(spark: SparkSession, paths: Sequence[str]) -> dict[int, Ints]:
    """Return for each journal the numbers that no item of the queue itself has, rising."""
    columns = "journal string, op string, number bigint, item bigint, reader_number bigint"
    rows = read_events(spark, paths, columns)
    of_child = (fn.col("op") == OPS[Kind.PUT]) & (fn.col("reader_number") > 0)
    wanted = rows.where(fn.col("op").isin(OPS[Kind.RELEASED], OPS[Kind.REDRIVEN]) | of_child)
    wanted = wanted.withColumn("place", fn.when(of_child, fn.col("item")).otherwise(
        fn.col("number")))  # fmt: skip
    found = wanted.groupBy("journal").agg(fn.sort_array(fn.collect_set("place")).alias("places"))
    return {
        jid_of(bytes.fromhex(row.journal)): np.array(row.places, np.int64)
        for row in found.collect()
    }


_FOR_ALL: Final = (PUT, RELEASE)
_PASSED_ON: Final = (PUT, DISCARD)


def by_reader(
    jid: int, read: pa.RecordBatch, split: Split, extra: Sequence[str], last: int | None,
    with_gone: bool,
) -> Iterator[Events]:  # fmt: skip
    """Return the events of each reader, from the columns `events.NEEDED` and `extra`.

    `last`: as of this lsn. `with_gone`: also for children that were removed by then.
    """
    if last is not None and (late := ints(read["lsn"]) > last).any():
        read = read.filter(pa.array(~late))
    events = Events.of(jid, read, extra)
    handed = list(_handed(jid, events, read, split, extra, last)) if _has_origins(read) else []
    yield _without_passed_on(events, split)
    yield from handed
    named = [c for c in children(split.reader_names, last) if with_gone or not c.stopped_lsn]
    if not named:
        return
    reader = ints(read["reader_number"])
    shared = (reader == 0) & events.is_one_of(_FOR_ALL)
    starts = (reader == 0) & (events.kind == TOKENS)
    keyed = (events.kind == PUT) & bools(events.batch["key_hash"].is_valid())
    for child in named:
        line = reader_jid(jid, child.reader)
        mine: Bools = (reader == child.number) & (events.kind != NAME)
        mine &= events.lsn > child.named_lsn
        mine |= shared & (events.lsn > child.named_lsn) & (events.item > child.floor)
        mine |= starts
        if child.stopped_lsn:
            mine &= events.lsn < child.stopped_lsn
        if mine.any():
            yield _as_own(line, events.pick(mine))
        if (before := keyed & (events.lsn < child.named_lsn) & (events.item > child.floor)).any():
            known = events.pick(before)
            keys = known.batch["key_hash"]
            bare = Events.bare(line, KEYED, known.item, child.named_lsn, keys)
            yield _padded(bare, events, extra)


def _as_own(line: int, events: Events) -> Events:
    """Return the events as those of this child."""
    batch = events.batch
    for name, value in (("jid", pa.scalar(line, pa.int64())), ("of_child", pa.scalar(False))):
        at = batch.schema.get_field_index(name)
        batch = batch.set_column(at, name, pa.repeat(value, len(events)))
    return Events(batch)


def _without_passed_on(events: Events, split: Split) -> Events:
    """Mark items that were only for the children as `of_child`."""
    spans = passed_on(split.reader_names)
    if not spans:
        return events
    passed = np.zeros(len(events), np.bool_)
    for first, until, floor in spans:
        now = (events.lsn > first) & (events.lsn < (until or ITEM_MAX)) & (events.item > floor)
        passed |= now & events.is_one_of(_PASSED_ON)
    of_child = pa.array(events.of_child | passed)
    at = events.batch.schema.get_field_index("of_child")
    return Events(events.batch.set_column(at, "of_child", of_child))


def _has_origins(read: pa.RecordBatch) -> bool:
    return bool(read["origin"].null_count < len(read["origin"]))


def _handed(
    jid: int, events: Events, read: pa.RecordBatch, split: Split, extra: Sequence[str],
    last: int | None,
) -> Iterator[Events]:  # fmt: skip
    """Return the ends of items of this journal that a put in it names as its origin."""
    named = children(split.reader_names, last)
    by_line: dict[int, list[tuple[int, int]]] = {}
    made = bools(read["origin"].is_valid()) & (events.kind == PUT)
    origins = read["origin"].filter(pa.array(made)).to_pylist()
    for origin, lsn in zip(origins, events.lsn[made].tolist(), strict=True):
        server, _, rest = origin.partition(":")
        name, _, item = rest.rpartition(":")
        queue, _, part = name.partition("+")
        if queue != split.queue or server != (split.server or server) or not item.isdigit():
            continue
        readers = [c.reader for c in named if c.name == part and c.named_lsn < lsn]
        if part and not readers:
            continue
        line = reader_jid(jid, readers[-1] if part else 0)
        by_line.setdefault(line, []).append((int(item), lsn))
    for line, pairs in by_line.items():
        items, lsns = (np.array(each, np.int64) for each in zip(*pairs, strict=True))
        yield _padded(Events.bare(line, HANDED, items, lsns), events, extra)


def _padded(bare: Events, like: Events, extra: Sequence[str]) -> Events:
    """Return the events with the extra columns, empty."""
    batch = bare.batch
    for name in extra:
        if name not in batch.schema.names:
            batch = batch.append_column(name, pa.nulls(len(bare), like.batch[name].type))
    return Events(batch)
