"""What a journal says is there, by other means than adding up its records.

    a snapshot (the daemon's memory, written down) + the few records behind it, as a start reads
    them ──▶ the items that are there, and which of them are dead
    the checkpoint that a segment opens with ──▶ how many were there at that moment

The audit adds up records; this is what the sum is held against. Needs neither Spark nor a server,
and runs on executors, a folder at a time.

One rule: what is there is asked first. What the records say is read afterwards and cut at the same
lsn, so that a daemon may go on writing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from journal.errors import Damage, JournalError
from journal.files import Disk, Files
from journal.format.checkpoint import Checkpoint
from journal.format.folder import journal_folders
from journal.format.kinds import Kind
from journal.format.record import decode
from journal.format.segment import COMPACTED, FILE_HEADER_BYTES, SUFFIX, SegmentHeader
from journal.format.subscription_state import Beginning
from journal.sets.id_counts import PAGE_IDS
from journal.sets.id_set import IdSet
from journal.snapshot.snapshot import snapshot_lsn
from journal.tools.live_set import LiveSet
from journal.tools.verify import StartView
from kestrelpy.spark.files.split import Range
from kestrelpy.spark.jobs.common import events as ev
from kestrelpy.spark.jobs.common.retention import missing_retained

_FRONT_BYTES: Final = 2048  # holds any segment's header and opening record
_SNAPSHOTS: Final = 2  # kept by a journal; what it may do without lies below the older


@dataclass(frozen=True, slots=True)
class Opening:
    """The checkpoint that a segment of the log opens with: `live` items as of the lsn `as_of`."""

    identity: str
    segment: int
    lsn: int
    as_of: int
    next_item: int
    live: int


@dataclass(frozen=True, slots=True)
class JournalState:
    """What a start of the daemon would find in one folder, up to `lsn_last`: of one reader there.

    `runs` are the items that are there as first and last, u64 pairs; `dead` those of them that are
    dead. `reclaimed_lsn`: behind it nothing of the log may be missing. `known`: the items are those
    that are there; False when a record's effect cannot be told by this version. `reader`: 0, or the
    number of a child, whose `queue` has its full name; `begun` are the items that it was named
    with in `named_lsn`, `begun_apart` those of them whose marker is no id. `retained_missing`: see
    `retained`.
    `passes_on`: its own line does not take all that is put, or did not.
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
    begun_apart: tuple[int, ...] = ()
    passes_on: bool = False
    retained_missing: tuple[Range, ...] = ()

    @property
    def jid(self) -> int:
        """Its number (`events.jid_of`)."""
        return ev.line_of(ev.jid_of(bytes.fromhex(self.identity)), self.reader)

    @property
    def name(self) -> str:
        """For people: the queue with its server."""
        return f"{self.queue} on {self.server or 'an unnamed server'}"


def journals_in(files: Files, folders: Sequence[str]) -> list[str]:
    """Every folder with a journal in it; raises JournalError where one cannot be listed."""
    found: dict[str, None] = {}
    for folder in folders:
        found.update(dict.fromkeys(map(os.path.abspath, journal_folders(files, folder))))
    return list(found)


def read_states(folder: str, files: Files | None = None) -> list[JournalState]:
    """What is there, of each reader; a daemon may be writing. Raises JournalError."""
    files = files or Disk()
    view, live_set = StartView(files, folder, live=True), LiveSet()
    begun: dict[int, tuple[bytes, tuple[int, ...]]] = {}
    passes_on = False
    try:
        for record in live_set.follow(view):
            passes_on = passes_on or (record.kind == Kind.READER and not record.reader)
            if record.kind == Kind.READER and (begins := Beginning.decode(record)) is not None:
                begun[record.reader] = begun_with(begins)
        reclaimed = older_snapshot(folder, files)
    except OSError as error:
        raise JournalError(f"{error.filename or folder}: {error.strerror or error}") from error
    missing = missing_retained(files or Disk(), folder, view.snapshot, reclaimed)
    passes_on = passes_on or (view.snapshot is not None and view.snapshot.passes_on)
    made = []
    for number, line in live_set.lines.items():
        name = view.name + b"+" + line.name if number else view.name
        dead = tuple(sorted(each for each in line.dead if each in line.items))
        made.append(JournalState(
            folder, view.identity.hex(), _text(view.checkpoint.server if view.checkpoint else b""),
            _text(name), view.generation, view.lsn_next - 1, runs_of(line.items),
            len(line.items), dead, live_set.known,
            view.snapshot.lsn if view.snapshot is not None else 0, reclaimed,
            () if number else tuple(view.damages), number, line.named_lsn,
            *begun.get(number, (b"", ())), passes_on, () if number else missing,
        ))  # fmt: skip
    return made


def begun_with(begins: Beginning | None) -> tuple[bytes, tuple[int, ...]]:
    """What a child was named with, and what of that is apart, as `JournalState` has them."""
    if begins is None:
        return b"", ()
    apart = {e.item for e in begins.placed} | {e.item for e in begins.delayed}
    return runs_of(begins.live), tuple(sorted(apart))


def older_snapshot(folder: str, files: Files | None = None) -> int:
    """The lsn up to which segments may have gone from the middle of the log; 0: none may."""
    names = (files or Disk()).names(folder)
    lsns = sorted(lsn for name in names if (lsn := snapshot_lsn(name)) is not None)[-_SNAPSHOTS:]
    return lsns[0] if len(lsns) == _SNAPSHOTS else 0


def read_openings(folder: str, files: Files | None = None) -> tuple[list[Opening], set[str]]:
    """The openings of all segments in one folder, an archive too, and its survivors.

    Survivors are named `<identity>:<segment>`: holes between their records are none.
    """
    files = files or Disk()
    found: list[Opening] = []
    survivors: set[str] = set()
    for name in files.names(folder):
        if not name.endswith(SUFFIX):
            continue
        path = os.path.join(folder, name)
        try:
            front = files.read(path, 0, _FRONT_BYTES)
        except OSError:
            continue  # removed by a daemon meanwhile; what cannot be read is named elsewhere
        header = SegmentHeader.decode(front, path)
        if header is None:
            continue
        identity = header.identity.hex()
        if header.role == COMPACTED:
            survivors.add(f"{identity}:{header.segment}")
            continue
        record = decode(front, FILE_HEADER_BYTES, header.journal, header.segment)
        if record is not None and record.kind == Kind.CHECKPOINT:
            said = Checkpoint.from_record(record)
            found.append(
                Opening(identity, header.segment, record.lsn, said.as_of, said.next_item,
                        said.live_items)
            )  # fmt: skip
    return found, survivors


def runs_of(items: IdSet) -> bytes:
    """Ids as runs: first and last, u64 each, rising."""
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
    """The inverse: first and last of each run."""
    return [(int(a), int(b)) for a, b in np.frombuffer(runs, "<u8").reshape(-1, 2)]


def reliable(openings: Sequence[Opening]) -> list[Opening]:
    """Those of one journal, by lsn, whose counts hold.

    One may count records that were still in memory when its segment was opened. If a crash took
    them, the next segment begins at or below `as_of`, and the count is of what never was.
    """
    ordered = sorted(set(openings), key=lambda each: (each.lsn, each.segment))
    return [
        each
        for each, following in zip(ordered, [*ordered[1:], None], strict=True)
        if each.as_of and (following is None or following.lsn > each.as_of)
    ]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
