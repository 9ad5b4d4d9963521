"""The baseline of an audit: a journal's items by its snapshot and checkpoints, not by a sum.

    a snapshot + the few records after it,       ──▶ the items that are there, and which of them are
    as a start reads them                            dead letters
    the segments that have their bodies          ──▶ which of them cannot be read (`damages`)
    the checkpoint at the front of each segment  ──▶ how many items were there at that moment
    the segments that are left                   ──▶ retained items that went too early

The audit sums up records and compares the sum with this. It needs neither Spark nor a server, and
runs on executors, a folder at a time.

    snapshot   retained 1 to 90; only 7 is still needed
    segments   [ 1 .. 20 ]        gap         [ 41 .. 60 ][ 61 .. 90 ]
               no item in it is needed: while it stays, the segments after it stay

No record says how long a queue retains done items, but segments go oldest first; a segment with an
item that is needed may stay longer. So the queue did not make a gap after a segment that stays only
by retention. Only a segment without a needed item, as of the older snapshot, shows that retention
was not over for the segments after it.

One rule: the baseline is read first. The records are read afterwards and cut at the same lsn, so
that a daemon may go on writing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from journal.errors import Damage, JournalError
from journal.files import Disk, Files
from journal.format import (
    COMPACTED,
    FILE_HEADER_BYTES,
    SUFFIX,
    Beginning,
    Checkpoint,
    Kind,
    SegmentHeader,
    decode,
    journal_folders,
)
from journal.recovery import LiveSet
from journal.sets import PAGE_IDS, IdSet
from journal.snapshot import Snapshot, SnapshotDamaged, snapshot_lsn, snapshot_name
from journal.tools import StartView
from kestrelpy.spark.files import Range, Split, plan_events
from kestrelpy.spark.jobs.common import events as ev

_FRONT_BYTES: Final = 2048  # holds any segment's header and opening record
_SNAPSHOTS: Final = 2  # that a journal has; it may drop segments below the older one


@dataclass(frozen=True, slots=True)
class Opening:
    """The checkpoint at the front of a segment: `live` items as of the lsn `as_of`."""

    identity: str
    segment: int
    lsn: int
    as_of: int
    next_item: int
    live: int


@dataclass(frozen=True, slots=True)
class JournalState:
    """The state of one reader in a folder, up to `lsn_last`, as a start of the daemon finds it.

    - `runs`: the items that are there, as u64 pairs of first and last.
    - `dead`: the dead letters among them.
    - `known`: False if this version does not know the effect of a record.
    - `reclaimed_lsn`: after it no record of the log may be missing.
    - `reader`: 0, or the number of a child; then `queue` is its full name.
    - `begun`: the items with which the child began at `named_lsn`.
    - `begun_out_of_order`: those of them whose marker is not their id.
    - `retained_missing`: see `missing_retained`.
    - `passes_on`: the queue's own consumers do not, or did not always, get new items.
    """

    folder: str
    identity: str
    server: str
    queue: str
    generation: int
    lsn_last: int
    runs: bytes
    count: int
    dead: tuple[int, ...]
    known: bool
    snapshot_lsn: int
    reclaimed_lsn: int
    damages: tuple[Damage, ...]
    reader: int = 0
    named_lsn: int = 0
    begun: bytes = b""
    begun_out_of_order: tuple[int, ...] = ()
    passes_on: bool = False
    retained_missing: tuple[Range, ...] = ()

    @property
    def jid(self) -> int:
        """The number of the journal or child (`events.jid_of`)."""
        return ev.reader_jid(ev.jid_of(bytes.fromhex(self.identity)), self.reader)

    @property
    def name(self) -> str:
        """The queue with its server, for people."""
        return f"{self.queue} on {self.server or 'an unnamed server'}"


def journals_in(files: Files, folders: Sequence[str]) -> list[str]:
    """Return every folder with a journal. Raises JournalError if one cannot be listed."""
    found: dict[str, None] = {}
    for folder in folders:
        found.update(dict.fromkeys(map(os.path.abspath, journal_folders(files, folder))))
    return list(found)


def read_states(folder: str, files: Files | None = None) -> list[JournalState]:
    """Return the state of each reader; a daemon may be writing. Raises JournalError."""
    files = files or Disk()
    view, account = StartView(files, folder), LiveSet()
    begun: dict[int, tuple[bytes, tuple[int, ...]]] = {}
    passes_on = False
    try:
        for record in account.follow(view):
            passes_on = passes_on or (record.kind == Kind.READER and not record.reader)
            if record.kind == Kind.READER and (begins := Beginning.decode(record)) is not None:
                begun[record.reader] = begun_with(begins)
        # Where ids alone do not tell which items are live, none of them is known to be needed.
        bodies = view.bodies(account.needed() if account.known else IdSet())
        bodies.run(files, view.damages)
        reclaimed = older_snapshot(folder, files)
    except OSError as error:
        raise JournalError(f"{error.filename or folder}: {error.strerror or error}") from error
    missing = missing_retained(files or Disk(), folder, view.snapshot, reclaimed)
    passes_on = passes_on or (view.snapshot is not None and view.snapshot.passes_on)
    made = []
    for number, line in account.lines.items():
        name = view.name + b"+" + line.name if number else view.name
        dead = tuple(sorted(each for each in line.dead if each in line.items))
        made.append(JournalState(
            folder, view.identity.hex(), _text(view.checkpoint.server if view.checkpoint else b""),
            _text(name), view.generation, view.lsn_next - 1, runs_of(line.items),
            len(line.items), dead, account.known,
            view.snapshot.lsn if view.snapshot is not None else 0, reclaimed,
            () if number else (*view.damages, *bodies.damages), number, line.named_lsn,
            *begun.get(number, (b"", ())), passes_on, () if number else missing,
        ))  # fmt: skip
    return made


def begun_with(begins: Beginning | None) -> tuple[bytes, tuple[int, ...]]:
    """Return `begun` and `begun_out_of_order` of a `JournalState`."""
    if begins is None:
        return b"", ()
    out_of_order = {e.item for e in begins.placed} | {e.item for e in begins.delayed}
    return runs_of(begins.live), tuple(sorted(out_of_order))


def older_snapshot(folder: str, files: Files | None = None) -> int:
    """Return the lsn up to which segments in the middle of the log may have gone; 0: none."""
    names = (files or Disk()).names(folder)
    lsns = sorted(lsn for name in names if (lsn := snapshot_lsn(name)) is not None)[-_SNAPSHOTS:]
    return lsns[0] if len(lsns) == _SNAPSHOTS else 0


def read_openings(folder: str, files: Files | None = None) -> tuple[list[Opening], set[str]]:
    """Return the openings of all segments in a folder or archive, and its compacted segments.

    A compacted segment is named `<identity>:<segment>`: lsns between its records are not lost.
    """
    files = files or Disk()
    found: list[Opening] = []
    compacted: set[str] = set()
    for name in files.names(folder):
        if not name.endswith(SUFFIX):
            continue
        path = os.path.join(folder, name)
        try:
            front = files.read(path, 0, _FRONT_BYTES)
        except OSError:
            continue  # removed by a daemon meanwhile; other errors are reported by the read
        header = SegmentHeader.decode(front, path)
        if header is None:
            continue
        identity = header.identity.hex()
        if header.role == COMPACTED:
            compacted.add(f"{identity}:{header.segment}")
            continue
        record = decode(front, FILE_HEADER_BYTES, header.journal, header.segment)
        if record is not None and record.kind == Kind.CHECKPOINT:
            said = Checkpoint.from_record(record)
            found.append(
                Opening(identity, header.segment, record.lsn, said.as_of, said.next_item,
                        said.live_items)
            )  # fmt: skip
    return found, compacted


def runs_of(items: IdSet) -> bytes:
    """Return ids as runs: first and last, u64 each, rising."""
    ranges, pages = items.encode()
    whole = np.frombuffer(ranges, "<u8").reshape(-1, 2)
    runs = [whole[whole[:, 0] <= whole[:, 1]]]
    width = 8 + PAGE_IDS // 8
    for at in range(0, len(pages), width):
        page = int.from_bytes(pages[at : at + 8], "little")
        bits = np.unpackbits(np.frombuffer(pages, "u1", width - 8, at + 8), bitorder="little")
        edges = np.flatnonzero(np.diff(np.concatenate(([0], bits, [0])).astype("i1")))
        pairs = edges.reshape(-1, 2).astype("u8") + np.uint64(page * PAGE_IDS)
        pairs[:, 1] -= np.uint64(1)
        runs.append(pairs)
    together = np.concatenate(runs)
    together = together[np.argsort(together[:, 0], kind="stable")]
    return together.astype("<u8").tobytes()


def pairs_of(runs: bytes) -> list[tuple[int, int]]:
    """Return first and last of each run."""
    return [(int(a), int(b)) for a, b in np.frombuffer(runs, "<u8").reshape(-1, 2)]


def reliable(openings: Sequence[Opening]) -> list[Opening]:
    """Return the openings of one journal, by lsn, whose counts hold.

    An opening may count records that were still in memory when its segment was opened. If a crash
    lost them, the next segment begins at or below `as_of`, and the count is wrong.
    """
    ordered = sorted(set(openings), key=lambda each: (each.lsn, each.segment))
    return [
        each
        for each, following in zip(ordered, [*ordered[1:], None], strict=True)
        if each.as_of and (following is None or following.lsn > each.as_of)
    ]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def missing_retained(
    files: Files, folder: str, newest: Snapshot | None, older_lsn: int
) -> tuple[Range, ...]:
    """Return done items that the `newest` snapshot retains and whose segments are missing.

    `older_lsn`: of the snapshot before it; 0: there is none, so segments go only from the front.
    """
    if newest is None or newest.retained is None or not older_lsn:
        return ()
    path = os.path.join(folder, snapshot_name(older_lsn))
    try:
        needed = Snapshot.decode(files.read(path), path).needed()
    except (SnapshotDamaged, OSError):
        return ()
    history = plan_events([folder], files)
    splits = [p for journal in history.journals for p in journal.splits if p.item_first]
    first = next((p.item_last for p in splits if _stays(p, needed, older_lsn)), 0)
    done, found = newest.retained.without(newest.needed()), []
    for low_lsn, high_lsn in (gap for journal in history.journals for gap in journal.lsn_gaps):
        before = [p.item_last for p in splits if p.lsn_last < low_lsn]
        after = [p.item_first for p in splits if p.lsn_first > high_lsn]
        if not first or not before or not after:
            continue
        gone = [*done.between(max(*before, first) + 1, min(after) - 1)]
        if gone:
            found.append((gone[0], gone[-1]))
    return tuple(found)


def _stays(split: Split, needed: IdSet, older_lsn: int) -> bool:
    """True if the segment could have gone, and stays only for its done items."""
    is_settled = not split.is_compacted and split.lsn_last <= older_lsn
    return is_settled and not needed.count_between(split.item_first, split.item_last)
