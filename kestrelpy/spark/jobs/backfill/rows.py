"""The rows of files, in their order, each with its file and line.

    text       a line                           LF or CRLF; the last line needs no end
    json       a line that is one JSON value    as it is
    csv        RFC 4180, with a header          quoted line breaks, doubled quotes
    parquet    a row                            its number is its line

A byte order mark is no part of the first line. Names with `.gz` or `.bz2` are read unpacked.

One rule: nothing is guessed and nothing is repaired: a wrong row is refused with its file and line.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import math
import os
import re
import stat
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import glob
from typing import IO, Any, Final, NamedTuple, cast

import msgspec

from kestrelpy.durations import shown
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.job import counted

FORMATS: Final = ("text", "json", "csv", "parquet")
LINES: Final = ("text", "json")
# A line is in memory whole; the largest item of the default settings is an eighth of it.
LINE_BYTES_MAX: Final = 64 << 20
_BATCH_ROWS: Final = 1_000
_FIELD: Final = r'(?:"(?:[^"]++|"")*+"|[^",]*+)'
_RECORD: Final = re.compile(rf"{_FIELD}(?:,{_FIELD})*+\s*+")
_UNPACKED: Final[dict[str, Callable[[str], IO[bytes]]]] = {
    ".gz": lambda path: cast(IO[bytes], gzip.GzipFile(path)),
    ".bz2": lambda path: cast(IO[bytes], bz2.BZ2File(path)),
}


def _in_words(value: Any) -> str:
    """Return a time or a duration with nanoseconds, which Python's own classes do not have."""
    try:
        return str(value.isoformat()).replace("+00:00", "Z")
    except AttributeError:
        raise NotImplementedError(f"a value of type {type(value).__name__}") from None


_JSON: Final = msgspec.json.Encoder(decimal_format="number", enc_hook=_in_words)


class BackfillRow(NamedTuple):
    """One row; a value that is a text is in UTF-8. `id` and `key` None: the row names none."""

    path: str
    line: int
    value: bytes
    is_text: bool
    id: bytes | None
    key: bytes | None

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that make an item; value None: the whole row as an object of JSON."""

    value: str | None = None
    id: str | None = None
    key: str | None = None

    def check(self, names: Sequence[str], path: str) -> None:
        """Raise KestrelError if a column is not there."""
        for flag, column in (("value", self.value), ("id", self.id), ("key", self.key)):
            if column is not None and column not in names:
                raise KestrelError(
                    f"--{flag} {column}: there is no such column in {path}. There are: "
                    f"{', '.join(names)}."
                )


def files_of(paths: Sequence[str]) -> list[str]:
    """Return the files: by the order of the arguments, those of one argument by their names.

    A folder stands for its files, without those that begin with `.` or `_`. A file that is named
    twice is read once. Raises KestrelError.
    """
    found: dict[str, str] = {}
    for path in paths:
        if "://" in path:
            raise KestrelError(
                f"{path} is an address, and files are read from local or mounted folders. Copy it, "
                "or mount its store."
            )
        named = [path] if os.path.lexists(path) else sorted(glob(path))
        if not named:
            raise KestrelError(f"There is no file {path}. Name files, folders or wildcards.")
        for each in named:
            inside = _inside(each) if os.path.isdir(each) else [each]
            found.update({os.path.realpath(file): file for file in inside})
    for file in found.values():
        if not stat.S_ISREG(_looked(file).st_mode):
            raise KestrelError(f"{file} is no file that can be read twice. Copy it to one.")
    return [*found.values()]


def _inside(folder: str) -> list[str]:
    names = sorted(name for name in os.listdir(folder) if name[0] not in "._")
    files = [os.path.join(folder, name) for name in names]
    inner = next((file for file in files if os.path.isdir(file)), None)
    if inner is not None:
        raise KestrelError(f"The folder {folder} has a folder {inner}. Name the folders of files.")
    if not files:
        raise KestrelError(f"The folder {folder} has no file.")
    return files


def state_of(path: str) -> tuple[int, int, int]:
    """Return what changes when a file is written. Raises KestrelError."""
    looked = _looked(path)
    return looked.st_ino, looked.st_size, looked.st_mtime_ns


def _looked(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise KestrelError(f"{path} cannot be read: {error.strerror or error}.") from None


def rows_of(files: Sequence[str], form: str, columns: Columns) -> Iterator[BackfillRow]:
    """Return the rows of the files, in their order. Raises KestrelError."""
    header: tuple[str, list[str]] | None = None
    for path in files:
        try:
            if form == "parquet":
                yield from _parquet(path, columns)
                continue
            with _opened(path) as file:
                if form == "csv":
                    reader = _records(path, file)
                    names = _header(path, next(reader, (1, []))[1])
                    columns.check(names, path)
                    if header is not None and header[1] != names:
                        raise KestrelError(f"The header of {path} is not that of {header[0]}.")
                    header = path, names
                    yield from _csv(path, reader, names, columns)
                else:
                    yield from _lines(path, file, form)
        except (OSError, EOFError, zlib.error) as error:
            why = getattr(error, "strerror", None) or error
            raise KestrelError(f"{path} cannot be read: {why}.") from None


def _opened(path: str) -> IO[bytes]:
    unpack = _UNPACKED.get(os.path.splitext(path)[1].lower())
    # The caller closes it.
    return unpack(path) if unpack is not None else open(path, "rb")


def _texts(path: str, file: IO[bytes]) -> Iterator[str]:
    """Return the lines with their ends. Raises KestrelError for what is not UTF-8."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise KestrelError(f"{path}, line {number}: it is longer than {LINE_BYTES_MAX} bytes.")
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        try:
            yield line.decode()
        except UnicodeDecodeError as error:
            raise KestrelError(
                f"{path}, line {number}: byte {error.start + 1} ({line[error.start]:#04x}) is not "
                "UTF-8. Convert the file, for instance with iconv -f latin1 -t utf-8."
            ) from None


def _lines(path: str, file: IO[bytes], form: str) -> Iterator[BackfillRow]:
    for number, text in enumerate(_texts(path, file), 1):
        value = text.removesuffix("\n").removesuffix("\r").encode()
        if form == "json":
            _check_json(value, path, number)
        yield BackfillRow(path, number, value, True, None, None)


def _check_json(value: bytes, path: str, number: int) -> None:
    try:
        msgspec.json.decode(value, type=msgspec.Raw)  # a number may have any size: none is computed
    except (msgspec.DecodeError, RecursionError) as error:
        why = "it is empty" if not value.strip() else f"it is no JSON ({error})"
        raise KestrelError(f"{path}, line {number}: {why}. Each line is one value.") from None


# -- csv -------------------------------------------------------------------------------------------


class _Raw:
    """The lines of a file; it keeps those of the record that is being read."""

    def __init__(self, path: str, file: IO[bytes]) -> None:
        self._path = path
        self._texts = _texts(path, file)
        self.lines: list[str] = []
        self.chars = self.number = 0

    def __iter__(self) -> Iterator[str]:
        for text in self._texts:
            self.number += 1
            self.lines.append(text)
            self.chars += len(text)
            if self.chars > LINE_BYTES_MAX:
                raise KestrelError(
                    f"{self._path}, line {self.number}: the row that goes on here is longer than "
                    f"{LINE_BYTES_MAX} bytes."
                )
            yield text

    def take(self) -> str:
        """Return the text of the record that was read."""
        text, self.lines, self.chars = "".join(self.lines), [], 0
        return text


def _records(path: str, file: IO[bytes]) -> Iterator[tuple[int, list[str]]]:
    """Return the records, each with the line where it begins."""
    csv.field_size_limit(LINE_BYTES_MAX)
    raw = _Raw(path, file)
    reader = csv.reader(raw, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise KestrelError(
                f"{path}, line {begin}: {_csv_words(str(error))}. Write it as RFC 4180 says."
            ) from None
        if '"' in (text := raw.take()) and not _RECORD.fullmatch(text):
            raise KestrelError(
                f"{path}, line {begin}: a quote stands in a field without quotes. Put the field "
                "in quotes, and double the quotes in it, as RFC 4180 says."
            )
        yield begin, record or [""]


def _csv_words(text: str) -> str:
    if "field limit" in text:
        return f"a quoted field that begins here is longer than {LINE_BYTES_MAX} bytes"
    if "unexpected end" in text:
        return "a quoted field that begins here has no end"
    if "expected after" in text:
        return "after the closing quote of a field comes neither a comma nor the end of the line"
    if "new-line" in text:
        return "a carriage return stands in a field without quotes"
    return text


def _header(path: str, names: list[str]) -> list[str]:
    if not names:
        raise KestrelError(f"{path} is empty. Its first line is to name the columns.")
    for at, name in enumerate(names, 1):
        if not name.strip():
            raise KestrelError(f"{path}, line 1: column {at} has no name. Name each column.")
        if names.count(name) > 1:
            raise KestrelError(
                f"{path}, line 1: two columns are named {shown(name)}. Name each column once."
            )
    return names


def _csv(
    path: str, records: Iterator[tuple[int, list[str]]], names: list[str], columns: Columns
) -> Iterator[BackfillRow]:
    for number, fields in records:
        if len(fields) != len(names):
            raise KestrelError(
                f"{path}, line {number}: it has {counted(len(fields), 'field')}, and the header "
                f"has {len(names)}."
            )
        row = dict(zip(names, fields, strict=True))
        value = msgspec.json.encode(row) if columns.value is None else row[columns.value].encode()
        yield BackfillRow(
            path, number, value, True, _bytes(row, columns.id), _bytes(row, columns.key)
        )


def _bytes(row: dict[str, str], column: str | None) -> bytes | None:
    return row[column].encode() if column is not None else None


# -- parquet ---------------------------------------------------------------------------------------


def _parquet(path: str, columns: Columns) -> Iterator[BackfillRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _check_names(file.schema_arrow, path)
            columns.check(file.schema_arrow.names, path)
            number = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield _parquet_row(path, number, row, columns)
    except (pa.ArrowException, ValueError) as error:
        why = " ".join(str(error).split()).rstrip(".")
        raise KestrelError(f"{path} cannot be read as Parquet: {why}.") from None


def _check_names(fields: Any, path: str) -> None:
    """Raise KestrelError if two columns, or two fields of one, have one name: a row is an object,
    and one of the two would be lost."""
    from pyarrow import types as kinds

    names = [field.name for field in fields]
    for field in fields:
        if names.count(field.name) > 1:
            raise KestrelError(
                f"{path}: two columns are named {shown(field.name)}. Name each column once."
            )
        kind = field.type
        if kinds.is_struct(kind) or kinds.is_list(kind) or kinds.is_large_list(kind):
            _check_names([kind.field(at) for at in range(kind.num_fields)], path)


def _parquet_row(path: str, number: int, row: dict[str, Any], columns: Columns) -> BackfillRow:
    if columns.value is None:
        try:
            value, is_text = _JSON.encode(_json_value(row)), True
        except (NotImplementedError, TypeError) as error:
            raise KestrelError(
                f"{path}, line {number}: {error} has no form in JSON. Convert the column, or name "
                "another one with --value."
            ) from None
    else:
        found = row[columns.value]
        if not isinstance(found, str | bytes):
            kind = "null" if found is None else f"of type {type(found).__name__}"
            raise KestrelError(
                f"{path}, line {number}: its {columns.value} is {kind}, and a body is a text or "
                "bytes. Name another column, or none for the whole row."
            )
        value, is_text = _encoded(found), isinstance(found, str)
    names = (row[column] if column is not None else None for column in (columns.id, columns.key))
    id_, key = (None if name is None else _encoded(name) for name in names)
    return BackfillRow(path, number, value, is_text, id_, key)


def _encoded(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _json_value(value: Any) -> Any:
    """Return a value as Spark's `to_json` writes it: without members that are null, and with words
    for what is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _json_value(each) for name, each in value.items() if each is not None}
    return [_json_value(each) for each in value] if isinstance(value, list) else value
