r"""Rows as requests, and the server of each.

    value     binary, string            the body
    queue     string                    else the option queue
    id        string, binary, number    the same in every attempt to write this row
    key       string, binary, number,   serial work per key
              an array of texts         a key of several values
    flags     number                    0 to 4294967295
    expires   timestamp, number         a number counts seconds as memcache does
    delay     string, day-time interval "5s"
    at        timestamp, number         a number is seconds since 1970

`row_form` refuses a wrong name or type on the driver, before any row is written.

    set <queue>/id=<id>/scope=<s>/epoch=<n>[/key=<k>][/delay=<d>|/at=<t>] <flags> <expiry> <bytes>
    <body>

The server of a row is the one with the highest score among the fleet, by the row's key if it has
one, else by its id. So all rows of one key go to one server, and a row goes to the same server in
every attempt, from any partition. The order of a key's values does not count for that: some queues
take {A,B} for {B,A}.

`Compared` finds the rows of one write that have one id and are not alike:

    set q/id=7/... 0 0 3   one    ─▶ first of q/id=7
    set q/id=7/... 0 0 3   one    ─▶ alike: a repetition
    set q/id=7/... 0 0 3   two    ─▶ another row: it differs, and the server stores only the first

One rule: a request is a function of its row, the scope and the epoch, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_from_bytes

import numpy as np

from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.write.write_options import WriteOptions, parse_queue

if TYPE_CHECKING:
    import pyarrow as pa

_WHOLE: Final = frozenset({"tinyint", "smallint", "int", "bigint"})
_NUMBER: Final = _WHOLE | {"double", "float"}
_TEXT: Final = frozenset({"string", "binary"})
_INTERVAL: Final = "interval day to second"

TYPES: Final[dict[str, frozenset[str]]] = {
    "value": _TEXT,
    "queue": frozenset({"string"}),
    "id": _TEXT | _WHOLE,
    "key": _TEXT | _WHOLE | {"array<string>", "array<binary>"},
    "flags": _WHOLE,
    "expires": _WHOLE | {"timestamp"},
    "delay": frozenset({"string", _INTERVAL}),
    "at": _NUMBER | {"timestamp"},
}
# Names of the source that mean nothing to a new item.
_OF_SOURCE: Final = frozenset({"server", "marker", "timestamp", "attempts", "state", "origin"})
_KEYS: Final = "keys"


@dataclass(frozen=True, slots=True)
class RowForm:
    """The columns in their order."""

    names: tuple[str, ...]

    def place(self, name: str) -> int | None:
        """Return where this column is, or None."""
        return self.names.index(name) if name in self.names else None


def row_form(fields: Sequence[tuple[str, str]], options: WriteOptions) -> RowForm:
    """Return the form of rows with these columns, names and Spark's words for types.

    Raises KestrelError.
    """
    names = [name for name, _ in fields]
    for name, word in fields:
        if name not in TYPES:
            raise KestrelError(_unknown(name))
        if names.count(name) > 1:
            raise KestrelError(f"There are two columns {name!r}. Name it once.")
        if word not in TYPES[name]:
            allowed = ", ".join(sorted(TYPES[name]))
            raise KestrelError(
                f"Column {name!r} is of type {word}, and the sink takes {allowed}. Cast it, for "
                f"instance col('{name}').cast('{_cast(name)}')."
            )
    if "value" not in names:
        raise KestrelError("There is no column 'value', the body of an item. Name one column so.")
    if "queue" not in names and not options.queue:
        raise KestrelError(
            "The rows name no queue. Say .option('queue', 'jobs'), or add a column 'queue'."
        )
    if "delay" in names and "at" in names:
        raise KestrelError("Columns 'delay' and 'at' contradict each other. Drop one of them.")
    if options.ids == "column" and "id" not in names:
        raise KestrelError(
            "There is no column 'id', and without ids a repeated task doubles its rows. Add one "
            "that a repeated read makes again: with_lineage_ids or with_content_ids of "
            "kestrelpy.spark, or an id of your own; or say .option('ids', 'none') to allow doubles."
        )
    if options.ids == "none" and "id" in names:
        raise KestrelError("Column 'id' and ids=none contradict each other. Drop one of them.")
    return RowForm(tuple(names))


def _cast(name: str) -> str:
    return next(word for word in ("string", "timestamp", "int") if word in TYPES[name])


def _unknown(name: str) -> str:
    text = f"The sink has no column {name!r}"
    there = ", ".join(TYPES)
    if name == _KEYS:
        return f"{text}. Name it key: col('keys').alias('key')."
    if name in _OF_SOURCE:
        return f"{text}: only the source has it. Drop it, or select some of: {there}."
    near = get_close_matches(name.strip().lower(), TYPES, 1)
    if near:
        return f"{text}. Did you mean {near[0]!r}? There are: {there}."
    return f"{text}. Drop it. There are: {there}."


ROWS: Final = 1_000  # decoded at a time: bodies are in memory twice
_KEY_BYTES_MAX: Final = 250
_FLAGS_BELOW: Final = 1 << 32
_EXPIRY_MAX: Final = (1 << 53) - 1
_RELATIVE_SECONDS_MAX: Final = 30 * 86_400
# Printable ASCII that stands in an option as it is; a comma divides the values of a key.
_PLAIN: Final = bytes(each for each in range(0x21, 0x7F) if each not in b"/%,")


class RowError(KestrelError):
    """A row that cannot be written; the text names it."""


class Chooser:
    """Chooses the server of a row among servers, named by their ids."""

    __slots__ = ("_seeds",)

    def __init__(self, servers: Sequence[str]) -> None:
        hashes = [_hash(each.encode()) for each in servers]
        self._seeds = np.array([int.from_bytes(each, "little") for each in hashes], np.uint64)

    def choose(self, names: Sequence[bytes]) -> list[int]:
        """Return the index of the server of each name."""
        if len(self._seeds) == 1:
            return [0] * len(names)
        hashes = np.frombuffer(b"".join(map(_hash, names)), np.dtype("<u8")).astype(np.uint64)
        best = np.argmax(_mixed(hashes[:, None] ^ self._seeds[None, :]), axis=1)
        indexes: list[int] = best.tolist()
        return indexes


def _hash(name: bytes) -> bytes:
    return blake2b(name, digest_size=8).digest()


def _mixed(x: Any) -> Any:
    """Return 64 bits that depend on all 64 (the finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def requests_of(
    batch: pa.RecordBatch, form: RowForm, queue: str, suffix: bytes, chooser: Chooser
) -> Iterator[tuple[int, bytes]]:
    """Return the server and the request of each row. Raises RowError.

    `queue` is for rows that name none, `suffix` says scope and epoch; empty: rows have no ids.
    """
    for start in range(0, batch.num_rows, ROWS):
        part = batch.slice(start, ROWS)
        columns = {name: _decoded(name, part.column(at)) for at, name in enumerate(form.names)}
        nothing = [None] * part.num_rows
        rows = zip(*(columns.get(name, nothing) for name in TYPES), strict=True)
        names, requests = [], []
        for row in rows:
            name, request = request_of(row, queue, suffix)
            names.append(name)
            requests.append(request)
        yield from zip(chooser.choose(names), requests, strict=True)


def request_of(row: tuple[Any, ...], otherwise: str, suffix: bytes) -> tuple[bytes, bytes]:
    """Return the name that chooses the row's server, and its request.

    The row has a value for each name of `TYPES`, as bytes if it is a text. Raises RowError.
    """
    value, queue, id_, key, flags, expires, delay, at = row
    name = value
    try:
        if value is None:
            raise ValueError("its value is null; say coalesce(value, '') for an empty body")
        line = parse_queue(queue).encode() if queue is not None else otherwise.encode()
        if not line:
            raise ValueError("its queue is null, and there is no option queue")
        if suffix:
            if not id_:
                raise ValueError("its id is null or empty; say which id it has")
            name = id_
            line += b"/id=%b%b" % (quoted(id_), suffix)
        if key:
            if isinstance(key, bytes):
                name = key
                line += b"/key=" + quoted(key)
            else:
                if None in key:
                    raise ValueError("a value of its key is null; leave it out of the array")
                name = b",".join(map(quoted, sorted(key))) if len(key) > 1 else key[0]
                line += b"/key=" + b",".join(map(quoted, key))
        if delay is not None:
            line += b"/delay=%dms" % _delay_ms(delay)
        if at is not None:
            line += b"/at=" + _at(at)
        if len(line) > _KEY_BYTES_MAX:
            raise ValueError(
                f"its queue, id and key take {len(line)} bytes on the wire, and the limit is "
                f"{_KEY_BYTES_MAX}; a shorter id is sha2(id, 256)"
            )
        head = b"set %b %d %d %d\r\n" % (
            line, _flags(flags), 0 if expires is None else _expiry(expires), len(value)
        )  # fmt: skip
    except ValueError as error:
        raise RowError(f"{_which(queue, id_, key)} cannot be written: {error}.") from None
    return name, head + value + b"\r\n"


def _which(queue: str | None, id_: bytes | None, key: bytes | list[bytes] | None) -> str:
    if isinstance(key, list):
        key = b",".join(each or b"" for each in key)
    said = [("queue", queue), ("id", id_), ("key", key)]
    words = [
        f"{name} {shown(text.decode('utf-8', 'replace') if isinstance(text, bytes) else text)}"
        for name, text in said
        if text is not None
    ]
    return f"The row with {' and '.join(words)}" if words else "A row"


def quoted(text: bytes) -> bytes:
    """Return the value of an option, percent-encoded where it has to be."""
    if not text.translate(None, _PLAIN):
        return text
    return quote_from_bytes(text, "!\"#$&'()*+:;<=>?@[\\]^_`{|}~").encode()


def _decoded(name: str, column: pa.Array) -> list[Any]:
    """Return a column as Python's objects; texts as bytes, except that of a queue and a delay."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_list(kind):
        column = column.cast(pa.list_(pa.binary()))
    elif name in ("value", "id", "key"):
        if pa.types.is_integer(kind):
            column = column.cast(pa.string())
        if not (pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)):
            wide = pa.types.is_large_string(column.type)
            column = column.cast(pa.large_binary() if wide else pa.binary())
    if pa.types.is_timestamp(kind):
        times = column.cast(pa.int64()).to_pylist()  # microseconds since 1970, in any zone
        return [None if each is None else timedelta(microseconds=each) for each in times]
    values: list[Any] = column.to_pylist()
    return values


def _flags(flags: int | None) -> int:
    if flags is None:
        return 0
    if 0 <= flags < _FLAGS_BELOW:
        return flags
    raise ValueError(f"its flags are {flags}; say 0 to {_FLAGS_BELOW - 1}")


def _expiry(expires: int | timedelta) -> int:
    """Return memcache's expiry; a time is absolute, rounded up to a second."""
    if isinstance(expires, timedelta):
        seconds = -(-expires // timedelta(seconds=1))
        # Small numbers are relative: a time in January 1970 is one that is over.
        return seconds if seconds > _RELATIVE_SECONDS_MAX else -1
    if expires > _EXPIRY_MAX:
        raise ValueError(f"its expires is {expires}; say at most {_EXPIRY_MAX} seconds")
    return max(expires, -1)


def _delay_ms(delay: str | timedelta) -> int:
    if isinstance(delay, timedelta):
        if delay < timedelta(0):
            raise ValueError(f"its delay is negative ({delay}); say 0 or more")
        return delay // timedelta(milliseconds=1)
    try:
        return parse_duration_ms(delay.strip())
    except ValueError as error:
        raise ValueError(f"its delay {error}") from None


def _at(at: float | timedelta) -> bytes:
    seconds = at / timedelta(seconds=1) if isinstance(at, timedelta) else at
    if not 0 <= seconds < _EXPIRY_MAX:
        raise ValueError(f"its at is {seconds:.0f} seconds since 1970; say a time since then")
    return b"%.3f" % seconds


IDS_MAX: Final = 100_000  # the newest ids are compared: some 20 MiB in a task
NAMED_MAX: Final = 20
_DIGEST_BYTES: Final = 8


class Compared:
    """The rows of one task."""

    __slots__ = ("_digests", "count", "names")

    def __init__(self) -> None:
        self._digests: dict[str, bytes] = {}
        self.count = 0
        self.names: list[str] = []  # the first of those that differ

    def add(self, request: bytes) -> None:
        """Look at the request of a row, as `requests_of` makes it."""
        end = request.index(b" ", 4)
        parts = request[4:end].decode("ascii", "backslashreplace").split("/")
        name = next((f"{parts[0]}/{part}" for part in parts if part.startswith("id=")), "")
        if not name:
            return
        digest = blake2b(request, digest_size=_DIGEST_BYTES).digest()
        known = self._digests.setdefault(name, digest)
        if known != digest:
            self.count += 1
            if len(self.names) < NAMED_MAX and name not in self.names:
                self.names.append(name)
        if len(self._digests) > IDS_MAX:
            del self._digests[next(iter(self._digests))]
