"""Files into a queue: Parquet, JSON, CSV or text, each row once, however often it runs.

    python -m kestrelpy.spark.jobs.backfill FILE... --servers a:22133,b:22133 --queue jobs

    1. read all files         one mistake: it is refused, with file and line, and nothing is stored
    2. read again, and store  in the order of the files and their lines, on each server

    text, json    an item for each line, as it is
    parquet, csv  an item for each row, as a JSON object, or the column `--value` alone

The id of an item is that of the column `--id`, else it is made of the content of the row and its
occurrence: two equal rows are two items, and a repeated run stores none of them again. Such ids are
remembered for the queue's `scope_window` (30 days) under the name of the write: `--name`, by
default one made of the paths and the queue.

Spark has no part in it: it takes ten seconds and more to start, and it reads in any order.

One rule: the job may be killed and run again with the same words, on the same servers.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.ids import digest_of
from kestrelpy.spark.jobs.backfill.rows import (
    FORMATS,
    LINES,
    BackfillRow,
    Columns,
    files_of,
    rows_of,
    state_of,
)
from kestrelpy.spark.jobs.common.fleet import name_of, write_words
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, Outcome, Progress, counted, perform
from kestrelpy.spark.write import (
    Chooser,
    Fleet,
    RowError,
    Run,
    WriteOptions,
    begun,
    find_fleet,
    parse_write_options,
    request_of,
)

_AT_ONCE: Final = 500
_NAMED_MAX: Final = 20
_STEP_ROWS: Final = 10_000
_ANY_ID: Final = b"0" * 32 + b"#000000"  # of the length of an id by content


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files, and which of their columns make an item. `form` None: by the files' names."""

    paths: tuple[str, ...]
    form: str | None = None
    value: str | None = None
    id: str | None = None
    key: str | None = None

    @property
    def columns(self) -> Columns:
        return Columns(self.value, self.id, self.key)

    def check(self) -> tuple[str, list[str]]:
        """Return the format and the files. Raises KestrelError."""
        files = files_of(self.paths)
        form = self.form if self.form is not None else self._guess()
        if form not in FORMATS:
            raise KestrelError(f"--format {form} is not known. Say one of {', '.join(FORMATS)}.")
        if form in LINES and (self.value or self.id or self.key):
            raise KestrelError(
                f"A line of {form} has no columns, so --value, --id and --key do not go with it. "
                "Leave them out."
            )
        return form, files

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


@dataclass(slots=True)
class FirstReading:
    """What the first reading has found."""

    rows: int = 0
    differing: int = 0
    places: list[str] = field(default_factory=list)  # of the first rows that differ
    states: dict[str, tuple[int, int, int]] = field(default_factory=dict)


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
    said = parser.parse_args(argv)
    files = InputFiles(tuple(said.paths), said.format, said.value, said.id, said.key)
    return command(
        files, said.servers, said.queue, said.name, said.option, said.as_json, said.summary
    )


def command(
    files: InputFiles, servers: str, queue: str, name: str | None, words: Sequence[str],
    as_json: bool,
    summary: str | None,
) -> int:  # fmt: skip
    """Store the rows and print how many they were; return the exit code."""

    def act(progress: Progress) -> Outcome:
        form, paths = files.check()
        write = name if name is not None else name_of(
            "backfill", queue, *sorted(map(os.path.abspath, files.paths))
        )  # fmt: skip
        options = parse_write_options(write_words(servers, write, words, queue), streams=False)
        run = Run(options.scope, options.epoch or 0)
        look = _look(paths, form, files.columns, options, run, progress)
        fleet = find_fleet(options)
        try:
            begun(fleet, run, options.new_fleet)
            _store(fleet, _requests(paths, form, files.columns, options, run), look, progress)
        finally:
            fleet.close()
        return _outcome(fleet, look, options.queue, write, form)

    return perform("backfill", act, as_json, summary)


def _look(
    paths: Sequence[str], form: str, columns: Columns, options: WriteOptions, run: Run,
    progress: Progress,
) -> FirstReading:  # fmt: skip
    """Read all rows, and store none. Raises KestrelError for the first that cannot be stored."""
    look = FirstReading(states={path: state_of(path) for path in paths})
    known = Known()
    try:
        for row in rows_of(paths, form, columns):
            if look.rows % _STEP_ROWS == 0:
                progress.step(f"reading {row.path}: {look.rows:,} rows")
            look.rows += 1
            id_ = row.id if columns.id is not None else _ANY_ID
            try:
                request_of(_fields(row, id_), options.queue, run.suffix)
            except RowError as error:
                raise KestrelError(f"{row.place}: {error} Nothing was stored.") from None
            if row.id is None:
                continue
            first = known.differs(row.id, digest_of(row.value, row.key), row.place)
            if first is not None:
                look.differing += 1
                if len(look.places) < _NAMED_MAX:
                    shown = row.id.decode("utf-8", "backslashreplace")
                    look.places.append(f"id {shown}: {first}, and {row.place}")
    except KestrelError as error:
        text = str(error)
        said = "" if text.endswith("Nothing was stored.") else " Nothing was stored."
        raise KestrelError(f"{text}{said}") from None
    finally:
        known.close()
    return look


def _requests(
    paths: Sequence[str], form: str, columns: Columns, options: WriteOptions, run: Run
) -> Iterator[tuple[bytes, bytes]]:
    """Return the name and the request of each row, in order."""
    known = Known()
    try:
        for row in rows_of(paths, form, columns):
            id_ = row.id
            if columns.id is None:
                value = row.value.decode() if row.is_text else row.value
                parts = (value,) if columns.key is None else (value, _text(row.key))
                digest = digest_of(*parts)
                id_ = f"{digest.hex()}#{known.occurrence(digest)}".encode()
            yield request_of(_fields(row, id_), options.queue, run.suffix)
    finally:
        known.close()


def _text(key: bytes | None) -> str | None:
    return key.decode("utf-8", "surrogateescape") if key is not None else None


def _fields(row: BackfillRow, id_: bytes | None) -> tuple[object, ...]:
    """Return the values of a row of the sink: value, queue, id, key, and what files do not have."""
    return (row.value, None, id_, row.key, None, None, None, None)


def _store(
    fleet: Fleet, requests: Iterator[tuple[bytes, bytes]], look: FirstReading, progress: Progress
) -> None:
    chooser, done = Chooser(fleet.servers), 0
    while some := list(islice(requests, _AT_ONCE)):
        places = chooser.choose([name for name, _ in some])
        for at, (_, request) in zip(places, some, strict=True):
            fleet.lanes[at].put(request)
        done += len(some)
        progress.step(f"storing {done:,} of {look.rows:,} rows")
    for lane in fleet.lanes:
        lane.finish()
    for path, state in look.states.items():
        if state_of(path) != state:
            raise KestrelError(
                f"{path} was written while it was read, and its rows as they were then are stored. "
                "Run it again when the file is whole."
            )


def _outcome(fleet: Fleet, look: FirstReading, queue: str, write: str, form: str) -> Outcome:
    stored = sum(lane.stored for lane in fleet.lanes)
    repeated = sum(lane.repeated for lane in fleet.lanes) - look.differing
    lines = [
        f"{counted(look.rows, 'row')} of {counted(len(look.states), 'file')}: {stored:,} stored in "
        f"{queue}, {repeated:,} repeated (--name {write})"
    ]
    was_refused = any(lane.was_refused for lane in fleet.lanes)
    if was_refused:
        lines.append(
            "A server refused rows for a while (a full queue, for instance): rows after them may "
            "stand before them. All others are in the order of their lines."
        )
    if look.differing:
        lines.append(
            f"{counted(look.differing, 'row')} not stored: another row of the same id comes first, "
            "and it is not alike"
        )
        lines += [f"  {place}" for place in look.places]
    facts: dict[str, object] = {
        "queue": queue, "rows": look.rows, "stored": stored, "repeated": repeated,
        "differing": look.differing, "differing_rows": look.places, "files": len(look.states),
        "in_order": not was_refused, "name": write, "format": form,
    }  # fmt: skip
    return Outcome("\n".join(lines), facts, BREACH if look.differing else HOLDS)


_TABLE: Final = (
    "CREATE TABLE seen (name BLOB PRIMARY KEY, count INTEGER, digest BLOB, place TEXT) "
    "WITHOUT ROWID"
)


class Known:
    """The ids of the rows that were read, in a file of their own that goes with the process.

        content ids    the digest of a row ──▶ how many rows were like it so far
        a column       the id of a row     ──▶ the first row of this id: its digest and its place

    Memory does not grow with the files: SQLite moves to the disk what is too much for it.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)  # a temporary file, if needed
        for each in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE, "BEGIN"):
            self._database.execute(each)

    def close(self) -> None:
        """Forget all."""
        self._database.close()

    def occurrence(self, digest: bytes) -> int:
        """Return how many rows with this content were counted before, and count this one."""
        found = self._found("SELECT count FROM seen WHERE name = ?", digest)
        count = 0 if found is None else int(found[0]) + 1
        self._put(digest, count, b"", "")
        return count

    def differs(self, name: bytes, digest: bytes, place: str) -> str | None:
        """Return the place of the first row of this id if it is another row; else None."""
        found = self._found("SELECT digest, place FROM seen WHERE name = ?", name)
        if found is None:
            self._put(name, 0, digest, place)
            return None
        return str(found[1]) if found[0] != digest else None

    def _found(self, question: str, name: bytes) -> tuple[Any, ...] | None:
        try:
            found: tuple[Any, ...] | None = self._database.execute(question, (name,)).fetchone()
        except sqlite3.Error as error:
            raise _short(error) from None
        return found

    def _put(self, name: bytes, count: int, digest: bytes, place: str) -> None:
        try:
            self._database.execute(
                "INSERT OR REPLACE INTO seen VALUES (?, ?, ?, ?)", (name, count, digest, place)
            )
        except sqlite3.Error as error:
            raise _short(error) from None


def _short(error: sqlite3.Error) -> KestrelError:
    return KestrelError(
        f"The ids of the rows do not fit on the disk for temporary files: {error}. Say where there "
        "is room with SQLITE_TMPDIR."
    )
