"""Files into a queue: Parquet, JSON, CSV or text, each row once, however often it runs.

    python -m kestrelpy.spark.jobs.backfill FILE... --servers a:22133,b:22133 --queue jobs

    text, json    an item for each line, as it is
    parquet, csv  an item for each row, as a JSON object, or the column `--value` alone

The id of an item is that of the column `--id`, else it is made of the content of the row and its
occurrence: two equal rows are two items, and a repeated run stores none of them again. Such ids are
remembered for the queue's `scope_window` (30 days) under the name of the write: `--name`, by
default one made of the paths and the queue.

One rule: the job may be killed and run again with the same words, on the same servers.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass
from glob import glob
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.ids import with_content_ids
from kestrelpy.spark.jobs.common.job import Outcome, Progress, counted, in_spark, perform
from kestrelpy.spark.jobs.common.storing import name_of, stored, write_words

FORMATS: Final = ("text", "json", "csv", "parquet")
_LINES: Final = ("text", "json")


@dataclass(frozen=True, slots=True)
class Input:
    """The files, and which of their columns make an item. `form` None: by the files' names."""

    paths: tuple[str, ...]
    form: str | None = None
    value: str | None = None
    id: str | None = None
    key: str | None = None

    def check(self) -> str:
        """Return the format. Raises KestrelError."""
        for path in self.paths:
            if "://" not in path and not glob(path):
                raise KestrelError(f"There is no file {path}. Name files, folders or wildcards.")
        form = self.form if self.form is not None else self._guess()
        if form not in FORMATS:
            raise KestrelError(f"--format {form} is not known. Say one of {', '.join(FORMATS)}.")
        if form in _LINES and (self.value or self.id or self.key):
            raise KestrelError(
                f"A line of {form} has no columns, so --value, --id and --key do not go with it. "
                "Leave them out."
            )
        return form

    def _guess(self) -> str:
        names = {os.path.splitext(path.rstrip("/"))[1].lstrip(".").lower() for path in self.paths}
        known = {"txt": "text", "log": "text", "jsonl": "json"}
        found = {known.get(name, name) for name in names}
        if len(found) == 1 and found <= set(FORMATS):
            return found.pop()
        raise KestrelError(
            "The format of the files does not follow from their names. Say --format with one of "
            f"{', '.join(FORMATS)}."
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="backfill", description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="+", metavar="FILE", help="files, folders, wildcards")
    parser.add_argument("--servers", required=True, metavar="LIST", help="host:port,host:port")
    parser.add_argument("--queue", required=True, help="where the items go")
    parser.add_argument("--format", choices=FORMATS, help="default: by the names of the files")
    parser.add_argument("--value", metavar="COLUMN", help="the body; default: the whole row")
    parser.add_argument("--id", metavar="COLUMN", help="default: made of the content")
    parser.add_argument("--key", metavar="COLUMN", help="rows of a key go to one server")
    parser.add_argument("--name", help="of the write; default: made of the paths and the queue")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE",
        help="of the sink: writeTimeout=10m, user=anna, tls=true",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", dest="as_json", help="for programs")
    parser.add_argument("--summary", metavar="FILE", help="keep the JSON there")
    parser.add_argument("--master", help="where Spark runs; default: as it is configured")
    said = parser.parse_args(argv)
    files = Input(tuple(said.paths), said.format, said.value, said.id, said.key)
    return command(
        files, said.servers, said.queue, said.name, said.option, said.as_json, said.summary,
        said.master,
    )  # fmt: skip


def command(
    files: Input, servers: str, queue: str, name: str | None, words: Sequence[str], as_json: bool,
    summary: str | None, master: str | None,
) -> int:  # fmt: skip
    """Store the rows and print how many they were; return the exit code."""

    def act(progress: Progress) -> Outcome:
        form = files.check()
        write = name if name is not None else name_of(
            "backfill", queue, *sorted(map(os.path.abspath, files.paths))
        )  # fmt: skip
        given = write_words(servers, write, words, queue)

        def work(spark: SparkSession) -> Outcome:
            progress.step(f"storing rows in {queue}")
            count = stored(rows_of(spark, files, form), given)
            text = f"{counted(count, 'row')} stored in {queue}, each once (--name {write})"
            return Outcome(text, {"queue": queue, "rows": count, "name": write, "format": form})

        return in_spark("backfill", master, progress, work)

    return perform("backfill", act, as_json, summary)


def rows_of(spark: SparkSession, files: Input, form: str) -> DataFrame:
    """Return the rows with `value` and `id`, and `key` if there is one. Raises KestrelError."""
    paths = [*files.paths]
    if form in _LINES:
        return with_content_ids(spark.read.text(paths).select("value"))
    if form == "csv":
        frame = spark.read.option("header", "true").csv(paths)
    else:
        frame = spark.read.parquet(*paths)
    for flag, column in (("value", files.value), ("id", files.id), ("key", files.key)):
        if column is not None and column not in frame.columns:
            raise KestrelError(
                f"--{flag} {column}: there is no such column. There are: "
                f"{', '.join(frame.columns)}."
            )
    whole = fn.to_json(fn.struct(*(fn.col(f"`{each}`") for each in frame.columns)))
    value = whole if files.value is None else fn.col(f"`{files.value}`")
    columns = [value.alias("value")]
    if files.key is not None:
        columns.append(fn.col(f"`{files.key}`").alias("key"))
    if files.id is None:
        return with_content_ids(frame.select(*columns))
    return frame.select(*columns, fn.col(f"`{files.id}`").alias("id"))
