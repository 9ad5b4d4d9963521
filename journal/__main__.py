"""`python -m journal dump|verify|repair DIR`: print a journal, check it, repair it.

DIR is a data directory or one queue's folder. `dump` and `verify` change nothing and lock nothing:
a daemon may be writing there. `repair` needs the directory for itself.
Exit code 0: all well; 1: damage found; 2: wrong usage, or nothing readable.
A torn end is not damage: it was never acknowledged, and the next start cuts it.

One rule: whatever DIR holds, the answer is lines a person can read, never a traceback.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict
from typing import Final, NoReturn, TextIO

from journal.engine import is_address, name_of
from journal.errors import Damage, JournalError
from journal.files import Disk, Files
from journal.format import BODY_BYTES_SHOWN, folder_name, journal_folders, parse_folder_name, shown
from journal.recovery import lost_items_text, runs
from journal.tools import (
    Progress,
    Repair,
    Report,
    WantedRecords,
    check_journal,
    dumped,
    is_running,
    owned,
    owning_folder,
    read_journal,
    repair_of,
    utc,
)

__all__ = ["DAMAGED", "UNUSABLE", "WELL", "main", "utc"]

WELL: Final = 0
DAMAGED: Final = 1
UNUSABLE: Final = 2

_name: Final = ContextVar("name", default="journal")  # of the program that runs

# Shows progress. Called with the name of a piece of work, it returns the callback for that work.
Watch = Callable[[str], Progress]


class _OneLine(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {message} (try --help)", file=sys.stderr)
        raise SystemExit(UNUSABLE)


def main(
    argv: list[str] | None = None, files: Files | None = None, watch: Watch | None = None,
    name: str = "journal",
) -> int:  # fmt: skip
    """Run one command and return the exit code. Never raises. Complaints begin with `name`."""
    _name.set(name)
    try:
        options = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else UNUSABLE
    if files is None and is_address(options.dir):
        _complain(f"{name_of(options.dir)}: an engine's data is read by `kestrelpy journal`")
        return UNUSABLE
    files = files if files is not None else Disk()
    watch = watch if watch is not None else _percent
    try:
        if options.command == "dump":
            bytes_max = sys.maxsize if options.bodies else BODY_BYTES_SHOWN
            wanted = WantedRecords(options.from_lsn, bytes_max, options.json)
            code = dump(files, options.dir, options.queue, wanted)
        elif options.command == "verify":
            code = verify(files, options.dir, options.json, watch)
        else:
            code = repair(files, options.dir, options.dry_run, options.yes, watch)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # `dump | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WELL


def dump(files: Files, folder: str, queue: str | None, wanted: WantedRecords) -> int:
    """Print every record as a sentence, and each damage on stderr; return the exit code."""

    def one(path: str) -> int:
        view = read_journal(files, path, live=True)
        if not wanted.as_json:
            _say(f"{_title(path)}:")
        for line in dumped(view, wanted):
            _say(line)
        report = check_journal(files, path)  # it finds lost items, which a listing cannot show
        _name_damages([*report.damages, *view.torn], sys.stderr)
        if report.unreadable:
            _say(f"  {lost_items_text(report.unreadable)}", sys.stderr)
        return DAMAGED if report.damages else WELL

    return _each(files, folder, one, queue)


def verify(files: Files, folder: str, as_json: bool, watch: Watch) -> int:
    """Print for each queue its content and its damage; return the exit code."""
    reports: list[Report] = []
    running = is_running(files, folder)
    if running is not None and not as_json:
        _say(f"{folder}: {'a daemon is running here' if running else 'no daemon is running here'}")

    def one(path: str) -> int:
        report = check_journal(files, path, watch(f"verify {_title(path)}"))
        reports.append(report)
        if not as_json:
            _say(report_line(report))
            _name_damages([*report.damages, *report.torn], sys.stdout)
            if report.unreadable:
                _say(f"  {lost_items_text(report.unreadable)}")
        return DAMAGED if report.damages else WELL

    code = _each(files, folder, one)
    if as_json and (reports or code != UNUSABLE):
        facts = {"data_dir": folder, "daemon_running": running, "clean": code == WELL}
        _say(json.dumps({**facts, "journals": [report_facts(each) for each in reports]}))
    return code


def repair(files: Files, folder: str, dry_run: bool, yes: bool, watch: Watch) -> int:
    """Print the damage and its repair, and do it; return the exit code."""
    if is_running(files, folder):
        _complain(f"{folder}: a daemon is running here; stop it first")
        return UNUSABLE
    try:
        if owning_folder(files, folder) != folder:
            folder = os.path.abspath(folder)  # the lock names its directory in this way
    except OSError as error:
        _complain(_reason(error, folder))
        return UNUSABLE
    repairs: list[Repair] = []

    def plan(path: str) -> int:
        found = repair_of(files, path, watch(f"check {_title(path)}"))
        if found.needed:
            repairs.append(found)
            _say(f"{_title(path)}:")
            for line in found.sentences():
                _say(f"  {line}")
            if found.report.unreadable:
                _say(f"  {lost_items_text(found.report.unreadable)}")
        return WELL

    code = _each(files, folder, plan)
    if code != WELL or not repairs:
        if code == WELL:
            _say("nothing is damaged")
        return code
    if dry_run:
        _say("nothing was changed (--dry-run)")
        return DAMAGED
    if not yes and not _asked("Do all of this?"):
        _say("nothing was changed")
        return DAMAGED
    try:
        with owned(files, folder):
            for each in repairs:
                each.check()
            for each in repairs:
                each.run(time.time_ns() // 1_000_000)
    except (JournalError, OSError) as error:
        _complain(_reason(error, folder))
        return UNUSABLE
    return verify(files, folder, False, watch)


def report_line(report: Report) -> str:
    """Return one journal as one line."""
    of = f"snapshot of lsn {report.lsn_snapshot}, " if report.lsn_snapshot else ""
    return (
        f"{_title(report.folder)}: queue {shown(report.name, len(report.name))}, "
        f"{_counted(report.segments, 'segment')}, {_counted(report.records, 'record')}, "
        f"{report.live_set}, {of}synced up to lsn {report.lsn_synced}, {report.ending}"
    )


def report_facts(report: Report) -> dict[str, object]:
    """Return the same for programs."""
    return {
        "folder": _title(report.folder),
        "queue": shown(report.name, len(report.name)),
        "generation": report.generation,
        "segments": report.segments,
        "snapshots": report.snapshots,
        "lsn_snapshot": report.lsn_snapshot,
        "records": report.records,
        "live_items": report.items,
        "unreadable_items": len(report.unreadable),
        "unreadable": runs(report.unreadable),
        "bytes": report.bytes,
        "lsn_synced": report.lsn_synced,
        "records_behind_sync": report.records_behind_sync,
        "ending": report.ending,
        "damages": [asdict(each) | {"sentence": each.sentence()} for each in report.damages],
        "torn": [asdict(each) | {"sentence": each.sentence()} for each in report.torn],
    }


def _each(
    files: Files, folder: str, act: Callable[[str], int], queue: str | None = None
) -> int:
    """Do it for every journal in `folder`; return the highest exit code. Print any that cannot be
    read.
    """
    try:
        folders = journal_folders(files, folder)
        if not folders:
            raise JournalError(f"{folder}: no journal here, nor in a folder directly below")
        if queue is not None:
            folders = [path for path in folders if _is_of(path, os.fsencode(queue))]
            if not folders:
                raise JournalError(f"{folder}: no journal of a queue {queue}")
    except JournalError as error:
        _complain(str(error))
        return UNUSABLE
    code = WELL
    for one in folders:
        try:
            code = max(code, act(one))
        except BrokenPipeError:
            raise
        except (JournalError, ValueError, OSError) as error:
            _complain(_reason(error, one))
            code = UNUSABLE
    return code


def _is_of(path: str, queue: bytes) -> bool:
    title = _title(path)
    return title == folder_name(queue, parse_folder_name(title)[1])


def _reason(error: Exception, folder: str) -> str:
    text = str(error)
    if isinstance(error, OSError):
        text = f"{error.filename or folder}: {error.strerror or error}"
    return text if folder in text else f"{folder}: {text}"


def _name_damages(damages: list[Damage], stream: TextIO) -> None:
    for damage in damages:
        _say(f"  {damage.sentence()}", stream)


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print one line, whatever names and bodies are in it and whatever the terminal can show."""
    stream = stream if stream is not None else sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def _asked(question: str) -> bool:
    """True for a yes on standard input; anything else, and its end, is a no."""
    sys.stdout.write(f"{question} [y/N] ")
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _percent(doing: str) -> Progress:
    """Print a percentage on stderr while a person is watching."""
    if not sys.stderr.isatty():
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        text = f"\r{doing}: {done * 100 // total}%" if done < total else "\r\033[K"
        sys.stderr.write(text)
        sys.stderr.flush()

    return show


def _complain(text: str) -> None:
    _say(f"{_name.get()}: {text}", sys.stderr)


def _title(folder: str) -> str:
    return os.path.basename(os.path.abspath(folder))


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _parser() -> argparse.ArgumentParser:
    parser = _OneLine(prog="journal", description="The journals of a stopped or live daemon.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_OneLine)
    described = "a data directory, or one queue's folder in it"
    one = commands.add_parser("dump", help="print every record as a sentence")
    one.add_argument("dir", metavar="DIR", help=described)
    one.add_argument("--from-lsn", type=int, default=0, metavar="N", help="begin at this record")
    one.add_argument("--lsn-from", type=int, dest="from_lsn", help=argparse.SUPPRESS)
    one.add_argument("--queue", metavar="NAME", help="only this queue's")
    one.add_argument("--bodies", action="store_true", help="print bodies in full")
    one.add_argument("--json", action="store_true", help="a line of JSON for each record")
    two = commands.add_parser("verify", help="say what is there and what is damaged")
    two.add_argument("dir", metavar="DIR", help=described)
    two.add_argument("--json", action="store_true", help="for programs")
    three = commands.add_parser("repair", help="set aside what is damaged, keep all the rest")
    three.add_argument("dir", metavar="DIR", help=described)
    three.add_argument("--dry-run", action="store_true", help="say what it would do, and no more")
    three.add_argument("--yes", action="store_true", help="do not ask")
    return parser


if __name__ == "__main__":
    sys.exit(main())
