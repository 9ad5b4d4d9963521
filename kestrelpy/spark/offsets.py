"""Markers per server and queue: where a read begins and ends, and how it is split.

    "earliest" | "latest" | {"<server>": "latest" | {"<queue>": <marker> | "earliest" | "latest"}}

A server is named by its address as in `servers`, or by its id. A queue without a marker is read
from the earliest to the latest.

    marker     1    2    3    4    5    6    7
                    |<------- (2, 6] ------->|       starting 2, ending 6: items 3, 4, 5 and 6

One rule: a range begins *after* its first marker and ends *with* its last, as `after=` does, so
that the end of one read is the beginning of the next.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Literal, Protocol, TypeVar

from journal.engine import name_of, slice_name
from kestrelpy.durations import shown

_S = TypeVar("_S", bound="Sized")
Offset = int | Literal["earliest", "latest"]
_MARKER_MAX: Final = 2**53 - 1
_FORM: Final = (
    'say earliest, latest, or {"host:port": {"queue": marker}} with a marker, "earliest" or '
    '"latest" each'
)


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """Where a server listens: a host and a port, or a Unix socket (then the port is 0)."""

    host: str
    port: int = 0

    def __str__(self) -> str:
        if not self.port:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, order=True)
class FleetAddress(Address):
    """The fleet of an engine or, with a number, one slice of it; any of its members answers there.

    `host` is the name, which has no secret.
    """

    engine: str = field(default="", repr=False)
    slice: int = 0

    @classmethod
    def of(cls, engine: str) -> FleetAddress:
        """Return the address of all slices of an engine."""
        return cls(name_of(engine), engine=engine)

    def part(self, number: int) -> FleetAddress:
        """Return the address of one slice."""
        return FleetAddress(slice_name(self.engine, number), engine=self.engine, slice=number)

    def __str__(self) -> str:
        return self.host


@dataclass(frozen=True, slots=True)
class Offsets:
    """An offset in every queue: one word for all queues, except those with one of their own."""

    everywhere: Offset
    named: Mapping[str, Mapping[str, Offset]] = field(default_factory=dict)

    def of(self, names: tuple[str, ...], queue: str) -> Offset:
        """Return the offset in a queue of the server with any of these names."""
        for name in names:
            queues = self.named.get(name)
            if queues is not None and queue in queues:
                return queues[queue]
            if queues is not None and "*" in queues:
                return queues["*"]
        return self.everywhere


EARLIEST: Final = Offsets("earliest")
LATEST: Final = Offsets("latest")


@dataclass(frozen=True, slots=True)
class MarkerRange:
    """Markers after `after`, up to and with `upto`."""

    after: int
    upto: int

    def __bool__(self) -> bool:
        return self.upto > self.after

    def __and__(self, other: MarkerRange) -> MarkerRange:
        """Return the markers that both have."""
        after = max(self.after, other.after)
        return MarkerRange(after, max(min(self.upto, other.upto), after))

    def split(self, parts: int) -> list[MarkerRange]:
        """Return at most `parts` consecutive ranges of about the same length."""
        length = max(self.upto - self.after, 0)
        parts = max(1, min(parts, length))
        cuts = [self.after + length * i // parts for i in range(parts + 1)]
        return [MarkerRange(a, b) for a, b in pairwise(cuts)]


def range_of(starting: Offset, ending: Offset, earliest: int, latest: int) -> MarkerRange:
    """Return the range between two offsets in a queue with the markers `earliest` to `latest`.

    A starting number below the earliest means the earliest: confirmed items are not a loss. A
    number beyond the latest means the latest.
    """
    floor = max(earliest - 1, 0)
    after = max(_number(starting, floor, latest), floor)
    return MarkerRange(after, max(min(_number(ending, floor, latest), latest), after))


def _number(offset: Offset, floor: int, latest: int) -> int:
    if isinstance(offset, int):
        return offset
    return floor if offset == "earliest" else latest


class Sized(Protocol):
    """A thing that can be packed."""

    @property
    def size(self) -> int:
        """About how many bytes it has."""


def packed(
    things: Sequence[_S], size_max: int, partitions_min: int, cut: Callable[[_S, int], list[_S]]
) -> list[list[_S]]:
    """Return the things in their order, in partitions of about `size_max` bytes.

    Partitions are smaller if there would be fewer than `partitions_min`. `cut` cuts a thing into at
    most the given number of parts.
    """
    total = sum(thing.size for thing in things)
    size_max = max(min(size_max, -(-total // partitions_min)), 1)
    partitions: list[list[_S]] = []
    room = 0
    for thing in things:
        parts = -(-thing.size // size_max)
        for each in cut(thing, parts) if parts > 1 else [thing]:
            if not partitions or each.size > room:
                partitions.append([])
                room = size_max
            partitions[-1].append(each)
            room -= each.size
    return partitions


def parse_address(text: str) -> Address:
    """Parse `host:port`, `[v6]:port`, or the path of a Unix socket. Raises ValueError."""
    if text.startswith("/"):
        return Address(text)
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
        return Address(host, int(port))
    raise ValueError(
        f"{shown(text)} is not a server's address; say host:port or the path of a Unix socket"
    )


def parse_starting(text: str) -> Offsets:
    """Parse `startingMarkers`. Raises ValueError with one sentence."""
    return _parsed(text, "earliest")


def parse_ending(text: str) -> Offsets:
    """Parse `endingMarkers`. Raises ValueError with one sentence."""
    return _parsed(text, "latest")


def _parsed(text: str, unnamed: Offset) -> Offsets:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    try:
        found = json.loads(text, object_pairs_hook=_named_once)
    except _NamedTwice as error:
        raise ValueError(f"{shown(text)} names {error} twice; say one place") from None
    except ValueError:
        raise ValueError(f"{shown(text)} is not a place in a queue; {_FORM}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{shown(text)} is not a place in a queue; {_FORM}")
    named: dict[str, dict[str, Offset]] = {}
    for server, queues in found.items():
        each = queues if isinstance(queues, dict) else {"*": queues}
        named[server] = {queue: _offset(value, server, queue) for queue, value in each.items()}
    return Offsets(unnamed, named)


class _NamedTwice(ValueError):
    """An object with two members of one name."""


def _named_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _NamedTwice(next(name for name in names if names.count(name) > 1))
    return found


def format_offsets(markers: Mapping[str, Mapping[str, int]]) -> str:
    """Return the markers of each server's queues as the text of an option."""
    return json.dumps({server: dict(queues) for server, queues in markers.items()}, sort_keys=True)


def _offset(value: object, server: str, queue: str) -> Offset:
    if value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MARKER_MAX:
        return value
    raise ValueError(f"the marker {shown(value)} of {server} {queue} is none; {_FORM}")
