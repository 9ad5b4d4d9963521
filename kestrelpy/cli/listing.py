"""`kestrelpy status` and `queues ls`: the facts of a server, for people and for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from pymemcache.client.base import Client
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.remote import connected
from kestrelpy.durations import format_duration_ms

MODES: Final = ("up", "readonly", "quiescent")

# The server's own among the lines of `stats` that begin with queue_.
_OWN_FACTS: Final = frozenset({"queue_creates", "queue_deletes", "queue_expires"})

# The columns for people, with their names in `stats`; --json shows everything.
_COLUMNS: Final = {
    "items": "items",
    "bytes": "bytes",
    "open": "open_transactions",
    "delayed": "delayed",
    "dead": "dead",
    "waiters": "waiters",
    "age": "age",
    "stored": "total_items",
    "redelivered": "redelivered",
    "on disk": "logsize",
    "state": "state",
}
WIDE: Final = 1000  # columns: a narrow terminal may wrap a name, but none is cut
_SHORT_MS: Final = 10_000  # ages below this are shown with milliseconds


def status(server: str, new_mode: str | None, as_json: bool) -> None:
    """Print the server's own facts; set its mode first, if asked. Raise CommandError."""
    if new_mode is not None and new_mode not in MODES:
        raise CommandError(f"--set: {new_mode!r} is not a mode, known are {', '.join(MODES)}")
    with connected(server) as client:
        if new_mode is not None:
            client.raw_command(f"status {new_mode}")
        mode = client.raw_command("status").decode("ascii", "replace").lower()
        found = client.stats()
    facts = {"server": server, "status": mode}
    for key, value in found.items():
        name = key.decode("ascii")
        if name in _OWN_FACTS or not name.startswith("queue_"):
            facts[name] = decoded(value)
    if as_json:
        print(json.dumps(facts))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")


def queues_ls(server: str, as_json: bool) -> None:
    """Print every queue with its counts; raise CommandError."""
    with connected(server) as client:
        queues = _all_queues(client)
    if as_json:
        print(json.dumps([{"name": name, **facts} for name, facts in queues]))
    elif queues:
        _print_table(queues)
    else:
        print(f"no queues on {server}", file=sys.stderr)


def _all_queues(client: Client) -> list[tuple[str, dict[str, int | str]]]:
    """Yield the queues with their counts and their state.

    In `stats` names and counts run into each other (`queue_a_open_transactions`: of a, or of
    a_open?). So `stats` gives only the names, by a count whose name ends no other's.
    """
    found = []
    for key in client.stats():
        name = key.removeprefix(b"queue_").removesuffix(b"_logsize")
        if len(name) + len(b"queue__logsize") == len(key):
            facts = queue_facts(client, name)
            if facts:  # else it was deleted meanwhile
                found.append((name.decode("ascii"), facts))
    return found


def queue_facts(client: Client, name: bytes) -> dict[str, int | str]:
    """Return one queue's counts and its state; empty if there is no such queue."""
    prefix = b"queue_" + name + b"_"
    return {
        each.removeprefix(prefix).decode("ascii"): decoded(fact)
        for each, fact in client.stats(name).items()
    }


def decoded(value: bytes | int) -> str | int:
    """Return a fact as a number or as text."""
    return value.decode("ascii") if isinstance(value, bytes) else value


def _print_table(queues: Sequence[tuple[str, dict[str, int | str]]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("queue", no_wrap=True)
    for title in _COLUMNS:
        table.add_column(title, justify="right", no_wrap=True)
    for name, facts in queues:
        if facts.get("paused") and facts.get("state") == "ok":
            facts = {**facts, "state": "paused"}
        row = [_cell(title, facts.get(key, 0)) for title, key in _COLUMNS.items()]
        table.add_row(Text(name), *row)
    Console(width=WIDE).print(table)


def _cell(title: str, number: int | str) -> str:
    if isinstance(number, str):
        return number
    if title != "age":
        return f"{number:,}"
    return format_duration_ms(number if number < _SHORT_MS else number // 1000 * 1000)
