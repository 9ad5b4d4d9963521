"""Where copies of several journals must end, so that an item that moves between them is in one.

    copy of jobs   | ... PUT 7 ......................... MOVED 7 to done:3 |
    copy of done   | ............ |   its end: too early for    PUT 3

A move puts the item in its target, and once that is on disk, MOVED ends it in its source. So what a
kill leaves at one moment has the item on one side at least. Copies that were read at different
moments may have MOVED without the put: the item is in neither. Then the copy of the source ends
earlier, before that MOVED. That may take away a put which another MOVED needs, so this goes on
until every MOVED has its put.

Why no copy ends too early: all copies are made, and then each is extended by the records written
since. At the moment between, each MOVED had its put. So no copy has to end before that moment, and
what the copies had before they were extended stays.

One rule: a move whose put is not known to be there counts as a move without its put.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from journal.files import Files
from journal.format import (
    COMPACTED,
    FILE_HEADER_BYTES,
    GONE,
    Checkpoint,
    Kind,
    Record,
    segment_number,
    target_of,
)
from journal.read import Frames, Hole

Journal = tuple[bytes, int]  # a queue's name and generation


class End(NamedTuple):
    """The end of a copy: in its newest segment with a record, after the record of this lsn."""

    segment: str
    lsn: int


NOTHING: Final = End("", 0)


class Move(NamedTuple):
    """An item that ended here, because it is `item` of another journal now. `target` None: not
    known."""

    target: Journal | None
    item: int


@dataclass(slots=True)
class BatchFacts:
    """Records that were written at once: their file, the last lsn, the end in the file, the first
    and the last item put (0: none), and the items that moved away. `is_deletion`: the queue was
    deleted, its children stay.
    """

    segment: str
    lsn: int = 0
    end: int = 0
    first_put: int = 0
    last_put: int = 0
    moves: list[Move] = field(default_factory=list)
    is_deletion: bool = False

    def take(self, record: Record) -> None:
        """Add the next record."""
        self.lsn, self.end = record.lsn, record.end
        if record.kind == Kind.PUT:
            self.first_put, self.last_put = self.first_put or record.item, record.item
        elif record.kind == Kind.MOVED:
            there = target_of(record.meta)
            known = (there.queue.partition(b"+")[0], there.generation) if there else None
            self.moves.append(Move(known, there.item if there else 0))
        elif record.kind == Kind.READER and not record.reader:
            self.is_deletion |= record.small == GONE


@dataclass(slots=True)
class Tail:
    """The records that a copy got when it was extended.

    `next_item` is the next item before that (0: not known); the copy ended in `segment` at `start`.
    `is_whole`: no record between is missing. `is_new`: the journal had no copy before, and all of
    it is here.
    """

    journal: Journal = (b"", 0)
    next_item: int = 0
    segment: str = ""
    start: int = FILE_HEADER_BYTES
    batches: list[BatchFacts] = field(default_factory=list)
    is_whole: bool = True
    is_new: bool = False

    def next_after(self, count: int) -> int:
        """Return the number above all items put in the first `count` batches; 0: not known."""
        for batch in reversed(self.batches[:count]):
            if batch.last_put:
                return batch.last_put + 1
        return self.next_item

    def end_after(self, count: int) -> tuple[str, int]:
        """Return the segment, and the place in it, where the first `count` batches end."""
        if not count:
            return self.segment, self.start
        return self.batches[count - 1].segment, self.batches[count - 1].end


def end_of(files: Files, folder: str) -> End:
    """Return where a copy ends."""
    for name in reversed(files.names(folder)):
        if segment_number(name) is None:
            continue
        frames = Frames(files, os.path.join(folder, name))
        opening = _opening(name, frames)
        if opening is not None:
            lsn = opening.lsn - 1
            for batch in _batches(name, frames):
                lsn = batch.lsn
            return End(name, lsn)
    return NOTHING


def tail_of(files: Files, folder: str, before: End) -> Tail:
    """Return the records of this copy after its earlier end (NOTHING: it had none: all is new)."""
    tail = Tail(segment=before.segment, is_new=not before.segment)
    first = segment_number(before.segment) or 0
    expected = 0 if before.segment else 1
    for name in files.names(folder):
        if (segment_number(name) or -1) < first:
            continue
        frames = Frames(files, os.path.join(folder, name))
        opening = _opening(name, frames)
        if opening is None:
            continue
        tail.is_whole &= opening.lsn == expected if expected else name == before.segment
        expected = _add(tail, name, frames, opening, before)
    if not tail.next_item:  # no put before is known from these segments
        tail.next_item = next((each.first_put for each in tail.batches if each.first_put), 0)
    return tail


def _add(tail: Tail, name: str, frames: Frames, opening: Record, before: End) -> int:
    """Add a segment to a tail; return the lsn that follows."""
    if opening.kind == Kind.CHECKPOINT:
        state = Checkpoint.from_record(opening)
        tail.journal = (state.name, state.generation)
        # Its state may be ahead of its position.
        if not tail.next_item and not tail.batches and state.as_of < opening.lsn:
            tail.next_item = state.next_item
    if name == before.segment:
        tail.start = opening.end
    expected = opening.lsn
    for batch in _batches(name, frames):
        expected = batch.lsn + 1
        if batch.lsn > before.lsn:
            tail.batches.append(batch)
            continue
        tail.start = batch.end
        if batch.last_put:
            tail.next_item = batch.last_put + 1
    return expected


def _opening(name: str, frames: Frames) -> Record | None:
    """Return the first record of a segment of the log; None: it has none."""
    header = frames.header
    if header is None or header.role == COMPACTED or header.segment != segment_number(name):
        return None
    return frames.record(FILE_HEADER_BYTES)


def _batches(name: str, frames: Frames) -> Iterator[BatchFacts]:
    """Yield the batches of a segment; one that is being written only if something follows it."""
    end, batch = 0, None
    for found in frames.walk():
        if isinstance(found, Hole) or found.kind == Kind.CHECKPOINT:
            continue
        if found.kind == Kind.BATCH:
            if batch is not None:
                yield batch  # it is damaged
            end, batch = found.offset + found.item, None
            continue
        batch = batch or BatchFacts(name)
        batch.take(found)
        if found.end == end:
            yield batch
            batch = None


def ends(tails: Mapping[str, Tail], later: Collection[Journal]) -> dict[str, int] | None:
    """Return how many batches of each tail stay; None: no such end is known.

    Journals that were made `later` than all tails have no copy. A target without a journal is in
    memory, or was deleted meanwhile: its items went with it.
    """
    kept = {name: len(tail.batches) for name, tail in tails.items()}
    names = {tail.journal: name for name, tail in tails.items()}

    def has_put(move: Move, source: Journal) -> bool:
        if move.target is None:
            return False
        if move.target == source:
            return True  # one log has both
        name = names.get(move.target)
        if name is None:
            return move.target not in later
        return move.item < tails[name].next_after(kept[name])

    moving = [name for name, tail in tails.items() if any(each.moves for each in tail.batches)]
    is_stable = False
    while not is_stable:  # each time one copy at least ends earlier
        is_stable = True
        for name in moving:
            tail = tails[name]
            for at, batch in enumerate(tail.batches[: kept[name]]):
                lost = [move for move in batch.moves if not has_put(move, tail.journal)]
                if not lost:
                    continue
                if tail.is_new or any(move.target is None for move in lost):
                    return None
                kept[name], is_stable = at, False
                break
    return kept
