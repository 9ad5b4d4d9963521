"""`kestrelpy queues create` and `show`: a queue and its declared settings.

One rule: the server decides which values are valid; this module only turns text into TOML.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.listing import WIDE, decoded, queue_facts
from kestrelpy.cli.remote import connected

_STDIN: Final = Path("-")


def create(server: str, queue: str, settings: list[str], source: Path | None) -> None:
    """Declare the queue with these settings, or with those of a file; raise CommandError."""
    if settings and source is not None:
        raise CommandError("--set and --from do not go together: put all settings into the file")
    body = _read(source) if source is not None else _as_toml(settings)
    with connected(server) as client:
        there = bool(client.stats(queue))
        if not client.set(f"{queue}/declare", body):
            raise CommandError(
                f"{queue}: other settings were declared for it, and they stay: "
                f"kestrelpy queues show {queue}",
                NOTHING,
            )
    print(f"{queue}: {'exists, and has these settings' if there else 'made'}")


def show(server: str, queue: str, as_json: bool) -> None:
    """Print a queue's settings and counts; raise CommandError."""
    with connected(server) as client:
        settings = _settings(queue, client.stats(f"{queue}/settings"))
        figures = queue_facts(client, queue.encode("utf-8", "surrogateescape"))
    if not settings or not figures:
        raise CommandError(f"{queue}: there is no such queue", NOTHING)
    if as_json:
        named = {key: {"value": value, "from": source} for key, value, source in settings}
        print(json.dumps({"name": queue, "settings": named, "figures": figures}))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("setting", "value", "from"):
        table.add_column(title, no_wrap=True)
    for key, value, source in settings:
        table.add_row(key, Text(_word(value)), source)
    console = Console(width=WIDE)
    console.print(table)
    print()
    width = max(map(len, figures))
    for name, figure in figures.items():
        print(f"{name:<{width}}  {figure}")


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
