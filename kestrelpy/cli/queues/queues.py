"""`kestrelpy queues create`, `show`, `flush` and `delete`: a queue and its declared settings.

One rule: the server decides which values are valid; this module only turns text into TOML.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from pymemcache.client.base import Client
from rich.text import Text

from kestrelpy.cli.asking import asked, report
from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.queues.listing import decoded, in_total, number, print_facts, queue_facts
from kestrelpy.cli.remote import connected, no_queue
from kestrelpy.cli.screen import console, repeated, size, table
from kestrelpy.cli.wire import Facts

_STDIN: Final = Path("-")


def create(
    at: At, queue: str, settings: list[str], source: Path | None, as_json: bool = False
) -> None:
    """Declare the queue with these settings, or with those of a file; raise CommandError."""
    if settings and source is not None:
        raise CommandError("--set and --from do not go together: put all settings into the file")
    body = _read(source) if source is not None else _as_toml(settings)
    with connected(at) as client:
        there = bool(client.stats(queue))
        if not client.set(f"{queue}/declare", body):
            raise CommandError(
                f"{queue}: other settings were declared for it, and they stay: "
                f"kestrelpy queues show {queue}",
                NOTHING,
            )
    text = f"{queue}: {'exists, and has these settings' if there else 'made'}"
    report(as_json, {"queue": queue, "made": not there}, text)


def show(at: At, queue: str, as_json: bool, watch: str | None = None) -> None:
    """Print a queue's settings and counts; raise CommandError."""
    repeated(watch, lambda: _show(at, queue, as_json))


def _show(at: At, queue: str, as_json: bool) -> None:
    with connected(at) as client:
        settings = _settings(queue, client.stats(f"{queue}/settings"))
        figures = queue_facts(client, queue.encode("ascii"))
    if not settings or not figures:
        raise no_queue(queue)
    if as_json:
        named = {key: {"value": value, "from": source} for key, value, source in settings}
        print(json.dumps({"name": queue, "settings": named, "figures": figures}))
        return
    rows = table("setting", "value", "from", left=("setting", "value", "from"))
    for key, value, source in settings:
        rows.add_row(key, Text(_word(value)), source)
    console().print(rows)
    print()
    total = in_total(figures)
    figures.pop("open_transactions", None)  # Kestrel's name for leased
    print_facts({**figures, "total": total})


def flush(at: At, queue: str, yes: bool, as_json: bool = False) -> None:
    """Remove the ready and delayed items; raise CommandError without a yes."""
    with connected(at) as client:
        before = _facts(client, queue)
        waiting = number(before, "items") + number(before, "delayed")
        question = (
            f"{_items(waiting)} of {queue} ({number(before, 'items'):,} ready, "
            f"{number(before, 'delayed'):,} delayed) {_go(waiting)} for good. Flush?"
        )
        if waiting and not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        client.raw_command(f"flush {queue}")
    facts = {"queue": queue, "flushed": waiting}
    report(as_json, facts, f"flushed {queue}: {_items(waiting)}")


def acknowledge(at: At, queue: str, yes: bool, as_json: bool = False) -> None:
    """Give up the items that cannot be read; raise CommandError without a yes."""
    with connected(at) as client:
        lost = number(_facts(client, queue), "unreadable")
        question = f"{_items(lost)} of {queue} {_go(lost)} for good: unreadable. Give up?"
        if lost and not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        answer = client.raw_command(f"acknowledge {queue}")
        if answer == b"NOT_FOUND":
            raise no_queue(queue)
    gone = int(answer)
    report(as_json, {"queue": queue, "given_up": gone}, f"gave up {_items(gone)} of {queue}")


def delete(at: At, queue: str, yes: bool, as_json: bool = False) -> None:
    """Delete a queue with all its items; raise CommandError without a yes."""
    with connected(at) as client:
        facts = _facts(client, queue)
        every = sum(number(facts, key) for key in ("items", "delayed", "leased", "dead"))
        question = (
            f"{queue} goes for good, with {_items(every)} ({number(facts, 'items'):,} ready, "
            f"{number(facts, 'delayed'):,} delayed, {number(facts, 'leased'):,} leased, "
            f"{number(facts, 'dead'):,} dead; {size(number(facts, 'logsize'))} on disk). Delete?"
        )
        if not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        if not client.delete(queue):
            raise no_queue(queue)
    report(as_json, {"queue": queue, "deleted": every}, f"deleted {queue}: {_items(every)}")


def _facts(client: Client, queue: str) -> Facts:
    facts = queue_facts(client, queue.encode("ascii"))
    if not facts:
        raise no_queue(queue)
    return facts


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count:,} items"


def _go(count: int) -> str:
    return "goes" if count == 1 else "go"


def _read(source: Path) -> bytes:
    if source == _STDIN:
        return sys.stdin.buffer.read()
    try:
        return source.read_bytes()
    except OSError as error:
        raise CommandError(f"--from: {source}: {error.strerror}") from None


def _as_toml(settings: list[str]) -> bytes:
    """Return `key=value` pairs as lines of TOML: numbers and booleans as they are, the rest as
    text."""
    lines = []
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not re.fullmatch("[A-Za-z0-9_-]+", key):
            raise CommandError(f"--set: {setting!r} must be key=value, for instance lease=5m")
        is_bare = value in ("true", "false") or re.fullmatch("0|[1-9][0-9]{0,17}", value)
        lines.append(f"{key} = {value if is_bare else json.dumps(value)}\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _settings(
    queue: str, found: dict[bytes, bytes | int]
) -> list[tuple[str, str | int | bool, str]]:
    """Return key, value and source of each setting, in the server's order."""
    facts = {key.decode("ascii"): decoded(value) for key, value in found.items()}
    prefix, source = f"queue_{queue}_setting_", f"queue_{queue}_source_"
    return [
        (key, _value(value), str(facts.get(source + key, "")))
        for name, value in facts.items()
        if (key := name.removeprefix(prefix)) != name
    ]


def _value(value: str | int) -> str | int | bool:
    """Return the value as in TOML."""
    if isinstance(value, int):
        return value
    text = unquote(value)
    return text == "true" if text in ("true", "false") else text


def _word(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
