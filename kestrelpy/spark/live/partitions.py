"""The items that servers hold now, by marker: what there is, and every item of a range once.

    driver     look:  stats, stats markers       -> which queues, from which marker to which
               plan:  ranges, cut and packed     -> the slices of each partition
    executor   read:  gets q/peek/after=<m>/n=10000/full, from the range's begin to its end

Whatever breaks on the way, reading goes on behind the last marker that was handed on.

One rule: nothing is removed, and nothing is created.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live.wire import ITEMS_MAX, Lost, Patience, Unreachable, Values, Wire
from kestrelpy.spark.offsets import Address, Range, packed, range_of, refuse_strangers
from kestrelpy.spark.options import Options

log = logging.getLogger("kestrelpy.spark")
_T = TypeVar("_T")

_LOOKERS: Final = 16  # servers asked at the same time
_LINE_BYTES: Final = 100  # of an item beside its body
_SUFFIXES: Final = ("_marker_earliest", "_marker_latest", "_generation", "_kept_bytes")


@dataclass(frozen=True, slots=True)
class Held:
    """What a server says of one queue."""

    generation: int
    earliest: int  # marker of the first kept item; one behind the latest when none is
    latest: int  # the last marker that was given
    kept_bytes: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a server says of itself."""

    address: Address
    server: str  # its id
    queues: dict[str, Held]


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of the markers of one queue, and about how many bytes that is."""

    address: Address
    server: str
    queue: str
    generation: int
    span: Range
    size: int


def patience_of(options: Options) -> Patience:
    """How long to wait for a server."""
    return Patience(
        options.connect_timeout_ms,
        options.read_timeout_ms,
        options.fetch_retries,
        options.fetch_retry_interval_ms,
    )


# -- the driver ----------------------------------------------------------------------------


def plan(options: Options) -> list[list[Slice]]:
    """What each partition reads; raises KestrelError."""
    seen = look(options)
    _refuse_unknown(options, seen)
    refuse_strangers(options.markers, [*map(str, options.servers), *(s.server for s in seen)])
    slices = []
    wanted = options.wanted
    for server in seen:
        if wanted.servers is not None and server.server not in wanted.servers:
            continue
        names = (str(server.address), server.server)
        for queue, held in sorted(server.queues.items()):
            if not options.chooses(queue):
                continue
            span = range_of(
                options.starting_markers.of(names, queue),
                options.ending_markers.of(names, queue),
                held.earliest,
                held.latest,
            )
            span &= wanted.markers
            if span:
                slices.append(
                    Slice(
                        server.address, server.server, queue, held.generation, span,
                        _size(held, span),
                    )
                )  # fmt: skip
    return packed(slices, options.max_partition_bytes, options.min_partitions, _cut)


def _size(held: Held, span: Range) -> int:
    """About how many bytes a range is, if items lie evenly."""
    share = (span.upto - span.after) / max(held.latest - held.earliest + 1, 1)
    return round(held.kept_bytes * share) + _LINE_BYTES * (span.upto - span.after)


def _cut(whole: Slice, parts: int) -> list[Slice]:
    spans = whole.span.split(parts)
    return [replace(whole, span=span, size=whole.size // len(spans)) for span in spans]


def look(options: Options) -> list[Seen]:
    """What the servers hold; those out of reach are passed over or an error, as was said."""
    patience = patience_of(options)

    def one(address: Address) -> Seen | None:
        try:
            return retried(address, patience, lambda: _look_at(address, patience))
        except Unreachable as error:
            if not options.skip_unreachable:
                raise
            log.warning("%s", error.passed_over)
            return None

    with ThreadPoolExecutor(min(_LOOKERS, len(options.servers))) as pool:
        return [seen for seen in pool.map(one, options.servers) if seen is not None]


def _look_at(address: Address, patience: Patience) -> Seen:
    server = Wire(address, patience).server_id()
    wire = Wire(address, patience)
    try:
        return Seen(address, server, held_in(wire.stats("markers")))
    finally:
        wire.close()


def held_in(stats: dict[str, str]) -> dict[str, Held]:
    """`stats markers` by queue."""
    numbers: dict[str, dict[str, int]] = {}
    for name, text in stats.items():
        for suffix in _SUFFIXES:
            if name.startswith("queue_") and name.endswith(suffix) and text.isdigit():
                queue = name[len("queue_") : -len(suffix)]
                numbers.setdefault(queue, {})[suffix] = int(text)
    return {
        queue: Held(
            each["_generation"],
            each["_marker_earliest"],
            each["_marker_latest"],
            each["_kept_bytes"],
        )
        for queue, each in numbers.items()
        if len(each) == len(_SUFFIXES)
    }


def _refuse_unknown(options: Options, seen: list[Seen]) -> None:
    """A name without a sign of a glob is a queue that somebody expects to be there."""
    there = {queue for server in seen for queue in server.queues}
    for name in options.queues if seen else ():
        if name in there or any(sign in name for sign in "*?["):
            continue
        near = get_close_matches(name, there, 1)
        hint = f"Did you mean {near[0]}?" if near else "kestrelpy queues ls shows what there is."
        raise KestrelError(
            f"There is no queue {name} on {', '.join(str(s.address) for s in seen)}. {hint}"
        )


# -- an executor ---------------------------------------------------------------------------


def read(slices: Sequence[Slice], options: Options) -> Iterator[tuple[Slice, Values]]:
    """The items of the slices, answer by answer, in order; raises KestrelError.

    The last answer of a slice may go beyond its range.
    """
    for _, pieces in groupby(slices, attrgetter("address")):
        try:
            yield from _read_server(list(pieces), options)
        except Unreachable as error:
            if not options.skip_unreachable:
                raise
            log.warning("%s", error.passed_over)


def _read_server(pieces: list[Slice], options: Options) -> Iterator[tuple[Slice, Values]]:
    """The slices of one server, over one connection as long as it lasts."""
    patience = patience_of(options)
    todo = deque(pieces)
    failures = 0
    while True:
        try:
            wire = _connected(pieces[0], patience)
            try:
                held = held_in(wire.stats("markers"))
                while todo:
                    piece = todo[0]
                    for values in _answers(wire, piece) if _lives(piece, held, options) else ():
                        failures = 0
                        todo[0] = replace(piece, span=Range(values.last_marker, piece.span.upto))
                        yield piece, values
                    todo.popleft()
                # A queue made anew while it was read has other items under the same markers.
                held_now = held_in(wire.stats("markers"))
                for piece in pieces:
                    if piece.queue in held and held[piece.queue].generation == piece.generation:
                        _lives(piece, held_now, options)
                return
            finally:
                wire.close()
        except Lost as error:
            failures += 1
            if failures > patience.retries:
                raise Unreachable(pieces[0].address, str(error)) from None
            time.sleep(patience.retry_ms / 1000)


def _answers(wire: Wire, piece: Slice) -> Iterator[Values]:
    """Answer by answer; the next one is asked for before this one is looked at."""
    after, upto = piece.span.after, piece.span.upto
    asked = after < upto
    if asked:
        wire.ask(_request(piece.queue, after, upto))
    while asked:
        values = wire.values()
        if not values.lines:
            return
        after = values.last_marker
        asked = after < upto
        if asked:
            wire.ask(_request(piece.queue, after, upto))
        yield values


def _request(queue: str, after: int, upto: int) -> str:
    return f"gets {queue}/peek/after={after}/n={min(ITEMS_MAX, upto - after)}/full"


def _connected(piece: Slice, patience: Patience) -> Wire:
    """A connection to the server that was planned."""
    server = Wire(piece.address, patience).server_id()
    if server != piece.server:
        raise KestrelError(
            f"The server {piece.address} is another one now: its id is {server}, and was "
            f"{piece.server} when the read was planned. Plan again: load() once more."
        )
    return Wire(piece.address, patience)


def _lives(piece: Slice, held: dict[str, Held], options: Options) -> bool:
    """Is the queue still the one that was planned? If not, that is an error or a warning."""
    now = held.get(piece.queue)
    if now is not None and now.generation == piece.generation:
        return True
    what = "deleted" if now is None else "deleted and made anew"
    text = (
        f"The queue {piece.queue} of {piece.address} was {what} since the read was planned, and "
        f"what was not read of its markers {piece.span.after + 1} to {piece.span.upto} is gone. "
    )
    if options.fail_on_data_loss:
        raise KestrelError(f"{text}Plan again: load() once more; or say failOnDataLoss=false.")
    log.warning("%s", text)
    return False


# -- both ----------------------------------------------------------------------------------


def retried(address: Address, patience: Patience, once: Callable[[], _T]) -> _T:
    """What `once` returns, if need be after some retries; raises Unreachable."""
    for attempt in range(patience.retries + 1):
        try:
            return once()
        except Lost as error:
            if attempt == patience.retries:
                raise Unreachable(address, str(error)) from None
            time.sleep(patience.retry_ms / 1000)
    raise AssertionError("the last attempt returns or raises")
