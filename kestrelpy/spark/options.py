"""The options of the source, from words to values.

    Spark hands over names in small letters, whatever the user wrote, and every value as text;
    `load("a")` comes as `path`, `load(["a", "b"])` as `paths` in JSON.

One rule: an unknown option is refused with the nearest name; no option is ignored.
"""

from __future__ import annotations

import difflib
import fnmatch
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Literal, TypeVar, get_args

from journal.engine import FORM, is_engine, name_of, split_slice, without_secret
from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import (
    EARLIEST,
    LATEST,
    Address,
    FleetAddress,
    MarkerRange,
    Offsets,
    parse_address,
    parse_ending,
    parse_starting,
)
from kestrelpy.wire.dial import NOBODY, Access, access_of

Mode = Literal["items", "events"]
Consume = Literal["none", "confirm"]
_T = TypeVar("_T")
NOTES_QUEUE: Final = "kestrelpy.sinks"  # of the sink: no item of a user; a glob leaves it out
NUMBER_MAX: Final = 2**53 - 1  # of a marker, of anything

NAMES: Final = (
    "servers", "fleet", "queues", "path", "paths", "startingMarkers", "endingMarkers",
    "startingTimestamp", "endingTimestamp", "mode", "minPartitions", "maxPartitionBytes",
    "failOnDataLoss", "skipUnreachable", "connectTimeout", "readTimeout", "fetchRetries",
    "fetchRetryInterval", "user", "password", "passwordFile", "tls", "tlsCa", "tlsCert", "tlsKey",
    "pushdown", "maxItemsPerTrigger", "maxBytesPerTrigger", "cursor", "consume",
)  # fmt: skip
# The options of streams alone; and those that a stream has no use for.
STREAMS_ONLY: Final = ("maxItemsPerTrigger", "maxBytesPerTrigger", "cursor", "consume")
NOT_IN_STREAMS: Final = (
    "endingMarkers", "startingTimestamp", "endingTimestamp", "pushdown",
)  # fmt: skip
# Refused with a path: they mean something only for servers.
SERVERS_ONLY: Final = (
    "skipUnreachable", "connectTimeout", "readTimeout", "fetchRetries", "fetchRetryInterval",
    "user", "password", "passwordFile", "tls", "tlsCa", "tlsCert", "tlsKey", "cursor", "consume",
)  # fmt: skip

_PARTITION_BYTES: Final = 128 << 20  # as for Spark's own files
_CONNECT_MS: Final = 10_000
_READ_MS: Final = 30_000  # one answer of at most 4 MiB
_RETRIES: Final = (3, 60)  # the second of a fleet: a takeover may take as long as half a minute
_RETRY_MS: Final = 500
_UNITS: Final = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}
_SIZE: Final = re.compile(r"([0-9]{1,16})\s*([bkmgt]?)(i?b)?", re.IGNORECASE)
_SCHEME: Final = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")


ALL_MARKERS: Final = MarkerRange(0, NUMBER_MAX)


@dataclass(frozen=True, slots=True)
class WantedRows:
    """The rows that the query's comparisons leave to read; None: all."""

    servers: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    ops: frozenset[str] | None = None
    markers: MarkerRange = ALL_MARKERS


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options. Times are milliseconds; `path` are globs of folders, and engines."""

    servers: tuple[Address, ...]
    queues: tuple[str, ...]
    path: tuple[str, ...] = field(repr=False)  # an engine's address may have a secret
    starting_markers: Offsets
    ending_markers: Offsets
    starting_timestamp_ms: int | None  # stored, or happened, at this time or later
    ending_timestamp_ms: int | None  # before this
    mode: Mode
    min_partitions: int
    max_partition_bytes: int
    fail_on_data_loss: bool
    skip_unreachable: bool
    connect_timeout_ms: int
    read_timeout_ms: int
    fetch_retries: int
    fetch_retry_interval_ms: int
    pushdown: bool
    access: Access = NOBODY
    wanted: WantedRows = WantedRows()
    max_items_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    cursor: str = ""  # of each queue; empty: the queue itself is read
    consume: Consume = "none"

    @property
    def markers(self) -> dict[str, Offsets]:
        """The two options of markers, by their names."""
        return {"startingMarkers": self.starting_markers, "endingMarkers": self.ending_markers}

    @property
    def live(self) -> bool:
        """True if servers are read, not folders."""
        return bool(self.servers)

    def chooses(self, queue: str) -> bool:
        """True if this queue is asked for."""
        if self.wanted.queues is not None and queue not in self.wanted.queues:
            return False
        if queue == NOTES_QUEUE and NOTES_QUEUE not in self.queues and self.mode == "items":
            return False
        return self.fits(queue)

    def fits(self, queue: str, globs: Sequence[str] | None = None) -> bool:
        """True if a name or wildcard of the option queues, or of `globs`, fits this queue."""
        globs = self.queues if globs is None else globs
        return any(fnmatch.fnmatchcase(queue, glob) for glob in globs)


def parse_options(given: Mapping[str, str], *, streams: bool | None = None) -> Options:
    """Parse and check the options. Raises KestrelError with one sentence and its remedy.

    `streams` says whether the read is a stream; None: it is not known yet.
    """
    said = Said(given)
    for name in () if streams is None else NOT_IN_STREAMS if streams else STREAMS_ONLY:
        if name in said:
            raise KestrelError(
                f"Option {name} goes with {'read' if streams else 'readStream'} alone. Leave it "
                "out" + (", and filter the rows of the stream." if streams else ".")
            )
    nothing: tuple[str, ...] = ()
    is_fleet = "fleet" in said
    options = Options(
        servers=parse_where(said),
        queues=said.value("queues", _queues, ("*",)),
        path=(*said.value("path", _path, nothing), *said.value("paths", _path, nothing)),
        starting_markers=said.value("startingMarkers", parse_starting, EARLIEST),
        ending_markers=said.value("endingMarkers", parse_ending, LATEST),
        starting_timestamp_ms=said.value("startingTimestamp", _timestamp, None),
        ending_timestamp_ms=said.value("endingTimestamp", _timestamp, None),
        mode=said.value("mode", _mode, "items"),
        min_partitions=said.value("minPartitions", _positive, 1),
        max_partition_bytes=said.value("maxPartitionBytes", _bytes, _PARTITION_BYTES),
        fail_on_data_loss=said.value("failOnDataLoss", parse_flag, True),
        skip_unreachable=said.value("skipUnreachable", parse_flag, False),
        connect_timeout_ms=said.value("connectTimeout", parse_some_time, _CONNECT_MS),
        read_timeout_ms=said.value("readTimeout", parse_some_time, _READ_MS),
        fetch_retries=said.value("fetchRetries", parse_whole, _RETRIES[is_fleet]),
        fetch_retry_interval_ms=said.value("fetchRetryInterval", parse_duration_ms, _RETRY_MS),
        pushdown=said.value("pushdown", parse_flag, False),
        access=parse_access(said) if "servers" in said or is_fleet else NOBODY,
        max_items_per_trigger=said.value("maxItemsPerTrigger", _positive, None),
        max_bytes_per_trigger=said.value("maxBytesPerTrigger", _bytes, None),
        cursor=said.value("cursor", _cursor, ""),
        consume=said.value("consume", _consume, "confirm" if "cursor" in said else "none"),
    )
    _refuse_contradictions(options, said)
    return options


class Said:
    """The given texts, by the options' names as they are written here; `names` are all there are.

    Raises KestrelError for any other.
    """

    def __init__(self, given: Mapping[str, str], names: Sequence[str] = NAMES) -> None:
        self._texts: dict[str, str] = {}
        by_small_letters = {name.lower(): name for name in names}
        for name, text in given.items():
            known = by_small_letters.get(name.lower())
            if known is None:
                raise KestrelError(_unknown(name, by_small_letters))
            self._texts[known] = text

    def value(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        """Return the parsed value of this option, or the default. Raises KestrelError."""
        text = self._texts.get(name)
        if text is None:
            return default
        try:
            return parse(text.strip())
        except ValueError as error:
            raise KestrelError(f"Option {name}: {error}.") from None

    def __contains__(self, name: str) -> bool:
        return name in self._texts


def parse_access(said: Said) -> Access:
    """Return the login of the read with its password: executors need not have its file.

    Raises KestrelError.
    """

    def text(name: str) -> str | None:
        return said.value(name, str, None)

    try:
        access = access_of(
            user=text("user"), password=text("password"), password_file=text("passwordFile"),
            tls=said.value("tls", parse_flag, False), tls_ca=text("tlsCa"),
            tls_cert=text("tlsCert"), tls_key=text("tlsKey"),
        )  # fmt: skip
    except ValueError as error:
        raise KestrelError(f"The options of user and TLS cannot be used: {error}.") from None
    return access.with_password()


def _refuse_contradictions(options: Options, said: Said) -> None:
    if "fleet" in said and options.path:
        raise KestrelError(
            "Options fleet and path contradict each other. Say fleet to read queues from their "
            "owners, or load the engine's address alone to read its journals."
        )
    if "fleet" in said and options.mode == "events":
        raise KestrelError(
            "Options fleet and mode=events contradict each other: an owner shows the items it "
            "holds, and what happened to them stands in its journals. Load the engine's address "
            "as a path, or say mode=items."
        )
    if options.servers and options.path:
        raise KestrelError(
            "Options servers and path contradict each other. Read live servers or journal "
            "directories, one of them in one read; a union of two reads gives both."
        )
    if not options.servers and not options.path:
        raise KestrelError(
            "There is nothing to read. Say .option('servers', 'host:22133') for live servers, "
            ".option('fleet', 'postgresql://...') for those of a fleet, or "
            ".load('/path/of/a/data-directory') for journals."
        )
    if options.servers and options.mode == "events":
        raise KestrelError(
            "Options servers and mode=events contradict each other: a server shows the items it "
            "holds, and what happened to them stands in its journals. Read its data directory "
            "with path, or say mode=items."
        )
    for name in () if options.servers else SERVERS_ONLY:
        if name in said:
            raise KestrelError(
                f"Option {name} goes only with servers or fleet. Leave it out with path."
            )
    child = next((name for name in options.queues if options.cursor and "+" in name), None)
    if child is not None:
        raise KestrelError(
            f"Options cursor and queues={child} contradict each other: a cursor is a child of a "
            f"queue, and {child} means children. Name the queue itself, or leave cursor out."
        )
    consumes = options.consume == "confirm" and not options.cursor
    if consumes and options.starting_markers != EARLIEST:
        raise KestrelError(
            "Options consume=confirm and startingMarkers contradict each other: a confirm takes "
            "all items up to a marker, also those that were skipped. Leave one out, or say a "
            "cursor."
        )
    starting, ending = options.starting_timestamp_ms, options.ending_timestamp_ms
    if starting is not None and ending is not None and ending < starting:
        raise KestrelError("Option endingTimestamp is before startingTimestamp. Say a later one.")


def _unknown(name: str, by_small_letters: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name.lower(), by_small_letters, 1, cutoff=0.5)
    if near:
        return f"There is no option {name}. Did you mean {by_small_letters[near[0]]}?"
    return f"There is no option {name}. There are: {', '.join(by_small_letters.values())}."


# -- one value -----------------------------------------------------------------------------


def parse_servers(text: str) -> tuple[Address, ...]:
    found = tuple(dict.fromkeys(parse_address(each) for each in _listed(text)))
    if not found:
        raise ValueError("it names no server; say host:port, several with commas between them")
    return found


def parse_where(said: Said) -> tuple[Address, ...]:
    """Return the servers, or the fleet, of the options. Raises KestrelError."""
    fleet = said.value("fleet", _fleet, None)
    nobody: tuple[Address, ...] = ()
    servers = said.value("servers", parse_servers, nobody)
    if fleet is not None and servers:
        raise KestrelError(
            "Options fleet and servers contradict each other: the engine of a fleet names its "
            "members. Leave one of them out."
        )
    return (fleet,) if fleet is not None else servers


def _fleet(text: str) -> FleetAddress:
    if not is_engine(text):
        raise ValueError(
            f"{shown(without_secret(text))} is no engine; say its address as in [fleet] of the "
            f"daemon, like {FORM}"
        )
    engine, number = split_slice(text)
    if number:
        raise ValueError(f"{name_of(engine)}/{number} is one slice; leave its number out")
    return FleetAddress.of(engine)


def _queues(text: str) -> tuple[str, ...]:
    found = tuple(_listed(text))
    if not found:
        raise ValueError("it names no queue; say names or globs, with commas between them")
    return found


def _path(text: str) -> tuple[str, ...]:
    """Parse one glob or engine's address, or a list of them in JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    # Not every text with a bracket is JSON: in a glob a bracket begins a set of characters.
    listed = isinstance(found, list) and all(isinstance(each, str) for each in found)
    folders = []
    for name in found if listed else [text]:
        if is_engine(name):
            split_slice(name)  # it raises
            folders.append(name)
            continue
        scheme = _SCHEME.match(name)
        if scheme and scheme[1].lower() != "file":
            raise ValueError(
                f"{shown(without_secret(name))} is not a folder that every executor sees; journals "
                "are read from local or mounted folders, or from a fleet's engine"
            )
        folder = re.sub("^/+", "/", name[len(scheme[1]) + 1 :]) if scheme else name
        if not folder:
            raise ValueError("it is empty; say the folder of a data directory or of a journal")
        folders.append(folder)
    return tuple(folders)


def _timestamp(text: str) -> int:
    """Return milliseconds since 1970; a time without a zone is UTC."""
    if text.isascii() and text.isdigit():
        return parse_whole(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{shown(text)} is not a time; say 2026-01-31T12:00:00Z, or milliseconds since 1970"
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000)


def _cursor(text: str) -> str:
    if 0 < len(text) <= 64 and all("!" <= each <= "~" and each not in "+/" for each in text):
        return text
    raise ValueError(
        f"{shown(text)} is not the name of a cursor; say 1 to 64 printable ASCII characters "
        "without blanks, + or /"
    )


def _consume(text: str) -> Consume:
    if text.lower() == "none":
        return "none"
    if text.lower() == "confirm":
        return "confirm"
    raise ValueError(f"{shown(text)} is no way to consume; say {' or '.join(get_args(Consume))}")


def _mode(text: str) -> Mode:
    for mode in get_args(Mode):
        if text.lower() == mode:
            return "events" if mode == "events" else "items"
    raise ValueError(f"{shown(text)} is not a mode; say items or events")


def parse_whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > NUMBER_MAX:
        raise ValueError(f"{shown(text)} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    number = parse_whole(text)
    if not number:
        raise ValueError("0 is too few; say 1 or more")
    return number


def _bytes(text: str) -> int:
    """Parse a size as in Spark, `128m`, or the daemon, `128MiB`; units are powers of 1024."""
    found = _SIZE.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{shown(text)} is not a size; say 134217728, 128m or 128MiB")
    size = int(found[1]) << _UNITS[(found[2] or "b").lower()]
    if not 0 < size <= NUMBER_MAX:
        raise ValueError(f"{shown(text)} is out of range; say 1 to {NUMBER_MAX} bytes")
    return size


def parse_flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"{shown(text)} is neither true nor false; say one of them")
    return text.lower() == "true"


def parse_some_time(text: str) -> int:
    duration_ms = parse_duration_ms(text)
    if not duration_ms:
        raise ValueError(f"{shown(text)} is no time at all; say 1s or more")
    return duration_ms


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]
