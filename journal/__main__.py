"""`python -m journal dump|verify DIR`: a journal as sentences, and whether it is whole.

DIR is a data directory or one queue's folder; a daemon may be writing there, nothing is locked and
nothing changed. Exit code 0: all well; 1: damage found; 2: wrong usage, or nothing readable.
A torn end is not damage: it was never acknowledged, and the next start cuts it.

One rule: whatever DIR holds, the answer is lines a person can read, never a traceback.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NoReturn, TextIO

from journal.errors import JournalError
from journal.files import Disk, Files
from journal.reader import JournalView, journal_folders, read_journal
from journal.record import Kind, Record
from journal.sentence import BODY_BYTES_SHOWN, flush_spared, sentence, shown

WELL: Final = 0
DAMAGED: Final = 1
UNUSABLE: Final = 2

_PROGRESS_RECORDS: Final = 50_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ENDS: Final = frozenset(
    {Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.MOVED, Kind.CANCELLED}
)
# After these the number of live items cannot be told without knowing more than ids.
_UNCOUNTABLE: Final = frozenset({Kind.UPTO, Kind.DONE_MANY})


class LiveItems:
    """Counts what is still there: ready, delayed, lent or dead, for the queue's own reader."""

    __slots__ = ("_dead", "_ids", "known")

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._dead: set[int] = set()
        self.known = True

    def see(self, record: Record) -> None:
        """Account for one record, in the order of the log."""
        kind, item = record.kind, record.item
        if record.reader:
            return
        if kind in {Kind.PUT, Kind.CARRIED}:
            self._ids.add(item)
        elif kind in _ENDS:
            self._ids.discard(item)
            self._dead.discard(item)
        elif kind == Kind.DEAD:
            self._dead.add(item)
        elif kind == Kind.REDRIVEN:
            self._dead.discard(item)
        elif kind == Kind.FLUSHED:
            spared = self._dead.union(flush_spared(record))
            self._ids = {i for i in self._ids if i > item or i in spared}
        elif kind in _UNCOUNTABLE:
            self.known = False

    def __str__(self) -> str:
        return _counted(len(self._ids), "live item") if self.known else "live items not known"


class _OneLine(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (try --help)", file=sys.stderr)
        raise SystemExit(UNUSABLE)


def main(argv: list[str] | None = None, files: Files | None = None) -> int:
    """Run one command; returns the exit code. Never raises."""
    try:
        options = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else UNUSABLE
    files = files if files is not None else Disk()
    try:
        if options.command == "dump":
            bytes_max = sys.maxsize if options.bodies else BODY_BYTES_SHOWN
            code = dump(files, options.dir, options.lsn_from, bytes_max)
        else:
            code = verify(files, options.dir)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `dump | head`: who closed the pipe has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WELL


def dump(files: Files, folder: str, lsn_from: int, body_bytes_max: int) -> int:
    """Print every record as a sentence, and each damage on stderr; returns the exit code."""

    def one(view: JournalView) -> int:
        _say(f"{_title(view)}:")
        for record in view.records():
            if record.lsn >= lsn_from:
                _say(
                    f"{record.segment:010d}:{record.offset:<9d} lsn {record.lsn}  "
                    f"{utc(record.time_ms)}  {sentence(record, body_bytes_max)}"
                )
        return _name_damages(view, sys.stderr)

    return _each(files, folder, one)


def verify(files: Files, folder: str) -> int:
    """Print for each queue what is there and what is wrong with it; returns the exit code."""

    def one(view: JournalView) -> int:
        live = LiveItems()
        progress = _progress(f"verify {_title(view)}")
        for record in view.records():
            live.see(record)
            progress(view.count)
        progress(-1)
        _say(
            f"{_title(view)}: queue {shown(view.name, len(view.name))}, "
            f"{_counted(view.segment_count, 'segment')}, {_counted(view.count, 'record')}, "
            f"{live}, synced up to lsn {view.lsn_synced}, {_ending(view)}"
        )
        return _name_damages(view, sys.stdout)

    return _each(files, folder, one)


def utc(time_ms: int) -> str:
    """Milliseconds since 1970 as a UTC time; the bare number where no calendar reaches."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def _each(files: Files, folder: str, act: Callable[[JournalView], int]) -> int:
    """Do it for every journal in `folder`; the highest exit code. What cannot be read says so."""
    try:
        folders = journal_folders(files, folder)
        if not folders:
            raise JournalError(f"{folder}: no journal here, nor in a folder directly below")
    except JournalError as error:
        _say(f"journal: {error}", sys.stderr)
        return UNUSABLE
    code = WELL
    for one in folders:
        try:
            code = max(code, act(read_journal(files, one, live=True)))
        except (JournalError, ValueError) as error:
            where = "" if one in str(error) else f"{one}: "
            _say(f"journal: {where}{error}", sys.stderr)
            code = UNUSABLE
    return code


def _ending(view: JournalView) -> str:
    if view.damages:
        return "damaged"
    if view.torn or view.records_behind_sync:
        return f"{_counted(view.records_behind_sync, 'record')} behind the last known sync"
    return "clean"


def _name_damages(view: JournalView, stream: TextIO) -> int:
    for damage in [*view.damages, *view.torn]:
        _say(f"  {damage.sentence()}", stream)
    return DAMAGED if view.damages else WELL


def _say(text: str, stream: TextIO | None = None) -> None:
    """One line, whatever names and bodies are in it and whatever the terminal can show."""
    stream = stream if stream is not None else sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _progress(doing: str) -> Callable[[int], None]:
    """A counter on stderr while a person is watching; -1 wipes it."""
    if not sys.stderr.isatty():
        return lambda count: None

    def show(count: int) -> None:
        if count < 0:
            sys.stderr.write("\r\033[K")
        elif count % _PROGRESS_RECORDS == 0:
            sys.stderr.write(f"\r{doing}: {count:,} records")
            sys.stderr.flush()

    return show


def _title(view: JournalView) -> str:
    return os.path.basename(os.path.abspath(view.folder))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(prog="journal", description="Read the journal of a stopped or live daemon.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_OneLine)
    described = "a data directory, or one queue's folder in it"
    one = commands.add_parser("dump", help="print every record as a sentence")
    one.add_argument("dir", metavar="DIR", help=described)
    one.add_argument("--lsn-from", type=int, default=0, metavar="N", help="begin at this record")
    one.add_argument("--bodies", action="store_true", help="print bodies in full")
    two = commands.add_parser("verify", help="say what is there and what is damaged")
    two.add_argument("dir", metavar="DIR", help=described)
    return parser


if __name__ == "__main__":
    sys.exit(main())
