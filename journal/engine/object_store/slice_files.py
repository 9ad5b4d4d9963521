"""The files of a slice as its log left them, and where their bytes are.

    a file:   [ packed: parts of packs, in order, none over another ]
              [ recent: what entries since the last snapshot wrote, in memory, in their order ]

One rule: a recent write lies over what is packed, and a later one over an earlier one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from journal.engine.batch import Batch
from journal.engine.engine import FileFacts

VERSION: Final = 1


class PackedPart(NamedTuple):
    """Bytes of a file in a pack."""

    begin: int  # in the file
    size: int
    pack: str
    at: int  # in the pack

    @property
    def end(self) -> int:
        return self.begin + self.size

    def cut(self, begin: int, end: int) -> PackedPart:
        """Return the part between two offsets of the file, which are inside."""
        return PackedPart(begin, end - begin, self.pack, self.at + begin - self.begin)


class Recent(NamedTuple):
    """Bytes that an entry wrote."""

    position: int
    begin: int
    data: bytes

    @property
    def end(self) -> int:
        return self.begin + len(self.data)


@dataclass(slots=True)
class StoredFile:
    """A file. `made_bytes`: the size that it was made with; `end`: of its last written byte."""

    path: str
    made_bytes: int
    end: int = 0
    packed: list[PackedPart] = field(default_factory=list)
    recent: list[Recent] = field(default_factory=list)

    @property
    def size(self) -> int:
        return max(self.made_bytes, self.end)


@dataclass(slots=True)
class SliceFiles:
    """The files of a slice by their numbers, and the packs that have bytes of them."""

    files: dict[int, StoredFile] = field(default_factory=dict)
    packs: dict[str, int] = field(default_factory=dict)  # the size of each
    recent_bytes: int = 0  # of all entries since the last snapshot, also of files that are gone

    def apply(self, position: int, batch: Batch) -> None:
        """Do what an entry says."""
        for file, (path, size) in batch.created.items():
            self.files[file] = StoredFile(path, size)
        for file, path in batch.renamed.items():
            self.files[file].path = path
        for file in batch.deleted:
            self.files.pop(file, None)
        for file, written in batch.written.items():
            stored = self.files[file]
            for begin, data in written:
                stored.recent.append(Recent(position, begin, data))
                stored.end = max(stored.end, begin + len(data))
                self.recent_bytes += len(data)

    def facts(self) -> list[FileFacts]:
        """Return every file."""
        return [
            FileFacts(number, each.path, each.size, each.end) for number, each in self.files.items()
        ]


def laid_over(below: list[PackedPart], above: Iterable[tuple[int, int]]) -> list[PackedPart]:
    """Return the parts of `below` that no stretch of `above` hides: begins and ends, in order."""
    left, hidden = [], [*above]
    at = 0
    for each in below:
        begin = each.begin
        while at < len(hidden) and hidden[at][1] <= begin:
            at += 1
        over = at
        while over < len(hidden) and hidden[over][0] < each.end:
            if begin < hidden[over][0]:
                left.append(each.cut(begin, hidden[over][0]))
            begin = max(begin, hidden[over][1])
            over += 1
        if begin < each.end:
            left.append(each.cut(begin, each.end))
    return left


def flattened(recent: Iterable[Recent]) -> list[tuple[int, bytes]]:
    """Return writes as stretches that do not touch, in order: where each begins, and its bytes."""
    flat = list[tuple[int, bytearray]]()
    for each in recent:
        if flat and each.begin == flat[-1][0] + len(flat[-1][1]):  # as appending does
            flat[-1][1].extend(each.data)
        elif not flat or each.begin > flat[-1][0] + len(flat[-1][1]):
            flat.append((each.begin, bytearray(each.data)))
        else:
            flat = _with(flat, each)
    return [(begin, bytes(data)) for begin, data in flat]


def _with(flat: list[tuple[int, bytearray]], new: Recent) -> list[tuple[int, bytearray]]:
    """Return stretches with one more write over them."""
    joined = [each for each in flat if each[0] <= new.end and new.begin <= each[0] + len(each[1])]
    begin = min([new.begin, *(each[0] for each in joined)])
    end = max([new.end, *(each[0] + len(each[1]) for each in joined)])
    whole = bytearray(end - begin)
    for at, data in joined:
        whole[at - begin : at - begin + len(data)] = data
    whole[new.begin - begin : new.end - begin] = new.data
    others = [each for each in flat if each not in joined]
    return sorted([*others, (begin, whole)], key=lambda each: each[0])


class FilesSnapshot(NamedTuple):
    """The files of a slice after the entry `base`, all of their bytes in packs."""

    base: int
    claims: list[int]  # the positions of all claims: those entries stay for ever
    files: SliceFiles

    def pack(self) -> bytes:
        """Return the bytes of the object."""
        names = [*self.files.packs]
        places = {name: at for at, name in enumerate(names)}
        facts = {
            "version": VERSION, "base": self.base, "claims": self.claims,
            "packs": [*self.files.packs.items()],
            "files": [
                [number, each.path, each.made_bytes, each.end,
                 [[e.begin, e.size, places[e.pack], e.at] for e in each.packed]]
                for number, each in self.files.files.items()
            ],
        }  # fmt: skip
        return zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 1)


def snapshot_of(data: bytes) -> FilesSnapshot:
    """Return the snapshot of an object's bytes; raise ValueError."""
    try:
        facts: dict[str, Any] = json.loads(zlib.decompress(data))
    except zlib.error:
        raise ValueError("it is no snapshot") from None
    if facts["version"] != VERSION:
        raise ValueError(f"it has version {facts['version']}, and this kestrelpy knows {VERSION}")
    names = [name for name, _ in facts["packs"]]
    found = SliceFiles(packs=dict(facts["packs"]))
    for number, path, made_bytes, end, extents in facts["files"]:
        packed = [PackedPart(begin, size, names[pack], at) for begin, size, pack, at in extents]
        found.files[number] = StoredFile(path, made_bytes, end, packed)
    return FilesSnapshot(facts["base"], facts["claims"], found)
