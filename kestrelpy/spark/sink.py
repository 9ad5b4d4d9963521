"""`df.write` and `df.writeStream` with `format("kestrel")`: the calls that Spark makes on a sink.

    driver      writer(), streamWriter()   options and columns are checked; nothing is written yet
    executors   write(batches)             rows to servers, each acknowledged when it is synced
    driver      commit()                   nothing to do: all rows are stored before it

A task that is repeated sends the same ids in the same epoch of the same scope, and servers store
none of them twice. The scope of a stream is the id of its query, which its checkpoint holds, and
the epoch is the number of the batch; Spark tells both to each task.

The driver says how many rows were stored and how many were there already: a line of JSON in the
file of the option `report`, and a warning if rows of one id differ.

One rule: a task ends when every row of it is stored, or with an error that says how many are.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from kestrelpy.spark.errors import KestrelError, one_sentence
from kestrelpy.spark.reader import freeze_imports

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.write import RowForm, Run, WriteOptions

log = logging.getLogger("kestrelpy.spark")
_NAMED_MAX: Final = 20
# How Spark names, for the tasks of a streaming query, its id and the number of the batch.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class StoredRows(WriterCommitMessage):
    """How many rows a task stored, how many were there, and which differ from one of their id."""

    rows: dict[str, int]
    repeated: int = 0
    differing: int = 0
    names: tuple[str, ...] = ()


class KestrelWriter(DataSourceArrowWriter):
    """A batch write; `run` is None if rows have no ids."""

    def __init__(self, options: WriteOptions, form: RowForm, run: Run | None) -> None:
        self.options = options
        self.form = form
        self.run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StoredRows:
        """Write the rows of one task."""
        with one_sentence():
            if self.run is not None and not self.options.scope and _local_property(_BATCH):
                raise KestrelError(
                    "A write inside foreachBatch needs a scope and an epoch, so that a repeated "
                    "batch stores nothing twice. Say .option('scope', 'a name of this write') and "
                    ".option('epoch', batch_id), or use writeStream.format('kestrel')."
                )
            return _write(iterator, self.options, self.form, self.run)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Say what was stored."""
        with one_sentence():
            _report(messages, self.options, None)


class KestrelStreamWriter(DataSourceStreamArrowWriter):
    """The write of one batch of a streaming query."""

    def __init__(self, options: WriteOptions, form: RowForm) -> None:
        self.options = options
        self.form = form

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StoredRows:
        """Write the rows of one task."""
        with one_sentence():
            return _write(iterator, self.options, self.form, self._run())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Say what the batch has stored."""
        with one_sentence():
            _report(messages, self.options, batchId)

    def _run(self) -> Run | None:
        from kestrelpy.spark.write import Run

        if self.options.ids == "none":
            return None
        scope, batch = self.options.scope or _local_property(_QUERY), _local_property(_BATCH)
        if not scope or not batch:
            raise KestrelError(
                "Spark does not tell this task which query and batch it belongs to, so rows cannot "
                "be written once. Use PySpark 4.1 or newer with a micro-batch trigger."
            )
        return Run(scope, int(batch), is_later=int(batch) > 0)


def _write(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, form: RowForm, run: Run | None
) -> StoredRows:
    from kestrelpy.spark.write import (
        Chooser,
        Compared,
        RowError,
        begun,
        find_fleet,
        requests_of,
    )

    fleet = find_fleet(options)
    try:
        if run is not None:
            begun(fleet, run, options.new_fleet)
        suffix = run.suffix if run is not None else b""
        chooser, lanes, compared = Chooser(fleet.servers), fleet.lanes, Compared()
        for batch in batches:
            for at, request in requests_of(batch, form, options.queue, suffix, chooser):
                lanes[at].put(request)
                compared.add(request)
        for lane in lanes:
            lane.finish()
        freeze_imports()
        return StoredRows(
            {lane.server: lane.stored for lane in lanes}, sum(lane.repeated for lane in lanes),
            compared.count, tuple(compared.names),
        )  # fmt: skip
    except RowError as error:
        # Rows that were sent and are not answered may be stored as well.
        stored = sum(lane.stored for lane in fleet.lanes)
        raise KestrelError(f"{error} Before that, this task stored {stored} rows.") from None
    finally:
        fleet.close()


def _report(
    messages: Sequence[WriterCommitMessage | None], options: WriteOptions, batch: int | None
) -> None:
    """Say on the driver what the tasks have stored. Raises KestrelError."""
    tasks = [each for each in messages if isinstance(each, StoredRows)]
    names = list(dict.fromkeys(name for each in tasks for name in each.names))[:_NAMED_MAX]
    facts: dict[str, object] = {
        "stored": sum(sum(each.rows.values()) for each in tasks),
        "repeated": sum(each.repeated for each in tasks),
        "differing": (differing := sum(each.differing for each in tasks)), "ids": names,
    }  # fmt: skip
    if differing:
        log.warning(
            "%d rows differ from an earlier row of their id, and the servers keep the first: %s",
            differing, ", ".join(names),
        )  # fmt: skip
    if options.report:
        line = json.dumps(facts if batch is None else {"batch": batch, **facts})
        try:
            with open(options.report, "w" if batch is None else "a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise KestrelError(
                f"The rows are stored, and the option report cannot be kept: {options.report} "
                f"cannot be written: {error.strerror or error}."
            ) from None


def _local_property(name: str) -> str:
    """Return what Spark tells the tasks of a streaming query under this name; empty: nothing."""
    context = TaskContext.get()
    return (context.getLocalProperty(name) or "") if context is not None else ""
