"""`kestrelpy import-kestrel`: the queues in a directory of Kestrel journals, into a data directory.

    SRC/orders, orders.<ms> ...   ─┐  replay, then copy
    SRC/orders+audit ...          ─┴──────────────────▶ D/orders.1763712000~removed/
                                                          │ whole, on disk: renamed
                                                          ▼
                                                        D/orders.1763712000/kestrel-import

A queue and its children share a journal, so they are imported together. `kestrel-import` says from
which files: a second run leaves the queue as it is, whatever has become of its items since.

One rule: at every moment a queue in D is either absent or whole. SRC is never changed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from journal.errors import DirectoryLocked, JournalError
from journal.files import MEDIUM_ERRORS, Disk, Files
from journal.format import parse_folder_name
from journal.store import Sizes
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.journals.journal import watch
from kestrelpy.cli.journals.manifest import NUMBER_MAX
from kestrelpy.cli.journals.queue_writer import ITEM_BYTES_MAX, STAGED, QueueWriter
from kestrelpy.errors import ClientError
from kestrelpy.kestrel import (
    DamagedMedium,
    FilePiece,
    Ignored,
    JournalFiles,
    JournalSource,
    arrange,
    is_database,
)
from kestrelpy.protocol import check_name
from kestrelpy.server import DataDirectory

NOTE: Final = "kestrel-import"
_AGAIN: Final = "queues imported so far stay; run it again, and it goes on with the others"
_STATES: Final = {
    "imported": "imported",
    "there": "imported before, left as it is",
    "empty": "empty, not made",
    "refused": "left out",
    "found": "would be imported",
}
_LIBKESTREL: Final = (b"\x27\x64\x26\x03", b"\x26\x3c\x26\x03")
_NOTE_BYTES_MAX: Final = 1 << 20
# An item that was added later than this, or before 1970, counts as added now.
_AHEAD_MS_MAX: Final = 86_400_000

Watching = Callable[[str], Callable[[int, int], None]]


@dataclass(slots=True)
class Imported:
    """What became of one queue of Kestrel's. `state`: imported, there, empty, refused, found (it
    would be imported)."""

    queue: str
    state: str = "found"
    records: int = 0
    items: int = 0
    bytes: int = 0
    expired: int = 0
    reopened: int = 0
    empty: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ImportReport:
    """The queues, in order of their names, and the names in SRC that are no part of a journal."""

    queues: list[Imported] = field(default_factory=list)
    ignored: list[Ignored] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """Damage and refusals."""
        return [problem for each in self.queues for problem in each.problems]


@dataclass(slots=True)
class _Family:
    """A queue and its children: the queue itself comes first, if it has a journal."""

    name: bytes
    members: list[tuple[JournalFiles, bytes, Imported]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """What to import. `queues`: only these, with their children; empty: all."""

    source: str
    data_dir: str
    queues: Sequence[str] = ()
    dry_run: bool = False


def bring_in(
    files: Files, request: ImportRequest, unix_ms: int, watching: Watching,
    disk: Files | None = None,
) -> ImportReport:  # fmt: skip
    """Import the queues, with `dry_run` only look; return what became of each.

    SRC is read through `disk`. Raise CommandError, JournalError or OSError; queues imported until
    then stay. Blocks.
    """
    disk = disk or Disk()
    report, families = _look(disk, request)
    there = _imported_before(files, request.data_dir, [family.name for family in families])
    if request.dry_run:
        for family in families:
            for journal, _, made in family.members:
                made.state = "there" if family.name in there else made.state
                _replayed(disk, request.source, journal, made, watching, 1)
        return report
    directory = DataDirectory(files, request.data_dir, Sizes())
    directory.lock()
    try:
        report.notes += filter(None, [directory.tokens.read(unix_ms)])
        there = _imported_before(files, request.data_dir, [family.name for family in families])
        _refuse_others(disk, request, families, there)
        for name in files.names(request.data_dir):
            if name.endswith(STAGED) and parse_folder_name(name.removesuffix(STAGED))[1]:
                files.remove_folder(os.path.join(request.data_dir, name))
        known = [parse_folder_name(name)[1] for name in files.names(request.data_dir)]
        generation = 1 + max(unix_ms // 1000, directory.tokens.generation, *known, 0)
        if generation > NUMBER_MAX:
            raise JournalError(f"{request.data_dir}: a generation here is the last, {NUMBER_MAX}")
        for family in families:
            if family.name in there:
                for _, _, made in family.members:
                    made.state = "there"
                continue
            writer = QueueWriter(
                files, request.data_dir, family.name, generation, directory.server_id.encode(),
                directory.tokens.below, unix_ms,
            )  # fmt: skip
            try:
                _import(disk, request.source, family, writer, unix_ms, watching)
            except BaseException:
                writer.abandon()
                raise
    finally:
        directory.unlock()
    return report


# -- what there is ----------------------------------------------------------------------------


def _look(disk: Files, request: ImportRequest) -> tuple[ImportReport, list[_Family]]:
    """Return the queues in SRC; raise CommandError if it is no directory of Kestrel's."""
    source = request.source
    if not os.path.isdir(source):
        what = "is not a directory" if os.path.exists(source) else "does not exist"
        raise CommandError(f"{source}: it {what}; name the directory of Kestrel's journals")
    names = disk.names(source)
    if any(parse_folder_name(name)[1] and _is_ours(disk, source, name) for name in names):
        raise CommandError(f"{source}: this is a data directory of kestrelpy, not Kestrel's")
    if is_database(names):
        raise CommandError(f"{source}: this is a LevelDB (Darner, Siberite), not Kestrel's journal")
    if os.path.realpath(source) == os.path.realpath(request.data_dir):
        raise CommandError(f"{source}: SRC and the data directory are one; name another --data-dir")
    found = arrange((name, os.path.isfile(os.path.join(source, name))) for name in names)
    report, families = ImportReport(ignored=found.ignored), dict[bytes, _Family]()
    wanted = set(request.queues)
    for journal in found.journals:
        name = os.fsencode(journal.queue)
        parent, _, part = name.partition(b"+")
        if wanted and not wanted & {journal.queue, os.fsdecode(parent)}:
            continue
        made = Imported(journal.queue)
        report.queues.append(made)
        reason = _refusal(disk, source, journal, name)
        if reason:
            made.state = "refused"
            made.problems.append(reason)
            continue
        if journal.has_pack:
            made.notes.append(
                f"{journal.queue}: Kestrel ended during a pack; items may be there twice"
            )
        families.setdefault(parent, _Family(parent)).members.append((journal, part, made))
    missing = wanted - {each.queue for each in report.queues}
    if missing:
        raise CommandError(f"{source}: no queue {', '.join(sorted(missing))} here")
    if not report.queues:
        raise CommandError(f"{source}: no Kestrel journal here (files NAME and NAME.<ms>)")
    return report, list(families.values())


def _is_ours(disk: Files, source: str, name: str) -> bool:
    path = os.path.join(source, name)
    return os.path.isdir(path) and any(n.endswith(".segment") for n in disk.names(path))


def _refusal(disk: Files, source: str, journal: JournalFiles, name: bytes) -> str:
    """Return why these files make no queue; empty: they may."""
    path = os.path.join(source, journal.queue)
    try:
        check_name(name)
    except ClientError as error:
        return f"{path!r}: left out: {error}"
    for file in journal.files:
        if disk.read(os.path.join(source, file), 0, 4) in _LIBKESTREL:
            return f"{os.path.join(source, file)}: left out: a journal of libkestrel 2, not Kestrel"
    return ""


def _sized_files(disk: Files, source: str, journal: JournalFiles) -> list[FilePiece]:
    return [FilePiece(name, disk.size(os.path.join(source, name))) for name in journal.files]


def _imported_before(
    files: Files, data_dir: str, names: list[bytes]
) -> dict[bytes, dict[str, object] | None]:
    """Return the queues of these names that are there, each with its note; None: it has none."""
    newest: dict[bytes, tuple[int, str]] = {}
    for folder in files.names(data_dir):
        name, generation = parse_folder_name(folder)
        if generation and name in names:
            newest[name] = max(newest.get(name, (0, "")), (generation, folder))
    there: dict[bytes, dict[str, object] | None] = {}
    for name, (_, folder) in newest.items():
        path = os.path.join(data_dir, folder)
        there[name] = None
        if NOTE in files.names(path):
            content = json.loads(files.read(os.path.join(path, NOTE), 0, _NOTE_BYTES_MAX))
            there[name] = content if isinstance(content, dict) else None
    return there


def _refuse_others(
    disk: Files,
    request: ImportRequest,
    families: list[_Family],
    there: dict[bytes, dict[str, object] | None],
) -> None:
    """Raise CommandError if a queue is there that was not imported from these very files."""
    lines = []
    for family in families:
        if family.name not in there:
            continue
        note, shown = there[family.name], os.fsdecode(family.name)
        if note is None:
            lines.append(
                f"{request.data_dir}: there is a queue {shown}; import into another --data-dir, "
                "or name the queues to import with --queue"
            )
        elif note.get("files") != _contents(disk, request.source, family):
            lines.append(
                f"{request.data_dir}: queue {shown} was imported from {note.get('source')} when "
                "its files were others; delete it, or name the queues to import with --queue"
            )
    if lines:
        raise CommandError("\n".join(lines))


def _contents(disk: Files, source: str, family: _Family) -> dict[str, int]:
    """Return the files of a family with their sizes."""
    return {
        each.name: each.size
        for journal, _, _ in family.members
        for each in _sized_files(disk, source, journal)
    }


# -- one queue with its children --------------------------------------------------------------


def _import(
    disk: Files, source: str, family: _Family, writer: QueueWriter, unix_ms: int,
    watching: Watching,
) -> None:  # fmt: skip
    contents = _contents(disk, source, family)
    for journal, part, made in family.members:
        replayed = _replayed(disk, source, journal, made, watching, 2)
        if made.state == "refused":
            continue
        reader = writer.name_child(part) if part else 0
        _copy(replayed, made, writer, reader, unix_ms, watching)
        made.state = "imported" if part or made.items else "empty"
    if contents != _contents(disk, source, family):
        name = os.fsdecode(family.name)
        raise CommandError(
            f"{source}: the files of {name} changed while they were read: stop Kestrel first"
        )
    if writer.is_empty:
        writer.abandon()
        return
    note = {"source": os.path.abspath(source), "files": contents}
    writer.finish((NOTE, json.dumps(note).encode() + b"\n"))


def _replayed(
    disk: Files, source: str, journal: JournalFiles, made: Imported, watching: Watching, passes: int
) -> JournalSource:
    """Replay a queue's files; name their damage."""
    sized = _sized_files(disk, source, journal)

    def read(name: str, offset: int, size: int) -> bytes:
        path = os.path.join(source, name)
        try:
            return disk.read(path, offset, size)
        except OSError as error:
            if error.errno not in MEDIUM_ERRORS:
                raise OSError(error.errno, error.strerror, path) from None
            raise DamagedMedium(error.strerror) from None

    replayed = JournalSource(sized, read)
    show = watching(f"{journal.queue}: read" if passes == 2 else journal.queue)
    replayed.run(lambda done: show(done, replayed.bytes))
    show(replayed.bytes, replayed.bytes)
    replay = replayed.replay
    made.records, made.reopened = replay.records, replay.opened
    if passes == 1:
        made.items = len(replay)
    sizes = {each.name: each.size for each in sized}
    for name, damage in replayed.damages:
        left = sizes[name] - damage.offset
        made.problems.append(
            f"{os.path.join(source, name)}: offset {damage.offset}: {damage.reason}; the last "
            f"{left} bytes of this file are left out"
        )
    if replay.spared:
        made.notes.append(
            f"{journal.queue}: {replay.spared} removals after the damage do not count, since they "
            "do not say which item they mean: as many items come again"
        )
    if replayed.damages and not replay.records:
        made.state = "refused"
    return replayed


def _copy(
    replayed: JournalSource, made: Imported, writer: QueueWriter, reader: int, unix_ms: int,
    watching: Watching,
) -> None:  # fmt: skip
    total = len(replayed.replay)
    show = watching(f"{made.queue}: copy")
    items, size, latest_ms, add = writer.items, writer.bytes, unix_ms + _AHEAD_MS_MAX, writer.add
    for number, (added_ms, expires_ms, body) in enumerate(replayed.items()):
        if expires_ms and expires_ms <= unix_ms:
            made.expired += 1
        elif len(body) > ITEM_BYTES_MAX:
            made.problems.append(
                f"{made.queue}: an item of {len(body)} bytes is left out (limit {ITEM_BYTES_MAX})"
            )
        else:
            if not body:
                made.empty += 1
            stored_ms = added_ms if 0 < added_ms <= latest_ms else unix_ms
            add(body, stored_ms, expires_ms, reader)
        if not number & 0xFFFF:
            show(number, total)
    show(total, total)
    made.items, made.bytes = writer.items - items, writer.bytes - size
    if made.empty:
        made.notes.append(
            f"{made.queue}: {made.empty} items are empty: Kestrel allows that, and a fault in its "
            "packing leaves such items behind"
        )


# -- the command ------------------------------------------------------------------------------


def import_kestrel(request: ImportRequest, as_json: bool) -> None:
    """Import, and print what became of each queue; raise CommandError."""
    began = time.monotonic()
    try:
        report = bring_in(Disk(), request, time.time_ns() // 1_000_000, watch)
    except DirectoryLocked as error:
        raise CommandError(f"{error}; stop it first, or import into another --data-dir") from None
    except JournalError as error:
        raise CommandError(f"{error}; {_AGAIN}") from None
    except OSError as error:
        where = error.filename2 or error.filename or request.source
        raise CommandError(f"{where}: {error.strerror or error}; {_AGAIN}") from None
    if as_json:
        facts = [asdict(each) for each in report.queues]
        ignored = [each._asdict() for each in report.ignored]
        print(json.dumps({"queues": facts, "ignored": ignored, "notes": report.notes}))
    else:
        _print(request, report, time.monotonic() - began)
    if report.problems:
        raise CommandError("\n".join(report.problems), NOTHING)


def _print(request: ImportRequest, report: ImportReport, seconds: float) -> None:
    for each in report.queues:
        print(f"{each.queue}: {_STATES[each.state]}{_counts(each)}")
    for ignored in report.ignored:
        print(f"note: {os.path.join(request.source, ignored.name)}: ignored: {ignored.reason}")
    for note in (*report.notes, *(note for each in report.queues for note in each.notes)):
        print(f"note: {note}")
    made = [each for each in report.queues if each.state == "imported"]
    records = sum(each.records for each in report.queues)
    if request.dry_run:
        print(f"dry run: nothing was written; {records} records in {seconds:.1f} s")
    else:
        items, size = sum(each.items for each in made), sum(each.bytes for each in made)
        print(
            f"imported into {request.data_dir}: {len(made)} queues, {items} items, {size} bytes, "
            f"from {records} records in {seconds:.1f} s"
        )


def _counts(each: Imported) -> str:
    counts = (
        (each.items, "items"), (each.reopened, "of them were open"), (each.expired, "expired"),
    )  # fmt: skip
    return "".join(f", {count} {what}" for count, what in counts if count)
