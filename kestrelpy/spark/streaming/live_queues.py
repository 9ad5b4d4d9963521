"""The queues of running servers as a stream: look, plan the next batch, read it, confirm it.

    driver     begin      where the first batch begins
               advance    look; where the next batch ends, with its slices
               confirm    what a committed batch has read, if the stream consumes
    executor   read       the slices, each marker once

A marker that retention took before it was read is lost. There are three ways:

    trimmed            the earliest marker that is there is beyond the position
    reset              the latest marker is before the position: the server has an older state
    other generation   the queue of a planned slice was deleted, and maybe made anew

Markers that consumers confirmed first leave gaps, which are no loss. A queue that is deleted and
made anew between two batches begins anew.

One rule: a batch is in its offset whole, so that a repeated batch reads the same markers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import LiveConnection, ServerUnreachable, Slice, Values, partitions
from kestrelpy.spark.named import range_in
from kestrelpy.spark.offsets import Address, MarkerRange, packed
from kestrelpy.spark.options import Options
from kestrelpy.spark.streaming.position import (
    BatchLimits,
    Planned,
    Position,
    ReadPosition,
    admitted,
)

log = logging.getLogger("kestrelpy.spark")
_NAMED_MAX: Final = 3


class LiveQueues:
    """The servers of one query, on the driver."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._seen: list[partitions.ServerQueues] = []
        self._addresses: dict[str, Address] = {}
        self._confirmed: dict[tuple[str, str], ReadPosition] = {}
        self._is_used = True  # the last look, by a batch
        self._is_checked = False  # the names in the options, once a query
        self._target: Position | None = None

    # -- where batches begin and end -------------------------------------------------------

    def begin(self) -> Position:
        """Return where the first batch begins. Raises KestrelError."""
        self._look()
        partitions.refuse_unknown(self._options, self._readable())
        self._is_checked = True
        positions: dict[str, dict[str, ReadPosition]] = {}
        for server, queue, markers in self._queues():
            names = partitions.names_of(self._addresses[server], server)
            span = range_in(self._options, names, queue, markers.earliest, markers.latest)
            positions.setdefault(server, {})[queue] = ReadPosition(markers.generation, span.after)
        return Position(positions)

    def stop_at_present(self) -> None:
        """Let no later batch read more than what is there now."""
        self._look()
        positions: dict[str, dict[str, ReadPosition]] = {}
        for server, queue, markers in self._queues():
            reached = ReadPosition(markers.generation, markers.latest)
            positions.setdefault(server, {})[queue] = reached
        self._target = Position(positions)

    def advance(self, start: Position, limits: BatchLimits) -> Position:
        """Return where the batch from `start` ends; `start` itself if there is nothing new.

        Raises KestrelError for lost data, and for servers of the checkpoint that are not read.
        """
        self._look()
        self._is_used = True
        self._refuse_another_fleet(start)
        if not self._is_checked:
            # A queue of the checkpoint may be gone since; a name that is nowhere is a mistake.
            known = {queue for queues in start.positions.values() for queue in queues}
            partitions.refuse_unknown(self._options, self._readable(), known)
            self._is_checked = True
        positions = {server: dict(queues) for server, queues in start.positions.items()}
        there, lost = [], 0
        for server, queue, markers in self._queues():
            reached = start.of(server, queue)
            if reached is None or reached.generation != markers.generation:
                reached = ReadPosition(markers.generation, max(markers.earliest - 1, 0))
            upto = self._upto(server, queue, markers)
            after, missing = self._after(server, queue, reached, markers)
            lost += missing
            positions.setdefault(server, {})[queue] = ReadPosition(markers.generation, after)
            if upto > after:
                size = partitions.size_of(markers, MarkerRange(after, upto))
                there.append(Planned(server, queue, markers.generation, after, upto, size))
        batch = admitted(there, limits)
        for each in batch:
            positions[each.server][each.queue] = ReadPosition(each.generation, each.upto)
        if not batch and not lost:
            return start
        return Position(positions, self._packed(batch), start.lost + lost)

    def present(self) -> Position:
        """Return how far the queues go, and how much of it is left, as of the last look."""
        positions: dict[str, dict[str, ReadPosition]] = {}
        for server, queue, markers in self._queues():
            reached = ReadPosition(markers.generation, markers.latest)
            positions.setdefault(server, {})[queue] = reached
        return Position(positions)

    def lag(self, position: Position) -> int:
        """Return how many markers are there after a position, as of the last look."""
        count = 0
        for server, queue, markers in self._queues():
            reached = position.of(server, queue)
            is_same = reached is not None and reached.generation == markers.generation
            after = reached.marker if reached is not None and is_same else markers.earliest - 1
            count += max(markers.latest - after, 0)
        return count

    def slices(self, end: Position) -> list[list[Slice]]:
        """Return the slices of each partition of the batch that ends here. Raises KestrelError."""
        if any(each.server not in self._addresses for part in end.slices for each in part):
            self._look()
        return [[self._slice(each) for each in part] for part in end.slices]

    def _slice(self, planned: Planned) -> Slice:
        address = self._addresses.get(planned.server)
        if address is None:
            raise _another_fleet(planned.server, self._addresses)
        return Slice(
            address, planned.server, planned.queue, planned.generation,
            MarkerRange(planned.after, planned.upto), planned.size, self._asked(planned.queue),
        )  # fmt: skip

    def _packed(self, batch: Sequence[Planned]) -> tuple[tuple[Planned, ...], ...]:
        options = self._options
        parts = packed(batch, options.max_partition_bytes, options.min_partitions, cut)
        return tuple(map(tuple, parts))

    def _upto(self, server: str, queue: str, markers: partitions.QueueMarkers) -> int:
        if self._target is None:
            return markers.latest
        reached = self._target.of(server, queue)
        if reached is None or reached.generation != markers.generation:
            return 0
        return min(reached.marker, markers.latest)

    def _after(
        self, server: str, queue: str, reached: ReadPosition, markers: partitions.QueueMarkers
    ) -> tuple[int, int]:
        """Return where to read on, and how many markers are lost. Raises KestrelError."""
        if markers.latest < reached.marker:
            self._lost(
                f"was reset: its latest marker is {markers.latest}, and the query has read up to "
                f"{reached.marker}",
                "Restore the state that it had, or start with a new checkpoint",
                server, queue,
            )  # fmt: skip
            return markers.latest, reached.marker - markers.latest
        missing = markers.earliest - 1 - reached.marker
        if missing <= 0:
            return reached.marker, 0
        if markers.retains and not self._options.cursor:
            self._lost(
                f"was trimmed: its earliest marker is {markers.earliest}, and the query has read "
                f"up to {reached.marker}", "Read its archive, and set a longer retain",
                server, queue,
            )  # fmt: skip
            return markers.earliest - 1, missing
        return markers.earliest - 1, 0

    def _lost(self, what: str, remedy: str, server: str, queue: str) -> None:
        lost(
            f"The queue {queue} of {self._addresses[server]} (server {server}) {what}.",
            remedy, self._options,
        )  # fmt: skip

    # -- confirming ------------------------------------------------------------------------

    def confirm(self, done: Position) -> None:
        """Confirm what a committed batch and those before it have read. Raises KestrelError."""
        if self._options.consume == "none":
            return
        for server, queues in done.positions.items():
            address = self._addresses.get(server)
            todo = {
                queue: reached
                for queue, reached in queues.items()
                if reached.marker and self._confirmed.get((server, queue)) != reached
            }
            if address is None or not todo:
                continue
            patience = partitions.patience_of(self._options)
            try:
                partitions.retried(address, patience, partial(self._confirm_at, address, todo))
            except ServerUnreachable as error:
                # What is not confirmed now is confirmed with a later batch, or at the next start.
                log.warning("%s", error)
                continue
            self._confirmed.update({(server, queue): reached for queue, reached in todo.items()})

    def _confirm_at(self, address: Address, todo: Mapping[str, ReadPosition]) -> None:
        wire = LiveConnection(address, partitions.patience_of(self._options))
        try:
            markers = partitions.queue_markers(wire.stats("markers"))
            for queue, reached in todo.items():
                asked = self._asked(queue)
                now = markers.get(asked)
                # Another generation has other items under these markers.
                if now is not None and now.generation == reached.generation:
                    wire.confirm_upto(asked, min(reached.marker, now.latest))
        finally:
            wire.close()

    # -- looking ---------------------------------------------------------------------------

    def _look(self) -> None:
        """Look at the servers, unless no batch was planned since the last look."""
        if self._is_used:
            self._ask()
            self._is_used = False

    def _ask(self) -> None:
        options = self._options
        self._seen = partitions.look(options)
        for seen in self._seen:
            self._addresses[seen.server] = seen.address
        if options.cursor:
            if self._add_cursors():
                self._seen = partitions.look(options)
            return
        if options.consume == "confirm":
            return
        for seen in self._seen:
            for queue, markers in sorted(seen.queues.items()):
                if self._is_read(queue) and not markers.retains:
                    raise KestrelError(
                        f"The queue {queue} of {seen.address} keeps no item for a stream: another "
                        "consumer may confirm it before it is read. Set retain for the queue, for "
                        'instance retain = "7d", or say .option("cursor", "a name") so that the '
                        "server keeps what this query has not read."
                    )

    def _add_cursors(self) -> bool:
        """Make the cursor of each queue that has none; it begins with the earliest item there."""
        added = False
        for seen in self._seen:
            missing = [
                queue
                for queue in seen.queues
                if self._is_read(queue) and self._asked(queue) not in seen.queues
            ]
            if not missing:
                continue
            patience = partitions.patience_of(self._options)
            add = partial(self._add_at, seen.address, missing)
            partitions.retried(seen.address, patience, add)
            added = True
        return added

    def _add_at(self, address: Address, queues: Sequence[str]) -> None:
        wire = LiveConnection(address, partitions.patience_of(self._options))
        try:
            for queue in queues:
                wire.add_cursor(self._asked(queue))
        finally:
            wire.close()

    def _is_read(self, queue: str) -> bool:
        """True if the stream reads this queue; a child is read if it is named."""
        if "+" in queue and (self._options.cursor or queue not in self._options.queues):
            return False
        return self._options.chooses(queue)

    def _queues(self) -> Iterator[tuple[str, str, partitions.QueueMarkers]]:
        """Return the queues that are read, with the markers of their cursors if they have some."""
        for seen in self._seen:
            for queue in sorted(seen.queues):
                markers = seen.queues.get(self._asked(queue))
                if markers is not None and self._is_read(queue):
                    yield seen.server, queue, markers

    def _readable(self) -> list[partitions.ServerQueues]:
        """Return the servers without the children that a wildcard does not mean."""
        return [
            replace(
                each, queues={
                    queue: markers for queue, markers in each.queues.items()
                    if "+" not in queue or self._is_read(queue)
                },
            )
            for each in self._seen
        ]  # fmt: skip

    def _asked(self, queue: str) -> str:
        return f"{queue}+{self._options.cursor}" if self._options.cursor else queue

    def _refuse_another_fleet(self, start: Position) -> None:
        for server in start.positions:
            if server not in self._addresses and not self._options.skip_unreachable:
                if self._options.fail_on_data_loss:
                    raise _another_fleet(server, self._addresses)
                log.warning("%s", _another_fleet(server, self._addresses))


def read(slices: Sequence[Slice], options: Options) -> Iterator[tuple[Slice, Values]]:
    """Return the items of the slices, answer by answer. Raises KestrelError for lost data.

    A planned slice is never skipped, as the next batch begins after it.
    """
    options = replace(options, skip_unreachable=False)
    at = {_key(part): part.span.after for part in slices}
    gaps: list[tuple[Slice, MarkerRange]] = []
    for part, values in partitions.read(slices, options):
        after = at[_key(part)]
        first = int(values.lines[0][4])
        if first > after + 1:
            gaps.append((part, MarkerRange(after, first - 1)))
        at[_key(part)] = values.last_marker
        yield part, values
    for part in slices:
        after = at[_key(part)]
        if after < part.span.upto:
            gaps.append((part, MarkerRange(after, part.span.upto)))
    if gaps and not options.cursor:
        _check_gaps(gaps, options)


def _check_gaps(gaps: Sequence[tuple[Slice, MarkerRange]], options: Options) -> None:
    """Raise KestrelError if retention, and not a consumer, took items of a slice."""
    patience = partitions.patience_of(options)
    for address in {part.address for part, _ in gaps}:
        markers = partitions.retried(address, patience, partial(_markers, address, options))
        for part, gap in gaps:
            now = markers.get(part.asked)
            if part.address != address or now is None or not now.retains:
                continue
            if now.generation == part.generation and now.earliest - 1 > gap.after:
                lost(
                    f"The queue {part.queue} of {address} (server {part.server}) was trimmed: its "
                    f"earliest marker is {now.earliest}, and the batch begins after {gap.after}.",
                    "Read its archive, and set a longer retain", options,
                )  # fmt: skip


def _markers(address: Address, options: Options) -> dict[str, partitions.QueueMarkers]:
    wire = LiveConnection(address, partitions.patience_of(options))
    try:
        return partitions.queue_markers(wire.stats("markers"))
    finally:
        wire.close()


def _key(part: Slice) -> tuple[str, str, int]:
    return part.server, part.queue, part.span.upto


def cut(whole: Planned, parts: int) -> list[Planned]:
    spans = MarkerRange(whole.after, whole.upto).split(parts)
    size = whole.size // len(spans)
    return [whole._replace(after=each.after, upto=each.upto, size=size) for each in spans]


def lost(what: str, remedy: str, options: Options) -> None:
    """Raise KestrelError for lost data, or log it with failOnDataLoss=false."""
    if options.fail_on_data_loss:
        raise KestrelError(
            f"{what} What lies between was not read. {remedy}; or say failOnDataLoss=false to read "
            "on from there."
        )
    log.warning("%s What lies between was not read (failOnDataLoss=false).", what)


def _another_fleet(server: str, there: Mapping[str, Address]) -> KestrelError:
    named = ", ".join(f"{address} ({each})" for each, address in sorted(there.items())) or "none"
    return KestrelError(
        f"The checkpoint names the server {server}, and the servers that are read are {named}. "
        "Name it in the option servers as well; or say failOnDataLoss=false to go on without it."
    )
