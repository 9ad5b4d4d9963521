"""Events in blocks of items, as bytes: read, shuffled and folded with numpy, not row by row.

    a segment ──▶ `Events`, sorted by block ──▶ jid | block | chunk     a row for each block
                                                   └ shuffled: all events of an item in one place

    jid       the journal (`events.jid_of`)
    block     65,536 items, or the records that are about none
    flushes   how many of the events are flushes
    chunk     the events, in Arrow's format

Spark moves a few large rows instead of millions of small ones. A job that needs single events
unpacks the chunks again (`rows`). A flush says of many items at once that they are gone, so the
flushes also come to the driver one by one (`read_flushes`); they are few.

    flush           all items up to `last`, except dead letters and the `spared`
    upto            all items up to the marker `last`; spares delayed items as well
    a child's end   all that it had; the same if the queue is deleted and its children are left

One rule: a column is read only if a job needs it.
"""

from __future__ import annotations

import itertools
import json
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from journal.errors import ITEM_MAX, JournalError
from journal.format import GONE, STOPS, Kind
from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.files import History, ReaderNumbers, ReadPart, plan_events
from kestrelpy.spark.files import partitions as journals
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Events, Flush, by_reader
from kestrelpy.spark.options import Options, WantedRows, parse_options
from kestrelpy.spark.schema import OPS, Selection, select

BLOCK_BITS: Final = 16  # items of one block lie together
NO_BLOCK: Final = -1  # for records that are about no item
_CHUNKS: Final = "jid bigint, block bigint, flushes bigint, chunk binary"
_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")
_ROWS_MOST: Final = 1 << 20  # of a segment, packed at once
_FLUSHES: Final = (ev.FLUSH, ev.UPTO, ev.NAME)
_TASKS_EACH: Final = 4  # for each core, if there are many small sources
_FOLDED_LEAST: Final = 1 << BLOCK_BITS  # rows; smaller groups are folded together

Batches = Iterator[pa.RecordBatch]


def read(
    spark: SparkSession, paths: Sequence[str], more: str = "",
    last: Mapping[int, int] | None = None, with_gone: bool = False,
    history: History | None = None,
) -> DataFrame:  # fmt: skip
    """Read every record under these folders, each once; skip damaged ones.

    `more` are extra columns, as they are read. `last`: for these journals, records up to this lsn.
    `with_gone`: also for children that were removed. `history`: the plan, if it is made already.
    """
    said = {"paths": json.dumps(list(paths)), "mode": "events", "failOnDataLoss": "false"}
    options = parse_options(said)
    extra = _fields(more)
    selection = select("events", [*(_fields(ev.NEEDED) | extra).items()])
    pack = partial(_read, options=options, selection=selection, extra=[*extra], last=last or {},
                   with_gone=with_gone)  # fmt: skip
    history = plan_events(options.path) if history is None else history
    return _by_task(spark, planned(history, options), pack)


def planned(history: History, options: Options) -> list[bytes]:
    """Return the parts of each task. Raises KestrelError."""
    return [pickle.dumps(parts) for parts in journals.parts_of(history, options)]


def made(
    spark: SparkSession, sources: Sequence[bytes], make: Callable[[bytes], Iterable[Events]]
) -> DataFrame:
    """Return the events that `make` makes of these sources."""
    return _by_task(spark, sources, partial(_made, make=make), tasks_for(spark, len(sources)))


def together(spark: SparkSession, chunks: DataFrame) -> DataFrame:
    """Return the chunks with those of a block in one place, one after the other."""
    parts = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    return chunks.repartition(parts, "jid", "block").sortWithinPartitions("jid", "block")


def folded(
    chunks: DataFrame, fold: Callable[[Events], pa.RecordBatch | None], schema: str
) -> DataFrame:
    """Return what `fold` makes of the events of whole blocks, from chunks that are `together`."""
    return chunks.mapInArrow(partial(_folded, fold=fold), schema)


def has_flushes(chunks: DataFrame) -> bool:
    """True if there is a flush among the events."""
    row = chunks.agg(fn.max("flushes").alias("most")).head()
    return row is not None and bool(row.most)


def rows(chunks: DataFrame) -> DataFrame:
    """Return the records one by one (`events.ROWS`)."""
    return chunks.mapInArrow(_rows, ev.ROWS)


def _fields(columns: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+) (\w+)", columns))


def tasks_for(spark: SparkSession, count: int) -> int:
    """Return in how many tasks to do `count` small things; there may be thousands of queues."""
    return max(min(count, _TASKS_EACH * spark.sparkContext.defaultParallelism), 1)


def _by_task(
    spark: SparkSession, sources: Sequence[bytes], pack: Callable[[Batches], Batches],
    count: int = 0,
) -> DataFrame:  # fmt: skip
    context = spark.sparkContext
    tasks = context.parallelize([(each,) for each in sources], count or max(len(sources), 1))
    return spark.createDataFrame(tasks, "source binary").mapInArrow(pack, _CHUNKS)


# -- an executor ----------------------------------------------------------------------------------


def _read(
    batches: Batches, options: Options, selection: Selection, extra: Sequence[str],
    last: Mapping[int, int], with_gone: bool,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    for source in _sources(batches):
        parts: list[ReadPart] = pickle.loads(source)
        for part in parts:
            jid = ev.jid_of(part.split.identity)
            with one_sentence(JournalError):
                for read in _gathered(journals.read([part], selection, options)):
                    read_of = by_reader(jid, read, part.split, extra, last.get(jid), with_gone)
                    for events in read_of:
                        yield from chunks_of(events)


def _gathered(batches: Batches) -> Iterator[pa.RecordBatch]:
    some: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        some.append(batch)
        count += batch.num_rows
        if count >= _ROWS_MOST:
            yield pa.concat_batches(some)
            some, count = [], 0
    if some:
        yield pa.concat_batches(some)


def _made(batches: Batches, make: Callable[[bytes], Iterable[Events]]) -> Iterator[pa.RecordBatch]:
    for source in _sources(batches):
        for events in make(source):
            yield from chunks_of(events)


def _sources(batches: Batches) -> Iterator[bytes]:
    for batch in batches:
        yield from batch.column(0).to_pylist()


def chunks_of(events: Events) -> Iterator[pa.RecordBatch]:
    """Return a row for each block."""
    if not len(events):
        return
    blocks = np.where(events.item > 0, events.item >> BLOCK_BITS, NO_BLOCK)
    if (np.diff(blocks) < 0).any():
        order = np.argsort(blocks, kind="stable")
        events, blocks = events.pick(order), blocks[order]
    edges = [0, *(np.flatnonzero(np.diff(blocks)) + 1).tolist(), len(blocks)]
    for start, stop in itertools.pairwise(edges):
        sink = pa.BufferOutputStream()
        batch = events.batch.slice(start, stop - start)
        with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as stream:
            stream.write_batch(batch)
        flushes = np.count_nonzero(np.isin(events.kind[start:stop], _FLUSHES))
        yield pa.RecordBatch.from_pydict(
            {
                "jid": pa.array([events.jid[start]], pa.int64()),
                "block": pa.array([blocks[start]], pa.int64()),
                "flushes": pa.array([flushes], pa.int64()),
                "chunk": pa.array([sink.getvalue().to_pybytes()], pa.binary()),
            }
        )


def events_of(chunk: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return the events that `chunks_of` """
    with pa.ipc.open_stream(chunk) as stream:
        return stream.read_next_batch()


def _chunks(batches: Batches) -> Iterator[tuple[int, int, pa.RecordBatch]]:
    for batch in batches:
        columns = (batch["jid"], batch["block"], batch["chunk"])
        for jid, block, chunk in zip(*columns, strict=True):
            yield jid.as_py(), block.as_py(), events_of(chunk.as_buffer())


def _folded(
    batches: Batches, fold: Callable[[Events], pa.RecordBatch | None]
) -> Iterator[pa.RecordBatch]:
    some: list[pa.RecordBatch] = []
    count, before = 0, None
    for jid, block, events in _chunks(batches):
        if count >= _FOLDED_LEAST and before != (jid, block):
            yield from _some(fold(Events(pa.concat_batches(some))))
            some, count = [], 0
        before = jid, block
        some.append(events)
        count += events.num_rows
    if some:
        yield from _some(fold(Events(pa.concat_batches(some))))


def sifted(batches: Batches, sift: Callable[[Events], Events]) -> Iterator[pa.RecordBatch]:
    """Return chunks with only those of their events that `sift` returns."""
    for _, _, events in _chunks(batches):
        yield from chunks_of(sift(Events(events)))


def _some(batch: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
    if batch is not None and batch.num_rows:
        yield batch


def _rows(batches: Batches) -> Iterator[pa.RecordBatch]:
    for _, _, events in _chunks(batches):
        yield Events(events).records().rows()


_COLUMNS: Final = {
    "lsn": "bigint", "op": "string", "item": "bigint", "timestamp": "timestamp", "value": "binary",
    "reader_number": "bigint", "number": "bigint", "flags": "bigint",
}  # fmt: skip
_FLUSH, _UPTO, _READER = (OPS[kind] for kind in (Kind.FLUSHED, Kind.UPTO, Kind.READER))


def read_flushes(
    spark: SparkSession, paths: Sequence[str], history: History | None = None
) -> list[Flush]:
    """Return flushes by lsn, with the items that they spared. (The read takes all bodies.)

    Flushes of several journals are mixed. `history`: the plan, if it is made already.
    """
    said = {"paths": json.dumps(list(paths)), "mode": "events", "failOnDataLoss": "false"}
    options = replace(
        parse_options(said), wanted=WantedRows(ops=frozenset((_FLUSH, _UPTO, _READER)))
    )
    history = plan_events(options.path) if history is None else history
    sources = planned(history, options)
    if not sources:
        return []
    tasks = spark.sparkContext.parallelize(sources, tasks_for(spark, len(sources)))
    found = tasks.flatMap(lambda source: [*_flushes(source, options)]).collect()
    return sorted(found, key=lambda each: each.lsn)


def _flushes(source: bytes, options: Options) -> Iterator[Flush]:
    selection = select("events", [*_COLUMNS.items()])
    parts: list[ReadPart] = pickle.loads(source)
    for part in parts:
        jid, numbers = ev.jid_of(part.split.identity), ReaderNumbers(part.split.reader_names)
        with one_sentence(JournalError):
            for batch in journals.read([part], selection, options):
                times = ev.ints(batch["timestamp"].view("int64")) // 1000
                for row, ms in zip(batch.to_pylist(), times.tolist(), strict=True):
                    reader = numbers.reader(row["reader_number"], row["lsn"])
                    flush = _flush(row, ev.reader_jid(jid, reader), ms)
                    if flush is not None:
                        yield flush


def _flush(row: dict[str, object], jid: int, ms: int) -> Flush | None:
    lsn, value = row["lsn"], row["value"] or b""
    assert isinstance(lsn, int), "every event has one"
    assert isinstance(value, bytes)
    if row["op"] == _READER:
        is_end = row["flags"] == (STOPS if row["reader_number"] else GONE)
        return Flush(jid, lsn, ITEM_MAX, ms, ()) if is_end else None
    is_upto = row["op"] == _UPTO
    last = row["number"] if is_upto else row["item"]
    spared = np.frombuffer(value, "<u8", len(value) // 8)
    return Flush(jid, lsn, int(str(last or 0)), ms, tuple(spared.tolist()), is_upto)
