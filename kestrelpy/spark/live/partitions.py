"""The items that servers hold now, by marker; every item of a range is read once.

    driver     look:  stats, stats markers       -> which queues, from which marker to which
               plan:  ranges, cut and packed     -> the slices of each partition
    executor   read:  gets q/peek/after=<m>/n=10000/full, from the range's begin to its end
               batch_of: each answer as an Arrow batch

After a broken connection, the read goes on after the last marker that it handed on. Only fields of
selected columns are decoded; a body is copied once, from the answer.

One rule: a read removes nothing and creates nothing.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from journal.engine import name_of
from journal.format import texts_in
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live.owners import forget, has_answered, members_of
from kestrelpy.spark.live.wire import (
    ITEMS_MAX,
    MARKER_AT,
    LiveConnection,
    Lost,
    Patience,
    ServerUnreachable,
    Values,
    why,
)
from kestrelpy.spark.named import (
    NamedServer,
    range_in,
    refuse_unknown_markers,
    refuse_unknown_queues,
)
from kestrelpy.spark.offsets import Address, FleetAddress, MarkerRange, packed
from kestrelpy.spark.options import Options
from kestrelpy.spark.schema import Selection
from kestrelpy.wire.answers import FULL_AT

log = logging.getLogger("kestrelpy.spark")
_T = TypeVar("_T")

_LOOKERS: Final = 16  # servers asked at the same time
_LINE_BYTES: Final = 100  # of an item in addition to its body
_SUFFIXES: Final = ("_marker_earliest", "_marker_latest", "_generation", "_kept_bytes", "_retains")


@dataclass(frozen=True, slots=True)
class QueueMarkers:
    """The markers that a server holds of one queue."""

    generation: int
    earliest: int  # marker of the first item there; one after the latest if there is none
    latest: int  # the last marker that was given
    kept_bytes: int
    retains: bool = False  # done items stay readable until retention takes them


@dataclass(frozen=True, slots=True)
class ServerQueues:
    """A server and its queues; each slice of a fleet is a server."""

    address: Address
    server: str  # its id
    queues: dict[str, QueueMarkers]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that an option of markers may have for it."""
        return names_of(self.address, self.server)


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of the markers of one queue, and its approximate size in bytes."""

    address: Address
    server: str
    queue: str
    generation: int
    span: MarkerRange
    size: int
    read_as: str = ""  # the name that is asked for, if it is another: a cursor of the queue

    @property
    def asked(self) -> str:
        """The name that the server is asked for."""
        return self.read_as or self.queue


def patience_of(options: Options) -> Patience:
    """Return how long to wait for a server, by the options."""
    return Patience(
        options.connect_timeout_ms,
        options.read_timeout_ms,
        options.fetch_retries,
        options.fetch_retry_interval_ms,
        options.access,
    )


# -- the driver ----------------------------------------------------------------------------


def plan(options: Options) -> list[list[Slice]]:
    """Return the slices of each partition. Raises KestrelError."""
    seen = look(options)
    refuse_unknown(options, seen)
    slices = []
    wanted = options.wanted
    for server in seen:
        if wanted.servers is not None and server.server not in wanted.servers:
            continue
        names = server.names
        for queue, markers in sorted(server.queues.items()):
            if not options.chooses(queue):
                continue
            span = range_in(options, names, queue, markers.earliest, markers.latest)
            span &= wanted.markers
            if span:
                slices.append(
                    Slice(
                        server.address, server.server, queue, markers.generation, span,
                        size_of(markers, span),
                    )
                )  # fmt: skip
    return packed(slices, options.max_partition_bytes, options.min_partitions, _cut)


def size_of(markers: QueueMarkers, span: MarkerRange) -> int:
    """Return about how many bytes a range has, as if all items had one size."""
    share = (span.upto - span.after) / max(markers.latest - markers.earliest + 1, 1)
    return round(markers.kept_bytes * share) + _LINE_BYTES * (span.upto - span.after)


def _cut(whole: Slice, parts: int) -> list[Slice]:
    spans = whole.span.split(parts)
    return [replace(whole, span=span, size=whole.size // len(spans)) for span in spans]


def look(options: Options) -> list[ServerQueues]:
    """Return the servers' queues; with `skipUnreachable` skip servers that do not answer."""
    patience = patience_of(options)

    def one(address: Address) -> list[ServerQueues]:
        try:
            _refuse_away(address)
            return retried(address, patience, lambda: _look_at(address, patience))
        except ServerUnreachable as error:
            if not options.skip_unreachable:
                raise
            log.warning("%s", error.skipped)
            return []

    with ThreadPoolExecutor(min(_LOOKERS, len(options.servers))) as pool:
        return [seen for each in pool.map(one, options.servers) for seen in each]


def _refuse_away(address: Address) -> None:
    """Raise KestrelError for an engine that has never answered here, whatever the retries: most
    likely its address is wrong."""
    if isinstance(address, FleetAddress) and not has_answered(address):
        try:
            members_of(address)
        except OSError as error:
            raise KestrelError(
                f"{address}: the engine cannot be read: {error.strerror or error}."
            ) from None


def _look_at(address: Address, patience: Patience) -> list[ServerQueues]:
    server = LiveConnection(address, patience).server_id()
    wire = LiveConnection(address, patience)
    try:
        queues = queue_markers(wire.stats("markers"))
    finally:
        wire.close()
    if isinstance(address, FleetAddress):
        return _by_slice(address, server.split(","), queues)
    return [ServerQueues(address, server, queues)]


def _by_slice(
    fleet: FleetAddress, servers: Sequence[str], queues: Mapping[str, QueueMarkers]
) -> list[ServerQueues]:
    """Return each slice as a server: its id is in its journals as well. Raises Lost."""
    try:
        placement = members_of(fleet).placement
    except OSError as error:
        raise Lost(why(error)) from None
    if len(servers) != placement.slices:
        forget(fleet)
        raise Lost(f"its members have {len(servers)} slices, and its engine {placement.slices}")
    found = [
        ServerQueues(fleet.part(number), server, {}) for number, server in enumerate(servers, 1)
    ]
    for queue, markers in queues.items():
        found[placement.slice_of(queue.encode()) - 1].queues[queue] = markers
    return found


def queue_markers(stats: dict[str, str]) -> dict[str, QueueMarkers]:
    """Return the answer to `stats markers` by queue."""
    numbers: dict[str, dict[str, int]] = {}
    for name, text in stats.items():
        for suffix in _SUFFIXES:
            if name.startswith("queue_") and name.endswith(suffix) and text.isdigit():
                queue = name[len("queue_") : -len(suffix)]
                numbers.setdefault(queue, {})[suffix] = int(text)
    return {
        queue: QueueMarkers(
            each["_generation"],
            each["_marker_earliest"],
            each["_marker_latest"],
            each["_kept_bytes"],
            bool(each["_retains"]),
        )
        for queue, each in numbers.items()
        if len(each) == len(_SUFFIXES)
    }


def refuse_unknown(
    options: Options, seen: Sequence[ServerQueues], known: Collection[str] | None = None
) -> None:
    """Raise KestrelError if an option names a queue that is not there; `known` are there as well.

    Markers are checked only without `known`: a read that goes on does not use them.
    """
    if not seen:
        return
    is_whole = len(seen) >= len(options.servers)
    asked = (name_of(a.engine) if isinstance(a := each.address, FleetAddress) else str(a)
             for each in seen)  # fmt: skip
    where = f"on {', '.join(dict.fromkeys(asked))}"
    there = {queue for each in seen for queue in each.queues} | set(known or ())
    remedy = "kestrelpy queues ls shows what there is."
    refuse_unknown_queues(options, there, where, remedy, is_whole=is_whole)
    if known is None:
        sources = [NamedServer(each.names, [*each.queues]) for each in seen]
        refuse_unknown_markers(options, sources, is_whole=is_whole)


# -- an executor ---------------------------------------------------------------------------


def read(slices: Sequence[Slice], options: Options) -> Iterator[tuple[Slice, Values]]:
    """Return the items of the slices, answer by answer, in order. Raises KestrelError.

    The last answer of a slice may go beyond its range.
    """
    for _, parts in groupby(slices, attrgetter("address")):
        try:
            yield from _read_server(list(parts), options)
        except ServerUnreachable as error:
            if not options.skip_unreachable:
                raise
            log.warning("%s", error.skipped)


def _read_server(parts: list[Slice], options: Options) -> Iterator[tuple[Slice, Values]]:
    """Return the slices of one server, over one connection while it lasts."""
    patience = patience_of(options)
    todo = deque(parts)
    failures = 0
    while True:
        try:
            wire = _connected(parts[0], patience)
            try:
                markers = queue_markers(wire.stats("markers"))
                while todo:
                    part = todo[0]
                    is_there = _is_same_queue(part, markers, options)
                    for values in _answers(wire, part) if is_there else ():
                        failures = 0
                        todo[0] = replace(
                            part, span=MarkerRange(values.last_marker, part.span.upto)
                        )
                        yield part, values
                    todo.popleft()
                # A queue made anew during the read has other items under the same markers.
                markers_now = queue_markers(wire.stats("markers"))
                for part in parts:
                    if part.asked in markers and markers[part.asked].generation == part.generation:
                        _is_same_queue(part, markers_now, options)
                return
            finally:
                wire.close()
        except Lost as error:
            failures += 1
            if failures > patience.retries:
                raise ServerUnreachable(parts[0].address, str(error)) from None
            time.sleep(patience.retry_ms / 1000)


def _answers(wire: LiveConnection, part: Slice) -> Iterator[Values]:
    """Return answer by answer; the next request is sent before this answer is handed on."""
    after, upto = part.span.after, part.span.upto
    asked = after < upto
    if asked:
        wire.ask(_request(part.asked, after, upto))
    while asked:
        values = wire.values()
        if not values.lines:
            return
        after = values.last_marker
        asked = after < upto
        if asked:
            wire.ask(_request(part.asked, after, upto))
        yield values


def _request(queue: str, after: int, upto: int) -> str:
    return f"gets {queue}/peek/after={after}/n={min(ITEMS_MAX, upto - after)}/full"


def _connected(part: Slice, patience: Patience) -> LiveConnection:
    """Connect to the server of the plan; raises KestrelError if it is another one."""
    server = LiveConnection(part.address, patience).server_id()
    if server != part.server:
        raise KestrelError(
            f"The server {part.address} is another one now: its id is {server}, and was "
            f"{part.server} when the read was planned. Plan again: load() once more."
        )
    return LiveConnection(part.address, patience)


def _is_same_queue(part: Slice, markers: dict[str, QueueMarkers], options: Options) -> bool:
    """True if the queue is still the one of the plan; else log it, or raise KestrelError."""
    now = markers.get(part.asked)
    if now is not None and now.generation == part.generation:
        return True
    what = "deleted" if now is None else "deleted and made anew"
    text = (
        f"The queue {part.queue} of {part.address} was {what} since the read was planned, and "
        f"what was not read of its markers {part.span.after + 1} to {part.span.upto} is gone. "
    )
    if options.fail_on_data_loss:
        raise KestrelError(f"{text}Plan again: load() once more; or say failOnDataLoss=false.")
    log.warning("%s", text)
    return False


# -- both ----------------------------------------------------------------------------------


def names_of(address: Address, server: str) -> tuple[str, ...]:
    """Return the names of a server: its address, its id, and that of its fleet."""
    if isinstance(address, FleetAddress):
        return str(address), server, name_of(address.engine)
    return str(address), server


def retried(address: Address, patience: Patience, once: Callable[[], _T]) -> _T:
    """Return what `once` returns, after retries if need be. Raises Unreachable."""
    for attempt in range(patience.retries + 1):
        try:
            return once()
        except Lost as error:
            if attempt == patience.retries:
                raise ServerUnreachable(address, str(error)) from None
            time.sleep(patience.retry_ms / 1000)
    raise AssertionError("the last attempt returns or raises")


_NONE: Final = b"-"


def batch_of(
    part: Slice, values: Values, selection: Selection, options: Options
) -> pa.RecordBatch | None:
    """Return the items of an answer that are within the slice and the wanted time."""
    inside = _inside(values, part, options)
    count = len(values.lines)
    arrays = [_column(name, part, values, count) for name in selection.names]
    batch = pa.RecordBatch.from_arrays(arrays, schema=selection.arrow)
    if inside is not None:
        batch = batch.filter(inside)
    return batch if batch.num_rows else None


def _inside(values: Values, part: Slice, options: Options) -> pa.Array | None:
    """Return which items are wanted; None: all of them."""
    wanted = None
    if values.last_marker > part.span.upto:
        wanted = pc.less_equal(_numbers(values, MARKER_AT), part.span.upto)
    starting, ending = options.starting_timestamp_ms, options.ending_timestamp_ms
    if starting is not None or ending is not None:
        stored = _numbers(values, FULL_AT["stored_ms"])
        for each in (
            pc.greater_equal(stored, starting) if starting is not None else None,
            pc.less(stored, ending) if ending is not None else None,
        ):
            if each is not None:
                wanted = each if wanted is None else pc.and_(wanted, each)
    return wanted


def _column(name: str, part: Slice, values: Values, count: int) -> pa.Array:
    if name == "server":
        return pa.repeat(pa.scalar(part.server, pa.string()), count)
    if name == "queue":
        return pa.repeat(pa.scalar(part.queue, pa.string()), count)
    if name == "origin":
        return pa.nulls(count, pa.string())  # an answer does not say it
    if name == "value":
        return _bodies(values)
    word, make = _FIELDS[name]
    return make(values, FULL_AT[word])


def _bodies(values: Values) -> pa.Array:
    count = len(values.lines)
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(values.lengths, out=offsets[1:])
    if offsets[-1] < 1 << 31:
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values.bodies)]
        return pa.Array.from_buffers(pa.binary(), count, buffers)
    raise AssertionError("an answer stops at 4 MiB or one item, and an item is below 2 GiB")


def _texts(values: Values, field: int) -> pa.Array:
    column = [line[field] for line in values.lines]
    if all(each == _NONE for each in column):
        return pa.nulls(len(column), pa.string())
    return pa.array([None if each == _NONE else _unquoted(each) for each in column], pa.string())


def _keys(values: Values, field: int) -> pa.Array:
    keys = [None if (word := line[field]) == _NONE else texts_in(word) for line in values.lines]
    return pa.array(keys, pa.list_(pa.binary()))


def _unquoted(word: bytes) -> str:
    return unquote_to_bytes(word).decode("utf-8", "replace")


def _words(values: Values, field: int) -> pa.Array:
    return pa.array([line[field] for line in values.lines], pa.binary()).cast(pa.string())


def _numbers(values: Values, field: int) -> pa.Array:
    words = _words(values, field)
    return pc.if_else(pc.equal(words, "-"), None, words).cast(pa.int64())


def _small_numbers(values: Values, field: int) -> pa.Array:
    return _numbers(values, field).cast(pa.int32())


def _times(values: Values, field: int) -> pa.Array:
    return pc.multiply(_numbers(values, field), 1000).cast(pa.timestamp("us", "UTC"))


_FIELDS: Final[dict[str, tuple[str, Callable[[Values, int], pa.Array]]]] = {
    "flags": ("flags", _numbers),
    "marker": ("number", _numbers),
    "timestamp": ("stored_ms", _times),
    "expires": ("expires_ms", _times),
    "attempts": ("attempts", _small_numbers),
    "state": ("state", _words),
    "key": ("key", _texts),
    "keys": ("key", _keys),
    "id": ("id", _texts),
}
