"""Journals under paths, from what was asked for to batches: the counterpart of `live`.

    driver     plan:  history  ->  journals that are asked for  ->  pieces, packed
    executor   read:  piece by piece; one that has gone meanwhile is looked for again

One rule: what is missing is an error, or with failOnDataLoss=false a warning; it is never silent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from journal.errors import Damage, JournalError
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.files.split import Limits, Piece, PieceGone
from kestrelpy.spark.offsets import packed, refuse_strangers
from kestrelpy.spark.options import ALL_MARKERS, Options

if TYPE_CHECKING:
    import pyarrow as pa

    from kestrelpy.spark.files.plan import History, Journal
    from kestrelpy.spark.schema import Selection

log = logging.getLogger("kestrelpy.spark")
# A piece that goes again and again while it is looked for is overtaken for good.
_LOOKS_MAX: Final = 10
_NAMED_MAX: Final = 3  # damages in one sentence


@dataclass(frozen=True, slots=True)
class Part:
    """A piece, which of its rows are wanted, and where its journal lay when it was planned."""

    piece: Piece
    limits: Limits
    folders: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many bytes are read."""
        return self.piece.bytes


# -- the driver ----------------------------------------------------------------------------


def plan(options: Options) -> list[list[Part]]:
    """What each partition reads; raises KestrelError."""
    from kestrelpy.spark.files.plan_events import plan_events
    from kestrelpy.spark.files.plan_items import plan_items

    try:
        history = (plan_events if options.mode == "events" else plan_items)(options.path)
    except JournalError as error:
        raise KestrelError(str(error)) from None
    _refuse_unknown(options, history)
    refuse_strangers(options.markers, {j.server for j in history.journals if j.server})
    wanted = [journal for journal in history.journals if _is_wanted(journal, options)]
    losses = [problem.sentence for problem in history.problems if problem.is_loss]
    for journal in wanted:
        losses += [damage.sentence() for damage in journal.damages]
    if losses:
        _lost(losses, options)
    for problem in history.problems:
        if not problem.is_loss:
            log.warning("%s", problem.sentence)
    parts = [
        Part(piece, limits, tuple(journal.folders))
        for journal in wanted
        if (limits := limits_of(journal.server, journal.queue, options)) is not None
        for piece in journal.pieces
        if not limits.excludes(piece)
    ]
    # A segment is read from its front: it cannot be cut, only shared out whole.
    return packed(
        parts, options.max_partition_bytes, options.min_partitions, lambda part, _: [part]
    )


def _is_wanted(journal: Journal, options: Options) -> bool:
    servers = options.wanted.servers
    if servers is not None and journal.server not in servers:
        return False
    return options.chooses(journal.queue)


def limits_of(server: str | None, queue: str, options: Options) -> Limits | None:
    """Which rows of a journal are wanted; None: none of them."""
    names = (server,) if server else ()
    starting = options.starting_markers.of(names, queue)
    ending = options.ending_markers.of(names, queue)
    if starting == "latest" or ending == "earliest":
        return None
    markers = options.wanted.markers
    after = max(starting, markers.after) if isinstance(starting, int) else markers.after
    upto = min(ending, markers.upto) if isinstance(ending, int) else markers.upto
    if upto <= after:
        return None
    # A limit passes over events that are about no item: without one they are read.
    return Limits(
        after if after > ALL_MARKERS.after else None,
        upto if upto < ALL_MARKERS.upto else None,
        options.starting_timestamp_ms,
        options.ending_timestamp_ms,
    )


def _refuse_unknown(options: Options, history: History) -> None:
    there = {journal.queue for journal in history.journals}
    for name in options.queues:
        if name in there or any(sign in name for sign in "*?["):
            continue
        near = get_close_matches(name, there, 1)
        hint = f"Did you mean {near[0]}?" if near else "kestrelpy journal verify lists them."
        raise KestrelError(
            f"No journal of a queue {name} lies in {', '.join(options.path)}. {hint}"
        )


# -- an executor ---------------------------------------------------------------------------


def read(parts: Sequence[Part], selection: Selection, options: Options) -> Iterator[pa.RecordBatch]:
    """The rows of the parts, in order of lsn for each journal; raises KestrelError."""

    def damaged(damage: Damage) -> None:
        _lost([damage.sentence()], options)

    for part in parts:
        for batch in _read_part(part, selection, options, damaged):
            batch = _of_ops(batch, options)
            if batch.num_rows:
                yield batch


def _read_part(
    part: Part, selection: Selection, options: Options, damaged: Callable[[Damage], None]
) -> Iterator[pa.RecordBatch]:
    from kestrelpy.spark.files.decode import read as decoded

    todo = [part.piece]
    for _ in range(_LOOKS_MAX):
        while todo:
            try:
                yield from decoded(todo[0], selection, damaged, part.limits)
            except PieceGone as gone:
                todo[:1] = _found_again(gone, todo[0], part, options)
                break
            todo.pop(0)
        else:
            return
    raise KestrelError(
        f"{part.piece.path}: its journal is rewritten faster than it can be read. Read a backup of "
        "it (kestrelpy backup), or when less is written."
    )


def _found_again(gone: PieceGone, piece: Piece, part: Part, options: Options) -> list[Piece]:
    """Where the records of a piece are now; what is nowhere is lost, or was done meanwhile."""
    from kestrelpy.spark.files.plan_events import look_again

    if piece.held is not None:
        # Items that are nowhere any more were confirmed since; but not if all of it is gone.
        found, _ = look_again(gone, piece, part.folders)
        if not found and not any(os.path.isdir(folder) for folder in part.folders):
            _lost([str(gone)], options)
        return found
    found, missing = look_again(gone, piece, part.folders)
    if missing:  # maybe archived, in a folder where nothing of it lay before
        found, missing = look_again(gone, piece, options.path)
    if missing:
        _lost([str(gone)], options)
    return found


def _of_ops(batch: pa.RecordBatch, options: Options) -> pa.RecordBatch:
    """The events of those kinds that the query compares with."""
    ops = options.wanted.ops
    if ops is None or options.mode != "events" or "op" not in batch.schema.names:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc

    return batch.filter(pc.is_in(batch.column("op"), pa.array(sorted(ops), pa.string())))


# -- both ----------------------------------------------------------------------------------


def _lost(losses: Sequence[str], options: Options) -> None:
    """What is missing is an error, unless that was said to be no matter."""
    if options.fail_on_data_loss:
        more = len(losses) - _NAMED_MAX
        named = "; ".join(losses[:_NAMED_MAX]) + (f"; and {more} more" if more > 0 else "")
        raise KestrelError(
            f"Data is missing: {named}. Mend or restore it, or say failOnDataLoss=false to read "
            "what is there."
        )
    for each in losses:
        log.warning("Data is missing: %s", each)
