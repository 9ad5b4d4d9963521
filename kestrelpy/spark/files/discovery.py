"""Find journals under paths and globs: folders, archives and backups.

    data directory, backup    <queue>.<generation>/0000000001.segment   one location a folder
    a journal's folder        0000000001.segment, ...snapshot           one location
    an archive                <queue>.<generation>.0000000001.segment   one location a journal

`SegmentOrder` of `journal.recovery` reads a location as a folder with one journal in it, whatever
the names of its files. Locations with files of one journal are a group, which has the best copy of
each segment. Copies have the same first bytes; a file with the same number and other first bytes is
of another history.

    /a/jobs.1     1  2  3        /archive   1  2          one journal, each segment once
    /b/jobs.1     1  2  3'                                3' is no copy of 3: not mixed in

One rule: discovery reads only fronts and ends of files; a file that cannot be used is one sentence.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, cast

from journal.engine import is_engine
from journal.errors import Damage, JournalError, NewerFormat
from journal.files import Files
from journal.format import (
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    Checkpoint,
    Kind,
    Record,
    SegmentHeader,
    decode,
    parse_folder_name,
    segment_name,
    segment_number,
)
from journal.read import read_footer
from journal.recovery import SegmentFile, SegmentOrder
from journal.snapshot import snapshot_lsn
from journal.tools import RESTARTS_MAX

_FRONT_BYTES: Final = 2048  # holds any segment's header and opening record
_ARCHIVED: Final = re.compile(r"(?P<stem>.+)\.(?P<number>[0-9]{10})\.segment(\.[0-9]+)?")
_REMOVED: Final = "~removed"  # of a deleted queue's folder, until the folder is gone
_VERSION: Final = slice(8, 10)  # of a file's header
_MAGIC: Final = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Problem:
    """A file or folder that is not read. `is_loss`: it may hold wanted records."""

    sentence: str
    is_loss: bool = True


class JournalLocation:
    """The files of one journal, by the names that they have in a journal's folder.

    It reads like `journal.files.Files`, and writes nothing.
    """

    def __init__(self, files: Files, folder: str, is_archive: bool = False) -> None:
        self.folder = folder
        self.is_archive = is_archive
        self.stem = os.path.basename(os.path.abspath(folder))
        self.paths: dict[str, str] = {}
        self._files = files
        self._fronts: dict[str, bytes] = {}

    def names(self, folder: str) -> list[str]:
        return sorted(self.paths)

    def size(self, path: str) -> int:
        return self._files.size(self.real(path))

    def mode(self, path: str) -> int:
        return self._files.mode(self.real(path))

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        path = self.real(path)
        if offset or not 0 < size <= _FRONT_BYTES:
            return self._files.read(path, offset, size)
        front = self._fronts.get(path)
        if front is None:
            front = self._fronts[path] = self._files.read(path, 0, _FRONT_BYTES)
        return front[:size]

    def real(self, path: str) -> str:
        """Return the path of a file of this location."""
        return self.paths.get(os.path.basename(path), path)

    def segment_order(self) -> SegmentOrder:
        """Return the files that make up the journal. Raises FileNotFoundError if one has gone."""
        order = SegmentOrder(cast(Files, self), self.folder)
        order.find()
        order.damages = [replace(d, path=self.real(d.path)) for d in order.damages]
        return order


@dataclass(slots=True)
class FoundSegment:
    """One segment of a location. `header`: its first bytes, the same in every copy."""

    location: JournalLocation
    file: SegmentFile
    path: str
    header: bytes
    version: int
    footer: Record | None
    opening: Checkpoint | None
    copies: list[FoundSegment] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """True if the file has its full size and can be read."""
        file = self.file
        return file.header is not None and not (file.bytes_missing or file.unreadable)

    @property
    def goodness(self) -> tuple[bool, bool]:
        """The rank among copies: the best is read."""
        return self.is_whole, self.footer is not None


@dataclass(slots=True)
class Contents:
    """The files at one location: `segments` by number, also those that a compacted one replaces."""

    location: JournalLocation
    segment_order: SegmentOrder
    segments: list[FoundSegment]
    damages: list[Damage]

    @property
    def lsn_known(self) -> int:
        """Records up to here may have been reclaimed."""
        known = self.segment_order.snapshot.lsn if self.segment_order.snapshot is not None else 0
        if self.location.is_archive:  # archived items have ended, and that is on disk
            known = max([known, *(f.file.lsn_first - 1 for f in self.segments)])
            known = max([known, *(f.footer.lsn - 1 for f in self.segments if f.footer)])
        return known


def discover(files: Files, paths: Sequence[str]) -> tuple[list[Contents], list[Problem]]:
    """Return the locations under these paths, each once. Raises JournalError if there is none."""
    problems: list[Problem] = []
    contents: list[Contents] = []
    for location in _find_journals(files, paths, problems):
        try:
            found = _read_location(files, location)
        except OSError as error:
            where = error.filename or location.folder
            problems.append(Problem(f"{where}: cannot be read: {error.strerror or error}"))
            continue
        except NewerFormat as error:
            problems.append(Problem(f"{error}; not read"))
            continue
        contents.append(found)
        problems += [Problem(d.sentence(), False) for d in found.damages if d.kind == "foreign"]
    return contents, problems


def expand(path: str) -> list[str]:
    """Return the paths that a glob names; a path without wildcards, or in an engine, names itself.
    """
    return sorted(glob.glob(path)) if _MAGIC.search(path) and not is_engine(path) else [path]


def _find_journals(
    files: Files, paths: Sequence[str], problems: list[Problem]
) -> list[JournalLocation]:
    locations: list[JournalLocation] = []
    seen: set[str] = set()
    for path in paths:
        before = len(locations)
        for each in expand(path):
            locations += _find_journals_under(files, each, seen, problems)
        if len(locations) == before and not any(_is_inside(each, seen) for each in expand(path)):
            raise JournalError(
                f"{path}: no journal lies here. Name a data directory, a queue's folder in it, a "
                f"backup or an archive; wildcards are * ? [...]."
            )
    return locations


def _is_inside(path: str, seen: set[str]) -> bool:
    """True if something below this path was found already, by another name."""
    real = os.path.realpath(path)
    return any(each == real or each.startswith(real + os.sep) for each in seen)


def _find_journals_under(
    files: Files, path: str, seen: set[str], problems: list[Problem]
) -> list[JournalLocation]:
    try:
        names = files.names(path)
    except NotADirectoryError:
        return _of_one_file(files, path, seen, problems)
    except OSError as error:
        problems.append(Problem(f"{path}: cannot be read: {error.strerror or error}"))
        return []
    found = _in_folder(files, path, names, seen, problems)
    if found:
        return found
    for name in names:
        below = os.path.join(path, name)
        if name.endswith(_REMOVED):
            continue
        with suppress(NotADirectoryError, PermissionError):
            found += _in_folder(files, below, files.names(below), seen, problems)
    return found


def _in_folder(
    files: Files, folder: str, names: list[str], seen: set[str], problems: list[Problem]
) -> list[JournalLocation]:
    real = os.path.realpath(folder)
    plain = [n for n in names if segment_number(n) is not None]
    archived = [n for n in names if _ARCHIVED.fullmatch(n)]
    if not (plain or archived) or real in seen:
        return []
    seen.add(real)
    found = _archived(files, folder, archived, problems)
    if plain:
        location = JournalLocation(files, folder)
        own = plain + [n for n in names if snapshot_lsn(n) is not None]
        location.paths = {n: os.path.join(folder, n) for n in own}
        found.append(location)
    return found


def _of_one_file(
    files: Files, path: str, seen: set[str], problems: list[Problem]
) -> list[JournalLocation]:
    """Return the location of a single segment."""
    folder, name = os.path.split(path)
    if os.path.realpath(path) in seen or os.path.realpath(folder) in seen:
        return []
    seen.add(os.path.realpath(path))
    if _ARCHIVED.fullmatch(name):
        return _archived(files, folder, [name], problems)
    number = segment_number(name)
    if number is None:
        return []
    location = JournalLocation(files, folder, is_archive=True)
    location.paths[name] = path
    return [location]


def _archived(
    files: Files, folder: str, names: list[str], problems: list[Problem]
) -> list[JournalLocation]:
    """Return the journals in an archive; the same name may come from several data directories."""
    locations: dict[tuple[str, bytes, int], JournalLocation] = {}
    for name in names:
        match = _ARCHIVED.fullmatch(name)
        assert match is not None, "it was chosen by this name"
        path = os.path.join(folder, name)
        try:
            header = SegmentHeader.decode(files.read(path, 0, FILE_HEADER_BYTES), path)
        except NewerFormat as error:
            problems.append(Problem(f"{error}; not read"))
            continue
        except OSError as error:
            problems.append(Problem(f"{path}: cannot be read: {error.strerror or error}"))
            continue
        if header is None:
            problems.append(Problem(f"{path}: the file header is not readable; not read"))
            continue
        called = segment_name(header.segment)
        life = 0
        while True:
            key = (match["stem"], header.identity, life)
            location = locations.setdefault(key, JournalLocation(files, folder, is_archive=True))
            if called not in location.paths:
                break
            life += 1
        location.stem = match["stem"]
        location.paths[called] = path
    return list(locations.values())


def _read_location(files: Files, location: JournalLocation) -> Contents:
    """Return a location's segments and their damages; a daemon may remove some meanwhile."""
    for _ in range(RESTARTS_MAX):
        try:
            order = location.segment_order()
            segments = [_found(location, file) for file in (*order.segments, *order.replaced)]
        except FileNotFoundError:
            location = _again(files, location)
            continue
        return Contents(location, order, segments, order.damages)
    raise JournalError(
        f"{location.folder}: its segments were removed {RESTARTS_MAX} times while they were read"
    )


def _again(files: Files, location: JournalLocation) -> JournalLocation:
    fresh = JournalLocation(files, location.folder, location.is_archive)
    fresh.stem = location.stem
    if location.is_archive:
        there = set(files.names(location.folder))
        fresh.paths = {n: p for n, p in location.paths.items() if os.path.basename(p) in there}
        return fresh
    names = files.names(location.folder)
    own = (n for n in names if segment_number(n) is not None or snapshot_lsn(n) is not None)
    fresh.paths = {n: os.path.join(location.folder, n) for n in own}
    return fresh


def _found(location: JournalLocation, file: SegmentFile) -> FoundSegment:
    header, footer, opening = b"", None, None
    version = 2
    if not file.unreadable:
        front = location.read(file.path, 0, _FRONT_BYTES)
        header = front[:FILE_HEADER_BYTES]
        if file.header is not None:
            version = int.from_bytes(header[_VERSION], "little")
        record = decode(front, FILE_HEADER_BYTES, file.journal, file.number)
        if record is not None and record.kind == Kind.CHECKPOINT:
            with suppress(NewerFormat, ValueError):
                opening = Checkpoint.from_record(record)
        at = file.capacity - FOOTER_SPACE_BYTES
        if at >= FILE_HEADER_BYTES and not file.bytes_missing:
            data = location.read(file.path, at, FOOTER_SPACE_BYTES)
            footer = read_footer(data, at, file.journal, file.number)
    return FoundSegment(location, file, location.real(file.path), header, version, footer, opening)


def server_and_queue(segments: Iterable[FoundSegment]) -> tuple[str | None, str, int]:
    """Return server, queue and generation, by the newest checkpoint, else by the folder's name."""
    last = None
    for found in segments:
        last = found
        if found.opening is not None and found.opening.name:
            server = found.opening.server.decode("utf-8", "replace")
            queue = found.opening.name.decode("utf-8", "replace")
            return server or None, queue, found.opening.generation
    name, generation = parse_folder_name(last.location.stem) if last is not None else (b"", 0)
    return None, name.decode("utf-8", "replace"), generation


def by_journal(contents: list[Contents], problems: list[Problem]) -> list[list[Contents]]:
    """Group the locations by journal; leave out one whose history differs from the others'."""
    groups: dict[bytes, list[Contents]] = {}
    for each in contents:
        if not each.segments:
            continue
        group = groups.setdefault(each.segment_order.identity, [])
        other = next((o for one in group for o in one.segments for m in each.segments
                      if _differ(o, m)), None)  # fmt: skip
        if other is None:
            group.append(each)
            continue
        problems.append(
            Problem(
                f"{each.location.folder}: goes on otherwise than {other.location.folder}, though "
                f"it is the same journal (a restored backup beside its original?); not read. Read "
                f"the two apart."
            )
        )
    return list(groups.values())


def _differ(one: FoundSegment, other: FoundSegment) -> bool:
    """True if the two have one number but are no copies of each other."""
    if one.file.number != other.file.number:
        return False
    if not (one.file.lsn_first and other.file.lsn_first):
        return False  # one holds no record: a start may have given a preallocated number again
    return bool(one.file.header and other.file.header) and one.header != other.header


def best_copies(group: list[Contents]) -> list[FoundSegment]:
    """Return each segment once, by number."""
    best: dict[int, FoundSegment] = {}
    for contents in group:
        for found in contents.segments:
            number = found.file.number
            there = best.setdefault(number, found)
            if there is found:
                continue
            first, second = (found, there) if _is_better(found, there, group) else (there, found)
            if first.footer is not None and second.goodness == first.goodness:
                first.copies = [*first.copies, *second.copies, second]
            best[number] = first
    return [best[number] for number in sorted(best)]


def _is_better(one: FoundSegment, other: FoundSegment, group: list[Contents]) -> bool:
    if one.goodness != other.goodness or one.footer is not None:
        return one.goodness > other.goodness
    scans = []
    for each in (one, other):  # both were still written to when they were copied
        order = next(e.segment_order for e in group if e.location is each.location)
        scans.append(order.scan(each.file).lsn_next)
    return scans[0] > scans[1]
