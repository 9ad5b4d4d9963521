"""`backup.json`: the contents of a backup, and the check of every word of it before a restore.

    {"format": 1, "kestrelpy": "...", "made_at": "...", "of_server": "...",
     "queues": [{"folder": "jobs.1763712000", "queue": "jobs", "generation": 1763712000,
                 "items": 3, "bytes": 4096, "lsn": 7}, ...]}

One rule: a manifest comes from outside, so its names are checked like names on the wire, and one
mistake refuses all of it.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from journal.errors import JournalError
from journal.files import Files
from journal.format import folder_name
from kestrelpy.errors import ClientError
from kestrelpy.protocol import check_name

MANIFEST: Final = "backup.json"
FORMAT: Final = 1
# Numbers of a journal stay below 2^53, so that every reader of JSON has them exactly.
NUMBER_MAX: Final = (1 << 53) - 1
# A queue takes at most 800 bytes: room for 80,000 queues, and a bound for the parser.
_BYTES_MAX: Final = 64 << 20
_SHOWN_MAX: Final = 80  # characters of a bad value in an error: one line on a screen
_WORDS: Final = ("kestrelpy", "made_at", "of_server")
_KEYS: Final = ("format", *_WORDS, "queues")


@dataclass(frozen=True, slots=True)
class BackedUp:
    """One queue in a backup."""

    folder: str
    queue: str
    generation: int
    items: int
    bytes: int
    lsn: int


_QUEUE_KEYS: Final = tuple(field.name for field in fields(BackedUp))
_NUMBERS: Final = ("generation", "items", "bytes", "lsn")


class _Mistake(Exception):
    """Its place in the file, and the allowed values."""


def encode(version: str, made_at: str, of_server: str, queues: Sequence[BackedUp]) -> bytes:
    """Return the bytes of a manifest."""
    facts = {
        "format": FORMAT,
        "kestrelpy": version,
        "made_at": made_at,
        "of_server": of_server,
        "queues": [asdict(each) for each in queues],
    }
    return json.dumps(facts, indent=2).encode() + b"\n"


def read_manifest(files: Files, folder: str) -> list[BackedUp]:
    """Return the contents of a backup from its manifest.

    Raise JournalError if the backup is not finished, or one word of the manifest is not allowed.
    """
    if MANIFEST not in files.names(folder):
        raise JournalError(f"{folder}: no {MANIFEST} here: not a finished backup")
    path = os.path.join(folder, MANIFEST)
    try:
        if not stat.S_ISREG(files.mode(path)):
            raise _Mistake("it must be a plain file, not a link or anything else")
        if files.size(path) > _BYTES_MAX:
            raise _Mistake(f"it has {files.size(path)} bytes, {_BYTES_MAX} are allowed")
        return _decoded(files.read(path))
    except _Mistake as mistake:
        raise JournalError(f"{path}: {mistake}; nothing was restored") from None


def check_contents(files: Files, folder: str) -> None:
    """Raise JournalError unless `folder` is a folder, and no link in it leads elsewhere."""
    if not stat.S_ISDIR(files.mode(folder)):
        raise JournalError(f"{folder}: a journal of a backup must be a folder, not a link to one")
    for name in files.names(folder):
        path = os.path.join(folder, name)
        mode = files.mode(path)
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise JournalError(f"{path}: only plain files are allowed in a backup, and no links")


def _decoded(data: bytes) -> list[BackedUp]:
    try:
        facts = json.loads(data, object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError):
        raise _Mistake("it must be JSON as `kestrelpy backup` writes it") from None
    if not isinstance(facts, dict) or "format" not in facts:
        raise _Mistake('it must be an object with "format": this is no manifest of a backup')
    _check_number("format", facts["format"], 1)
    if facts["format"] > FORMAT:
        maker = facts.get("kestrelpy")
        raise _Mistake(f"it was made by a newer kestrelpy ({_shown(maker)})")
    _check_keys("it", facts, _KEYS)
    for key in _WORDS:
        _check_word(key, facts[key])
    if not isinstance(facts["queues"], list):
        raise _Mistake('"queues" must be a list')
    queues = [_queue(at, each) for at, each in enumerate(facts["queues"], 1)]
    seen = dict[str, int]()
    for at, queue in enumerate(queues, 1):  # a folder is made of its queue: it repeats with it
        first = seen.setdefault(queue.queue, at)
        if first != at:
            raise _Mistake(f"queues {first} and {at} are both {queue.queue}: once is allowed")
    return queues


def _queue(at: int, facts: object) -> BackedUp:
    where = f"queue {at}"
    if not isinstance(facts, dict):
        raise _Mistake(f"{where} must be an object")
    _check_keys(where, facts, _QUEUE_KEYS)
    for key in _NUMBERS:
        _check_number(f"{where}: {key}", facts[key], 1 if key == "generation" else 0)
    for key in ("folder", "queue"):
        _check_word(f"{where}: {key}", facts[key])
    queue = BackedUp(**facts)
    name = queue.queue.encode("utf-8", "surrogatepass")
    try:
        check_name(name)
    except ClientError as error:
        raise _Mistake(f"{where}: queue is {_shown(queue.queue)}: {error}") from None
    if b"/" in name:
        raise _Mistake(f"{where}: queue is {_shown(queue.queue)}: a name has no /")
    allowed = folder_name(name, queue.generation)
    if queue.folder != allowed:
        raise _Mistake(
            f"{where}: folder is {_shown(queue.folder)}: for {queue.queue} at generation "
            f"{queue.generation} only {allowed} is allowed"
        )
    return queue


def _check_keys(where: str, facts: dict[str, object], keys: Sequence[str]) -> None:
    for key in facts:
        if key not in keys:
            raise _Mistake(f"{where} has an unknown key {_shown(key)}: {', '.join(keys)} are known")
    for key in keys:
        if key not in facts:
            raise _Mistake(f'{where} has no "{key}"')


def _check_number(where: str, value: object, least: int) -> None:
    if type(value) is not int or not least <= value <= NUMBER_MAX:
        raise _Mistake(
            f"{where} is {_shown(value)}: a whole number from {least} to {NUMBER_MAX} is allowed"
        )


def _check_word(where: str, value: object) -> None:
    if not isinstance(value, str):
        raise _Mistake(f"{where} is {_shown(value)}: text is allowed")


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    facts = dict[str, object]()
    for key, value in pairs:
        if key in facts:
            raise _Mistake(f"the key {_shown(key)} stands twice in one object: once is allowed")
        facts[key] = value
    return facts


def _shown(value: object) -> str:
    """Return a value in printable ASCII, shortened for an error."""
    text = ascii(value) if not isinstance(value, list | dict) else type(value).__name__
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
