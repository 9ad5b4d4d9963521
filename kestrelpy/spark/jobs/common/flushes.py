"""The flushes in journals: each says of many items at once that they are gone.

    flush           all items up to `last`, except dead letters and the `spared`
    upto            all items up to the marker `last`; spares delayed items as well
    a child's end   all that it had; the same if the queue is deleted and its children are left

One rule: flushes are few, and come to the driver one by one.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from pyspark.sql import SparkSession

from journal.errors import ITEM_MAX, JournalError
from journal.format import GONE, STOPS, Kind
from kestrelpy.spark.errors import one_sentence
from kestrelpy.spark.files import History, ReaderNumbers, ReadPart, plan_events
from kestrelpy.spark.files import partitions as journals
from kestrelpy.spark.jobs.common import blocks as packed
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.events import Flush
from kestrelpy.spark.options import Options, WantedRows, parse_options
from kestrelpy.spark.schema import OPS, select

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
    sources = packed.planned(history, options)
    if not sources:
        return []
    tasks = spark.sparkContext.parallelize(sources, packed.tasks_for(spark, len(sources)))
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
