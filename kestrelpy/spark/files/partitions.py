"""Journals under paths, from the options to batches: the counterpart of `live`.

    driver     plan:  history  ->  the journals that the options name  ->  splits, packed
    executor   read:  split by split; a split that has gone meanwhile is looked for again

One rule: missing data is an error, or with failOnDataLoss=false a warning; it is never silent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from journal.errors import Damage, JournalError
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files.places import Places, opened, shown
from kestrelpy.spark.files.split import RowLimits, Split, SplitGone
from kestrelpy.spark.named import (
    NamedServer,
    offsets_in,
    refuse_unknown_markers,
    refuse_unknown_queues,
)
from kestrelpy.spark.offsets import packed
from kestrelpy.spark.options import ALL_MARKERS, Options

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.files.plan import History, PlannedJournal
    from kestrelpy.spark.schema import Selection

log = logging.getLogger("kestrelpy.spark")
# A split that goes again and again while the task looks for it: compaction is faster than the read.
_LOOKS_MAX: Final = 10
_NAMED_MAX: Final = 3  # damages in one sentence


@dataclass(frozen=True, slots=True)
class ReadPart:
    """A split, the limits of the wanted rows, and the journal's folders when it was planned."""

    split: Split
    limits: RowLimits
    folders: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many bytes of the file are read."""
        return self.split.bytes


# -- the driver ----------------------------------------------------------------------------


def plan(options: Options) -> list[list[ReadPart]]:
    """Return the parts of each partition. Raises KestrelError."""
    from kestrelpy.spark.files.plan_events import plan_events
    from kestrelpy.spark.files.plan_items import plan_items

    planned = plan_events if options.mode == "events" else plan_items
    try:
        with opened(options.path) as places:
            history = planned(places.folders(), places.files)
    except JournalError as error:
        raise KestrelError(str(error)) from None
    refuse_unknown(options, history.journals)
    return parts_of(history, options)


def parts_of(history: History, options: Options) -> list[list[ReadPart]]:
    """Return the parts of each partition of a plan. Raises KestrelError for missing data."""
    wanted = [journal for journal in history.journals if _is_wanted(journal, options)]
    losses = [problem.sentence for problem in history.problems if problem.is_loss]
    for journal in wanted:
        losses += [damage.sentence() for damage in journal.damages]
    if losses:
        _lost(losses, options)
    for problem in history.problems:
        if not problem.is_loss:
            log.warning("%s", problem.sentence)
    latest = _latest_markers(wanted)
    parts = [
        ReadPart(split, limits, tuple(journal.folders))
        for journal in wanted
        if (limits := limits_of(journal.server, journal.queue, options, latest)) is not None
        for split in journal.splits
        if not limits.excludes(split)
    ]
    # A segment is read from its front: it cannot be cut.
    return packed(
        parts, options.max_partition_bytes, options.min_partitions, lambda part, _: [part]
    )


def _is_wanted(journal: PlannedJournal, options: Options) -> bool:
    servers = options.wanted.servers
    if servers is not None and journal.server not in servers:
        return False
    return options.chooses(journal.queue)


def limits_of(
    server: str | None, queue: str, options: Options,
    latest: Mapping[tuple[str | None, str], int] = MappingProxyType({}),
) -> RowLimits | None:  # fmt: skip
    """Return the limits of the wanted rows of a journal; None: no row is wanted.

    Raises KestrelError for a marker beyond the latest.
    """
    names = (server or "an unknown server",)
    starting, ending = offsets_in(options, names, queue, latest.get((server, queue)))
    if starting == "latest" or ending == "earliest":
        return None
    markers = options.wanted.markers
    after = max(starting, markers.after) if isinstance(starting, int) else markers.after
    upto = min(ending, markers.upto) if isinstance(ending, int) else markers.upto
    if upto <= after:
        return None
    # A limit skips events that are about no item; without a limit they are read.
    return RowLimits(
        after if after > ALL_MARKERS.after else None,
        upto if upto < ALL_MARKERS.upto else None,
        options.starting_timestamp_ms,
        options.ending_timestamp_ms,
    )


def refuse_unknown(
    options: Options, journals: Iterable[PlannedJournal], known: Collection[str] | None = None
) -> None:
    """Raise KestrelError if an option names a queue that is not there; `known` are there as well.

    Markers are checked only without `known`: a read that goes on does not use them.
    """
    there = list(journals)
    queues = {journal.queue for journal in there} | set(known or ())
    where = f"in the journals of {shown(options.path)}"
    refuse_unknown_queues(options, queues, where, "kestrelpy journal verify lists them.")
    if known is None:
        sources = [NamedServer((each.server,), [each.queue]) for each in there if each.server]
        refuse_unknown_markers(options, sources)


def _latest_markers(journals: Iterable[PlannedJournal]) -> dict[tuple[str | None, str], int]:
    """Return the latest marker of each queue over its generations; only a plan of items has it."""
    found: dict[tuple[str | None, str], int] = {}
    for each in journals:
        if each.state is not None and each.state.latest is not None:
            name = each.server, each.queue
            found[name] = max(found.get(name, 0), each.state.latest)
    return found


# -- an executor ---------------------------------------------------------------------------


def read(
    parts: Sequence[ReadPart], selection: Selection, options: Options
) -> Iterator[pa.RecordBatch]:
    """Return the rows of the parts, by lsn for each journal. Raises KestrelError."""

    def damaged(damage: Damage) -> None:
        _lost([damage.sentence()], options)

    with opened(options.path) as places:
        for part in parts:
            for batch in _read_part(part, selection, options, damaged, places):
                batch = _of_ops(batch, options)
                if batch.num_rows:
                    yield batch


def _read_part(
    part: ReadPart, selection: Selection, options: Options, damaged: Callable[[Damage], None],
    places: Places,
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    from kestrelpy.spark.files.decode import read as decoded

    todo = [part.split]
    for _ in range(_LOOKS_MAX):
        while todo:
            try:
                yield from decoded(
                    todo[0], selection, damaged, part.limits, places.files
                )
            except SplitGone as gone:
                todo[:1] = _found_again(gone, todo[0], part, options, places)
                break
            todo.pop(0)
        else:
            return
    raise KestrelError(
        f"{part.split.path}: its journal is rewritten faster than it can be read. Read a backup of "
        "it (kestrelpy backup), or when less is written."
    )


def _found_again(
    gone: SplitGone, split: Split, part: ReadPart, options: Options, places: Places
) -> list[Split]:
    """Return where the records of a split are now.

    Records that are nowhere are lost, or, in a read of items, were confirmed meanwhile.
    """
    from kestrelpy.spark.files.plan_events import look_again

    if split.live_items is not None:
        # Items that are nowhere were confirmed since, unless the whole journal is gone.
        found, _ = look_again(gone, split, part.folders, places.files)
        if not found and not any(map(places.is_folder, part.folders)):
            _lost([str(gone)], options)
        return found
    found, missing = look_again(gone, split, part.folders, places.files)
    if missing:  # perhaps archived, in a folder that had no file of the journal before
        found, missing = look_again(gone, split, places.folders(), places.files)
    if missing:
        _lost([str(gone)], options)
    return found


def _of_ops(batch: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    """Return the events of the kinds that the query asks for."""
    ops = options.wanted.ops
    if ops is None or options.mode != "events" or "op" not in batch.schema.names:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc

    return batch.filter(pc.is_in(batch.column("op"), pa.array(sorted(ops), pa.string())))


# -- both ----------------------------------------------------------------------------------


def _lost(losses: Sequence[str], options: Options) -> None:
    """Raise KestrelError for missing data, or log it with failOnDataLoss=false."""
    if options.fail_on_data_loss:
        more = len(losses) - _NAMED_MAX
        named = "; ".join(losses[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
        raise KestrelError(
            f"Data is missing: {named}. Mend or restore it, or say failOnDataLoss=false to read "
            "what is there."
        )
    for each in losses:
        log.warning("Data is missing: %s", each)
