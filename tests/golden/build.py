"""The golden journals: small, fixed to the byte, one folder per format version.

    v1/...                 what version 1 wrote; never changed, still read
    v2/...                 what version 2 wrote: the same
    v3/...                 what version 3 wrote: the same
    v4/...                 what version 4 wrote: the same
    v5/...                 what version 5 wrote: the same
    v6/...                 what version 6 wrote: the same
    v7/...                 what version 7 wrote: the same
    v8/jobs.1              what this version writes: compacted, two sealed segments, a recycled one
                           whose end is torn, two snapshots
    v8/delays.1            and of what is delayed and released (`delays`)
    v8/keys.1              and of keys (`keys`)
    v8/moves.1             and of what is moved (`moves`)
    v8/handed.1            and of what is handed off (`handed`)
    v8/leaving.1           and of what leaves for another server (`leaving`)
    v8/readers.1           and of fan-out children (`readers`)
    v8/once.1              and of ids, scopes and versions, with their chunks (`once`)
    v8/retained.1          and of what is retained (`retained`)
    v8/clients.1           and of metadata, clients and lives (`clients`)
    v8/again.1             and of a queue that is deleted and made again (`made_again`)
    v8/%4Fp%2Baudit.3      every kind that is reserved and every meta tag (the queue `Op+audit`)
    v8/dump.txt, v8/verify.txt   what `python -m journal` says of them

`python -m tests.golden.build` writes the newest anew, which is right only together with a new
format version (FORMAT.md, "Changing the format"): a golden journal is never changed afterwards.
One rule: no clock, no randomness, no environment.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

from journal.__main__ import main as journal_main
from journal.files import Disk
from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.lease import LeaseEntry
from journal.format.meta import Meta, ended
from journal.format.record import Draft
from journal.format.segment import Tally
from journal.format.subscription_state import DeadEntry
from journal.sets.id_counts import IdCounts
from journal.snapshot.dedupe_file import write_chunk
from journal.snapshot.snapshot import SegmentState, Snapshot, snapshot_name
from tests.golden.clients import clients
from tests.golden.delays import delays
from tests.golden.handed import handed
from tests.golden.keys import keys
from tests.golden.layout import (
    IDENTITY,
    SERVER,
    SHORT_IDENTITY,
    TIME_MS,
    SegmentBuilder,
    draft,
    ids,
)
from tests.golden.leaving import leaving
from tests.golden.made_again import made_again
from tests.golden.moves import moves
from tests.golden.once import Remembered, once
from tests.golden.readers import readers
from tests.golden.retained import retained
from tests.golden.schedules import schedules

GOLDEN = Path(__file__).parent
# By a running clock that is a day ahead of the wall clock.
DAY_ON = TIME_MS + 86_400_000 + 120_000


def example() -> SegmentBuilder:
    """The worked example of FORMAT.md: an item stored and confirmed, in a sealed segment."""
    opening = Checkpoint(name=b"jobs", server=b"s1", generation=1)
    segment = SegmentBuilder(capacity=1024, checkpoint=opening)
    segment.batch(
        draft(Kind.PUT, 1, 1, 5, b"hello", {Tag.EXPIRES_MS: TIME_MS + 60_000}),
        draft(Kind.DONE, 1, TIME_MS + 1, ended(1, 5)[0], time_ms=TIME_MS + 2),
    )
    segment.seal(live=0)
    return segment


def jobs() -> list[SegmentBuilder | Snapshot]:
    """The records of every queue. The compacted segment 5 replaces segments 1 and 2."""
    first = SegmentBuilder(1, 2048, 1, Checkpoint(name=b"jobs", server=SERVER, generation=1))
    first.batch(
        draft(Kind.PUT, 1, 1, 0, b"hello"),
        draft(Kind.PUT, 2, 2, 0xFFFFFFFF, bytes(range(20)), {Tag.EXPIRES_MS: TIME_MS + 3_600_000}),
        draft(Kind.PUT, 3, 3, 0, b""),
        draft(Kind.DONE, 1, TIME_MS + 5, ended(1, 5)[0], time_ms=TIME_MS + 9),
    )
    first.seal(live=2)
    survivors = SegmentBuilder(
        5, 2048, 1, Checkpoint(name=b"jobs", server=SERVER, generation=1), first=1, last=2
    )
    survivors.batch(
        draft(Kind.PUT, 2, 2, 0xFFFFFFFF, bytes(range(20)), {Tag.EXPIRES_MS: TIME_MS + 3_600_000}),
        *(draft(Kind.PUT, n, n, 0, b"item %d" % n, time_ms=TIME_MS + 1000 + n) for n in (5, 6, 8)),
        synced=15, lsns=(2, 6, 7, 9),
    )  # fmt: skip
    survivors.lsn = 16
    survivors.seal(live=4)
    opening = Checkpoint(b"jobs", 9, 9, 1 << 20, 8, 4, 1, SERVER, as_of=15)
    third = SegmentBuilder(3, 2048, 16, opening, time_ms=TIME_MS + 2000)
    older = Snapshot(
        15, 3, third.at, opening, ids(2, 5, 6, 8), 38, IdCounts(), [],
        [SegmentState(1, 1, 3, 1, 20), SegmentState(2, 4, 8, 3, 18)], Tally(),
    )  # fmt: skip
    third.batch(
        draft(Kind.TOKENS, number=1 << 21),
        draft(Kind.PUT, 9, 9, 0, "größer".encode()),
        draft(Kind.PUT, 10, 10, 0, b"ten", {Tag.EXPIRES_MS: TIME_MS + 3000}),
        draft(Kind.RETURNED, 9, TIME_MS + 6, 1, meta={Tag.REASON: b"abort"}),
        synced=15,
    )
    third.seal(live=2)
    opening = Checkpoint(b"jobs", 11, 11, 1 << 21, 10, 6, 1, SERVER, as_of=19)
    token, minute = 1 << 20, 60_000
    leased = LeaseEntry(5, token, 1, TIME_MS + 3002, 6, TIME_MS + 3002, TIME_MS + minute)
    renewed = leased.until(TIME_MS + 3004, TIME_MS + 2 * minute, runs_ms=DAY_ON)
    other = LeaseEntry(
        6, token + 1, 1, TIME_MS + 3003, 6, TIME_MS + 3003, TIME_MS + 3003 + minute, b"", 0,
        DAY_ON - minute,
    )
    declared = b'lease = "5m"\n'
    fourth = SegmentBuilder(4, 4096, third.lsn, opening, time_ms=TIME_MS + 3000)
    died: Meta = {Tag.REASON: b"lease", Tag.BYTES: 20}
    written = fourth.batch(
        *(draft(Kind.PUT, n, n, 0, b"item %d" % n, time_ms=TIME_MS + 3000 + n) for n in (11, 12)),
        draft(Kind.DEAD, 2, TIME_MS + 11, 2, meta=died, time_ms=TIME_MS + 3001),
        leased.leased(),
        other.leased(),
        renewed.renewal(),
        draft(Kind.PAUSED, small=1, time_ms=TIME_MS + 3005),
        draft(Kind.DECLARED, body=declared, time_ms=TIME_MS + 3006),
        synced=19,
    )
    tally = Tally()
    tally.see_all(written)
    attempts = IdCounts()
    attempts.set(2, 2)
    attempts.set(9, 1)
    newest = Snapshot(
        27, 4, fourth.at, Checkpoint(b"jobs", 13, 13, 1 << 21, 12, 8, 1, SERVER, as_of=27),
        ids(2, 5, 6, 8, 9, 10, 11, 12), 63, attempts,
        [DeadEntry(2, 1, 2, b"lease", TIME_MS + 3001, 20)],
        [SegmentState(5, 2, 8, 4, 38), SegmentState(3, 9, 10, 2, 11)], tally,
        [renewed, other],
        [draft(Kind.PAUSED, small=1), draft(Kind.DECLARED, body=declared)],
    )  # fmt: skip
    small, large = ended(300, 1 << 24)
    fourth.batch(
        draft(Kind.EXPIRED, 10, 0, ended(0, 3)[0], time_ms=TIME_MS + 3002),
        draft(Kind.DISCARDED, 8, 0, ended(0, 6)[0], time_ms=TIME_MS + 3003),
        # As of a body of 16 MiB that was delivered 300 times.
        Draft(Kind.DONE, 12, TIME_MS, small, TIME_MS + 3004, large, b"", 0, 0),
        draft(Kind.CANCELLED, 9, meta={Tag.REASON: b"cancelled", Tag.BYTES: 8}),
        draft(Kind.PAUSED, time_ms=TIME_MS + 3005),
        other._replace(since_ms=TIME_MS + 3006, deadline_ms=TIME_MS + 3 * minute).renewal(),
        # A wall clock that was set back: times need not rise with the log.
        draft(Kind.FLUSHED, 11, 32, 0, struct.pack("<2Q", 5, 6), time_ms=TIME_MS + 500),
        synced=27,
    )
    fourth.seal(live=0)
    opening = Checkpoint(b"jobs", 13, 13, 1 << 21, 12, 3, 1, SERVER, as_of=34)
    sixth = SegmentBuilder(
        6, 2048, fourth.lsn, opening, time_ms=TIME_MS + 4000, life=bytes(first.data)
    )
    sixth.batch(draft(Kind.PUT, 13, 13, 0, b"on disk"), synced=34)
    sixth.batch(draft(Kind.PUT, 14, 14, 0, b"kept: the next start puts it on disk"), synced=35)
    before = bytes(sixth.data)
    sixth.batch(draft(Kind.PUT, 15, 15, 0, b"torn: half of it reached the disk"), synced=35)
    sixth.data[sixth.at - 24 :] = before[sixth.at - 24 :]
    return [survivors, third, fourth, sixth, older, newest]


def planned() -> list[SegmentBuilder | Snapshot]:
    """Every kind that is reserved, and every tag, in the shape FORMAT.md gives them."""
    opening = Checkpoint(b"Op+audit", 1, 1, 1, 0, 0, 3, SERVER)
    one = SegmentBuilder(1, 8192, 1, opening)
    key = b"\x01\x00\x00\x00A"
    whole: Meta = {
        Tag.EXPIRES_MS: TIME_MS + 1, Tag.KEY: key, Tag.ID: b"id-1", Tag.SCOPE: b"scope",
        Tag.EPOCH: 7, Tag.VERSION: 3, Tag.ORIGIN: b"server-2:jobs:17", Tag.GENERATION: 2,
        Tag.CLIENT: b"3381af92-2b9e-11e3-b191-71861300734c", Tag.PREVIOUS: 1,
    }  # fmt: skip
    target: Meta = {Tag.TARGET: b"server-1:later:5", Tag.GENERATION: 1}
    one.batch(
        draft(Kind.READER, 0, 0, 0, meta={Tag.NAME: b"audit"}, reader=1),
        draft(Kind.DECLARED, body=b'lease = "5m"\n'),
        draft(Kind.PUT, 1, 1, 0, b"with everything", whole),
        draft(Kind.PUT, 2, 0, 0, b"later", {Tag.DUE_MS: TIME_MS + 90_000}),
        draft(Kind.PUT, 3, 2, 0, b"for the child alone", reader=1),
        draft(Kind.RELEASED, 2, 3),
        draft(Kind.LEASED, 1, 77, 1, meta={Tag.DEADLINE_MS: TIME_MS + 60_000, Tag.BYTES: 15}),
        draft(Kind.RENEWED, 1, 77, meta={Tag.DEADLINE_MS: TIME_MS + 120_000}),
        draft(Kind.UPTO, 0, 2, reader=1),
        draft(Kind.SETTLED, 1, meta={Tag.ORIGIN: b"server-2:jobs:17", Tag.GENERATION: 2}),
        draft(Kind.MOVING, 2, meta=target),
        draft(Kind.MOVED, 2, meta=target),
        draft(Kind.PAUSED, small=1),
    )
    since: Meta = {Tag.MARKER: 1, Tag.STORED_MS: TIME_MS - 1000}
    delayed: Meta = {Tag.DUE_MS: TIME_MS + 2, Tag.ATTEMPTS: 4, **since}
    lent: Meta = {Tag.TOKEN: 77, Tag.DEADLINE_MS: TIME_MS + 3, Tag.PLACE: 9, **since}
    dead: Meta = {
        Tag.ATTEMPTS: 4, Tag.REASON: b"lease", Tag.FIRST_MS: TIME_MS, **since,
        Tag.DEAD_MS: TIME_MS + 4,
    }  # fmt: skip
    ends = struct.pack("<QQIIQQII", 4, TIME_MS, 1, 0, 5, TIME_MS + 1, 2, 0)
    one.batch(
        draft(Kind.REDRIVEN, 1, 4),
        draft(Kind.CARRIED, 1, 9, 5, b"with everything", whole | since),
        draft(Kind.CARRIED, 6, 0, 5, b"delayed", delayed),
        draft(Kind.CARRIED, 7, 10, 5, b"lent", lent),
        draft(Kind.CARRIED, 8, 10, 5, b"dead", dead),
        draft(Kind.CANCELLED, 3, meta={Tag.REASON: b"purged"}),
        draft(Kind.DONE_MANY, 0, 0, 2, ends),
        draft(Kind.IDS, 0, TIME_MS, 1, bytes(24)),
        draft(Kind.KEYS, 0, 0, 1, bytes(32), {Tag.SYNCED: 13}),
        draft(Kind.OPEN, 1, meta={Tag.ORIGIN: b"server-2:jobs:17", Tag.GENERATION: 2}),
        draft(Kind.PAUSED),
        synced=13,
    )
    one.batch(synced=24)
    return [one]


PLANNED = "%4Fp%2Baudit.3"
NEWEST = "v8"
JOURNALS: dict[str, Callable[[], Sequence[SegmentBuilder | Snapshot | Remembered]]] = {
    "jobs.1": jobs, "delays.1": delays, "keys.1": keys, "moves.1": moves, "handed.1": handed,
    "leaving.1": leaving,
    "once.1": once, "readers.1": readers, "retained.1": retained, "clients.1": clients,
    "schedules.1": schedules, "again.1": made_again, PLANNED: planned,
}  # fmt: skip


def write(one: SegmentBuilder | Snapshot | Remembered, folder: Path) -> Path:
    """Write a segment, a snapshot or a chunk as a file; return its path."""
    if isinstance(one, SegmentBuilder):
        return one.write_to(folder)
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(one, Remembered):
        made = write_chunk(
            Disk(), str(folder), one.batch, one.first, one.last, IDENTITY, TIME_MS + 5000
        )
        return folder / made.name
    path = folder / snapshot_name(one.lsn)
    path.write_bytes(one.encode(SHORT_IDENTITY, IDENTITY, TIME_MS + 5000))
    return path


def build(folder: Path) -> None:
    """Write the journals of the newest version below `folder`."""
    for name, make in JOURNALS.items():
        for one in make():
            write(one, folder / NEWEST / name)


def said(command: str, version: str = NEWEST) -> str:
    """Return the output of `python -m journal <command> <version>`; call it in the folder above.

    Damage is shown by its kind and place alone: the explanation may change.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = journal_main([command, version])
    lines = (
        line.split(" (")[0] if line.startswith("  ") else line
        for line in out.getvalue().split("\n")
    )
    return "\n".join(lines) + f"exit {code}\n"


def hex_rows(data: bytes) -> str:
    """Offset, 16 bytes, the same as text; rows of zeros are left out."""
    rows = []
    for at in range(0, len(data), 16):
        row = data[at : at + 16]
        if any(row):
            text = "".join(chr(b) if 32 <= b < 127 and b != 96 else "." for b in row)
            rows.append(f"{at:04x}  {row[:8].hex(' ')}  {row[8:].hex(' ')}  {text}")
    return "\n".join(rows)


if __name__ == "__main__":
    build(GOLDEN)
    with contextlib.chdir(GOLDEN):
        for command in ("dump", "verify"):
            Path(NEWEST, f"{command}.txt").write_text(said(command), encoding="utf-8")
    print(hex_rows(bytes(example().data)))
