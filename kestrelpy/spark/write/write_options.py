"""The options of the sink, from words to values.

    df.write.format("kestrel").options(servers="a:1,b:1", queue="jobs").mode("append").save()

One rule: an unknown option is refused with the nearest name; no option is ignored, except Spark's
own `checkpointLocation` and `queryName`, which it hands over with ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from kestrelpy.durations import shown
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address
from kestrelpy.spark.options import (
    Said,
    parse_access,
    parse_flag,
    parse_some_time,
    parse_where,
    parse_whole,
)
from kestrelpy.wire.dial import NOBODY, Access

Ids = Literal["column", "none"]

NAMES: Final = (
    "servers", "fleet", "queue", "ids", "scope", "epoch", "newFleet", "writeTimeout",
    "connectTimeout", "readTimeout", "user", "password", "passwordFile", "tls", "tlsCa",
    "tlsCert", "tlsKey", "report", "checkpointLocation", "queryName",
)  # fmt: skip
_WRITE_MS: Final = 300_000  # longer than a server takes to start on a slow disk
_CONNECT_MS: Final = 10_000
_READ_MS: Final = 30_000
_QUEUE_BYTES_MAX: Final = 128
_SCOPE_BYTES_MAX: Final = 64  # room for the queue and the id on a line of 250 bytes


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options. Times are milliseconds; `queue` is for rows that name none.

    `scope` and `epoch` are empty and None unless they are said: a stream has those of its query and
    batch, and a batch write has its own.
    """

    servers: tuple[Address, ...]
    queue: str
    ids: Ids
    scope: str
    epoch: int | None
    new_fleet: bool
    write_timeout_ms: int
    connect_timeout_ms: int
    read_timeout_ms: int
    access: Access = NOBODY
    report: str = ""  # a file on the driver's machine, for a line of JSON a write


def parse_write_options(given: Mapping[str, str], *, streams: bool) -> WriteOptions:
    """Parse and check the options. Raises KestrelError with one sentence and its remedy."""
    if "path" in given:
        raise KestrelError(
            "The sink writes to servers, not to a path. Say .option('servers', 'host:22133') and "
            "save() or start() without a path."
        )
    said = Said(given, NAMES)
    options = WriteOptions(
        servers=parse_where(said),
        queue=said.value("queue", parse_queue, ""),
        ids=said.value("ids", _ids, "column"),
        scope=said.value("scope", _scope, ""),
        epoch=said.value("epoch", parse_whole, None),
        new_fleet=said.value("newFleet", parse_flag, False),
        write_timeout_ms=said.value("writeTimeout", parse_some_time, _WRITE_MS),
        connect_timeout_ms=said.value("connectTimeout", parse_some_time, _CONNECT_MS),
        read_timeout_ms=said.value("readTimeout", parse_some_time, _READ_MS),
        report=said.value("report", str, ""),
        access=parse_access(said) if "servers" in said or "fleet" in said else NOBODY,
    )
    if not options.servers:
        raise KestrelError(
            "There is nowhere to write to. Say .option('servers', 'host:22133'), several servers "
            "with commas between them, or .option('fleet', 'postgresql://...')."
        )
    _refuse_contradictions(options, streams)
    return options


def _refuse_contradictions(options: WriteOptions, streams: bool) -> None:
    if options.ids == "none" and (options.scope or options.epoch is not None):
        raise KestrelError(
            "Options ids=none and scope contradict each other: a scope remembers ids. Leave one "
            "of them out."
        )
    if streams and options.epoch is not None:
        raise KestrelError(
            "Option epoch does not go with a stream: its epoch is the number of the batch. Leave "
            "it out."
        )
    if not streams and bool(options.scope) != (options.epoch is not None):
        there, missing = ("scope", "epoch") if options.scope else ("epoch", "scope")
        raise KestrelError(
            f"Option {there} needs {missing} in a batch write. Say both, for instance "
            "scope=daily-load and epoch=20260131: a repeated write with both stores nothing twice."
        )


def parse_queue(text: str) -> str:
    """Return the name of a queue. Raises ValueError with one sentence."""
    if _is_printable(text, _QUEUE_BYTES_MAX) and "/" not in text:
        return text
    raise ValueError(
        f"{shown(text)} is not the name of a queue; say 1 to {_QUEUE_BYTES_MAX} printable ASCII "
        "characters without blanks or /"
    )


def _scope(text: str) -> str:
    if _is_printable(text, _SCOPE_BYTES_MAX) and not set(text) & set("/%,"):
        return text
    raise ValueError(
        f"{shown(text)} is not a scope; say 1 to {_SCOPE_BYTES_MAX} printable ASCII characters "
        "without blanks, comma, / or %"
    )


def _ids(text: str) -> Ids:
    if text.lower() == "none":
        return "none"
    if text.lower() == "column":
        return "column"
    raise ValueError(f"{shown(text)} is not a source of ids; say {' or '.join(get_args(Ids))}")


def _is_printable(text: str, length_max: int) -> bool:
    return 0 < len(text) <= length_max and all("!" <= each <= "~" for each in text)
