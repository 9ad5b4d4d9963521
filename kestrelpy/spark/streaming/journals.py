"""Journal directories as a stream: records by lsn, up to the last known sync.

    driver     begin      the first record that is there
               advance    plan the journals; where the next batch ends, with its ranges of lsns
    executor   read       the splits of the ranges, each record once

A position counts lsns here, not markers, and names a queue with its generation: `jobs.1700000000`.
A stream of items reads each put, whatever became of the item since.

One rule: no record after the last known sync is read, because a power cut may put another in its
place.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from journal.errors import ITEM_MAX, JournalError
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files import (
    PackedItems,
    ReadPart,
    RowLimits,
    Split,
    opened,
    partitions,
    plan_events,
)
from kestrelpy.spark.offsets import packed
from kestrelpy.spark.options import Options
from kestrelpy.spark.streaming.live_queues import lost
from kestrelpy.spark.streaming.position import (
    BatchLimits,
    Planned,
    Position,
    ReadPosition,
    admitted,
)

if TYPE_CHECKING:
    from kestrelpy.spark.files import PlannedJournal

log = logging.getLogger("kestrelpy.spark")
_NO_LIMITS: Final = RowLimits()
_EVERY_PUT: Final = PackedItems(struct.pack("<QQ", 1, ITEM_MAX), b"")


class Journals:
    """The journals of one query, on the driver."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._seen: dict[tuple[str, str], PlannedJournal] = {}
        self._is_used = True  # the last look, by a batch
        self._is_checked = False  # the names in the options, once a query
        self._there: list[PlannedJournal] = []  # all journals of the last look
        self._target: Position | None = None

    def begin(self) -> Position:
        """Return where the first batch begins. Raises KestrelError."""
        self._look()
        partitions.refuse_unknown(self._options, self._there)
        self._is_checked = True
        positions: dict[str, dict[str, ReadPosition]] = {}
        for (server, queue), journal in self._seen.items():
            names = (journal.server,) if journal.server else ()
            starting = self._options.starting_markers.of(names, journal.queue)
            if isinstance(starting, int):
                raise KestrelError(
                    f"Option startingMarkers says {starting} for the queue {journal.queue} of "
                    f"{server}, and a stream of journals counts records, not markers. Say earliest "
                    f"or latest, and filter the stream: where marker > {starting}."
                )
            first = max(journal.lsn_first - 1, 0)
            after = max(journal.lsn_synced, first) if starting == "latest" else first
            positions.setdefault(server, {})[queue] = ReadPosition(journal.generation, after)
        return Position(positions)

    def stop_at_present(self) -> None:
        """Let no later batch read more than what is there now."""
        self._look()
        self._target = self.present()

    def advance(self, start: Position, limits: BatchLimits) -> Position:
        """Return where the batch from `start` ends; `start` itself if there is nothing new.

        Raises KestrelError for lost data.
        """
        self._look()
        self._is_used = True
        if not self._is_checked:
            # A journal of the checkpoint may be gone since; a name that is nowhere is a mistake.
            known = {
                queue.rpartition(".")[0] for queues in start.positions.values() for queue in queues
            }
            partitions.refuse_unknown(self._options, self._there, known)
            self._is_checked = True
        positions = {server: dict(queues) for server, queues in start.positions.items()}
        there: list[Planned] = []
        missing_all = 0
        for (server, queue), journal in self._seen.items():
            reached = start.of(server, queue)
            if reached is None:
                reached = ReadPosition(journal.generation, max(journal.lsn_first - 1, 0))
            after, missing = self._after(queue, reached, journal)
            missing_all += missing
            upto = max(journal.lsn_synced, after)
            if self._target is not None:
                target = self._target.of(server, queue)
                upto = min(upto, target.marker) if target is not None else after
            positions.setdefault(server, {})[queue] = ReadPosition(journal.generation, after)
            if upto > after:
                size = _size(journal, after, upto)
                there.append(Planned(server, queue, journal.generation, after, upto, size))
        batch = admitted(there, limits)
        for each in batch:
            positions[each.server][each.queue] = ReadPosition(each.generation, each.upto)
        if not batch and not missing_all:
            return start
        return Position(positions, self._packed(batch), start.lost + missing_all)

    def present(self) -> Position:
        """Return how far the journals go, as of the last look."""
        positions: dict[str, dict[str, ReadPosition]] = {}
        for (server, queue), journal in self._seen.items():
            positions.setdefault(server, {})[queue] = ReadPosition(
                journal.generation, journal.lsn_synced
            )
        return Position(positions)

    def lag(self, position: Position) -> int:
        """Return how many records are there after a position, as of the last look."""
        count = 0
        for (server, queue), journal in self._seen.items():
            reached = position.of(server, queue)
            after = reached.marker if reached is not None else journal.lsn_first - 1
            count += max(journal.lsn_synced - after, 0)
        return count

    def confirm(self, done: Position) -> None:
        """Do nothing: a journal is only read."""

    def parts(self, end: Position) -> list[list[ReadPart]]:
        """Return the parts of each partition of the batch that ends here. Raises KestrelError."""
        if any((each.server, each.queue) not in self._seen for p in end.slices for each in p):
            self._look()
        return [[part for each in p for part in self._parts(each)] for p in end.slices]

    def _packed(self, batch: Sequence[Planned]) -> tuple[tuple[Planned, ...], ...]:
        options = self._options
        in_segments = [part for each in batch for part in self._by_segment(each)]
        parts = packed(
            in_segments, options.max_partition_bytes, options.min_partitions, lambda part, _: [part]
        )
        return tuple(tuple(_joined(part)) for part in parts)

    def _by_segment(self, whole: Planned) -> Iterator[Planned]:
        """Cut a range where segments end: a segment is read from its front."""
        splits = self._seen[whole.server, whole.queue].splits
        after = whole.after
        for split in sorted(splits, key=attrgetter("lsn_last")):
            upto = min(split.lsn_last, whole.upto)
            if upto > after:
                yield whole._replace(after=after, upto=upto, size=_share(split, after, upto))
                after = upto

    def _parts(self, planned: Planned) -> Iterator[ReadPart]:
        journal = self._seen.get((planned.server, planned.queue))
        if journal is None:
            lost(
                f"The journal of {planned.queue} of server {planned.server} is gone since the "
                f"batch of its records {planned.after + 1} to {planned.upto} was planned.",
                "Name its archive or a backup as well", self._options,
            )  # fmt: skip
            return
        first, last = planned.after + 1, planned.upto
        for split in journal.splits:
            if split.lsn_first <= last and first <= split.lsn_last:
                yield ReadPart(self._wanted(split, first, last), _NO_LIMITS, tuple(journal.folders))

    def _wanted(self, split: Split, first: int, last: int) -> Split:
        items = _EVERY_PUT if self._options.mode == "items" else None
        if last < split.lsn_last:
            split = replace(split, lsn_last=last, lsn_limit=last + 1)  # read no farther
        return replace(split, live_items=items).only(first, last)

    def _after(self, queue: str, reached: ReadPosition, journal: PlannedJournal) -> tuple[int, int]:
        """Return where to read on, and how many records are lost. Raises KestrelError."""
        where = f"The journal of {queue} in {', '.join(journal.folders)}"
        if journal.lsn_next - 1 < reached.marker:
            lost(
                f"{where} was reset: its latest record is {journal.lsn_next - 1}, and the query "
                f"has read up to {reached.marker}.",
                "Restore the state that it had, or start with a new checkpoint", self._options,
            )  # fmt: skip
            return journal.lsn_next - 1, reached.marker - journal.lsn_next + 1
        first = journal.whole_from if self._options.mode == "events" else journal.lsn_first
        missing = first - 1 - reached.marker
        if missing <= 0:
            return reached.marker, 0
        lost(
            f"{where} was trimmed: its earliest record is {first}, and the query has read up to "
            f"{reached.marker}.",
            "Name the directory of archive_to as well", self._options,
        )  # fmt: skip
        return first - 1, missing

    def _look(self) -> None:
        """Look at the journals, unless no batch was planned since the last look."""
        if self._is_used:
            self._plan()
            self._is_used = False

    def _plan(self) -> None:
        try:
            with opened(self._options.path) as places:
                history = plan_events(places.folders(), places.files)
        except JournalError as error:
            raise KestrelError(str(error)) from None
        for problem in history.problems:
            log.warning("%s", problem.sentence)
        self._there = history.journals
        self._seen = {
            (journal.server or journal.identity.hex(), f"{journal.queue}.{journal.generation}"):
            journal
            for journal in sorted(history.journals, key=lambda j: (j.queue, j.generation))
            if self._options.chooses(journal.queue) and journal.splits
        }  # fmt: skip


def _size(journal: PlannedJournal, after: int, upto: int) -> int:
    """Return about how many bytes these records take."""
    return sum(_share(split, after, upto) for split in journal.splits)


def _share(split: Split, after: int, upto: int) -> int:
    """Return about how many bytes these records take in this split."""
    count = min(split.lsn_last, upto) - max(split.lsn_first - 1, after)
    return split.bytes * max(count, 0) // max(split.lsn_last - split.lsn_first + 1, 1)


def _joined(ranges: Iterable[Planned]) -> Iterator[Planned]:
    """Yield the ranges; join those that follow each other."""
    last: Planned | None = None
    for each in ranges:
        if last is not None and last[:3] == each[:3] and last.upto == each.after:
            last = last._replace(upto=each.upto, size=last.size + each.size)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last
