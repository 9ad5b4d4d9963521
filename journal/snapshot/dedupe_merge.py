"""Chunks merged into one, so that there are few of them, with few outdated entries.

    [1-50][51-60][61-70][71-77] ──▶ [1-77]      on a thread, piece by piece; then the others go

One rule: a merge leaves out only entries that are forgotten by now, or older than another of the
same key.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from journal.files import Files
from journal.format import Kind
from journal.sets import ID, KEY
from journal.snapshot.dedupe_file import Chunk, EntriesPart, epoch_of, in_order, write_parts
from journal.snapshot.dedupe_load import read_chunk
from journal.snapshot.dedupe_pending import Epoch

# A chunk of this many entries is not merged: 64 MiB would be read, and held while they are written.
MERGED_ENTRIES_MAX: Final = 2 << 20
_MERGED_FEWEST: Final = 4
# Merged at once: so that a few MiB of single entries exist at any moment.
_PIECE_ENTRIES: Final = 1 << 13


def choose_merge(chunks: list[Chunk], keys: int) -> list[Chunk]:
    """Return neighbours to be merged; empty: it is not worth it. `keys` is how many keys there are.

    Small chunks are merged so that their number stays small. Chunks whose keys were mostly written
    again are merged so that files grow with the number of keys, not with the number of writes.
    """
    for start in range(len(chunks) - _MERGED_FEWEST + 1):
        run = chunks[start:]
        total = sum(c.entries for c in run)
        if total <= MERGED_ENTRIES_MAX and run[0].entries <= total - run[0].entries:
            return run
    said = sum(c.keys for c in chunks)
    if len(chunks) > 1 and said > 2 * keys + MERGED_ENTRIES_MAX:
        at = min(range(len(chunks) - 1), key=lambda n: chunks[n].keys + chunks[n + 1].keys)
        return chunks[at : at + 2]
    return []


@dataclass(frozen=True, slots=True)
class MergeJob:
    """Several chunks as one, on a thread. Epochs that are not in `epochs` are left out, and entries
    with a time before `ids_before_ms` and `keys_before_ms`.
    """

    folder: str
    chosen: list[Chunk]
    identity: bytes
    epochs: Mapping[bytes, int]
    ids_before_ms: int
    keys_before_ms: int
    time_ms: int
    pause: Callable[[], None]

    def run(self, files: Files) -> Chunk:
        """Return the new chunk, on disk. Blocks; raises ChunkDamaged or OSError."""
        ids: list[bytes] = []
        keys: list[bytes] = []
        scoped: dict[Epoch, list[bytes]] = {}
        for chunk in self.chosen:
            runs: dict[tuple[int, Epoch | None], list[bytes]] = {}
            for frame in read_chunk(files, self.folder, chunk.name, self.identity)[1]:
                runs.setdefault((frame.kind, epoch_of(frame)), []).append(frame.body)
                self.pause()
            for (kind, epoch), bodies in runs.items():
                if kind == Kind.KEYS:
                    if chunk.keys_ms >= self.keys_before_ms:
                        keys.append(b"".join(bodies))
                elif epoch is None:
                    if chunk.ids_ms >= self.ids_before_ms:
                        ids.append(b"".join(bodies))
                elif self.epochs.get(epoch[0]) == epoch[1]:
                    scoped.setdefault(epoch, []).append(b"".join(bodies))
        parts = [EntriesPart(Kind.IDS, ID, None, _merged(ids, ID, False, self.pause))]
        for epoch, sorted_runs in sorted(scoped.items()):
            parts.append(
                EntriesPart(Kind.IDS, ID, epoch, _merged(sorted_runs, ID, False, self.pause))
            )
        parts.append(EntriesPart(Kind.KEYS, KEY, None, _merged(keys, KEY, True, self.pause)))
        return write_parts(
            files, self.folder, parts, self.chosen[0].first, self.chosen[-1].last,
            self.identity, self.time_ms, self.pause,
        )  # fmt: skip


class _Prefixes:
    """The beginnings of the hashes of a sorted run, to be searched by halving."""

    __slots__ = ("_run", "_width")

    def __init__(self, run: bytes, width: int) -> None:
        self._run = run
        self._width = width

    def __len__(self) -> int:
        return len(self._run) // self._width

    def __getitem__(self, at: int) -> int:
        return int.from_bytes(self._run[at * self._width : at * self._width + 4], "big")


def _merged(
    runs: list[bytes], entry: struct.Struct, last_only: bool, pause: Callable[[], None]
) -> list[bytes]:
    """Yield sorted runs as one, in pieces; entries of older chunks before newer ones."""
    width = entry.size
    pieces = max(sum(map(len, runs)) // width // _PIECE_ENTRIES, 1)
    searched = [_Prefixes(run, width) for run in runs]
    starts = [0] * len(runs)
    out = []
    for piece in range(1, pieces + 1):
        behind = (piece << 32) // pieces
        some: list[bytes | bytearray] = []
        for number, run in enumerate(runs):
            stop = bisect_left(searched[number], behind, starts[number])
            some.append(run[starts[number] * width : stop * width])
            starts[number] = stop
        out.append(in_order(some, entry, last_only, pause))
    return out
