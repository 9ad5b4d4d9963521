"""`kestrelpy status` and `queues ls`: the facts of a server, for people and for programs.

One rule: people get units, dates and totals; --json has the server's own numbers, and every time in
ms.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Final

from pymemcache.client.base import Client
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.at import At
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.remote import connected, date, printable
from kestrelpy.cli.screen import console, duration, repeated, size, state, table
from kestrelpy.cli.wire import Facts, all_stats

MODES: Final = ("up", "readonly", "quiescent")

# The columns for people, with their names in `stats`; --json shows everything.
_COLUMNS: Final = {
    "items": "items",
    "bytes": "bytes",
    "leased": "leased",
    "delayed": "delayed",
    "dead": "dead",
    "waiters": "waiters",
    "age": "age",
    "stored": "total_items",
    "redelivered": "redelivered",
    "on disk": "logsize",
    "state": "state",
}
_SIZES: Final = frozenset({
    "bytes", "mem_bytes", "logsize", "logsize_live", "logsize_done", "logsize_reserve",
    "bytes_read", "bytes_written", "kept_bytes",
})  # fmt: skip
_SECONDS: Final = frozenset({"uptime", "time"})
_NOT_COUNTED: Final = frozenset({"age", "state"})  # columns without a sum


def status(at: At, new_mode: str | None, as_json: bool, watch: str | None = None) -> None:
    """Print the server's own facts; set its mode first, if asked. Raise CommandError."""
    if new_mode is not None and new_mode not in MODES:
        raise CommandError(f"--set: {new_mode!r} is not a mode, known are {', '.join(MODES)}")
    if new_mode is not None:
        with connected(at) as client:
            client.raw_command(f"status {new_mode}")
    repeated(watch, lambda: _status(at, as_json))


def _status(at: At, as_json: bool) -> None:
    with connected(at) as client:
        mode = client.raw_command("status").decode("ascii", "replace").lower()
        found, queues = all_stats(client)
    facts: Facts = {"server": at.server, "status": mode, **found}
    if as_json:
        print(json.dumps(_in_ms(facts)))
        return
    counted = ("items", "bytes", "delayed", "leased", "dead", "logsize")
    sums: Facts = {key: total(queues, key) for key in counted}
    print_facts({**facts, "total": f"{_count(len(queues), 'queue')}, {in_total(sums)}"})


def _in_ms(facts: Facts) -> Facts:
    """Return the facts with those that Kestrel has in seconds as `<name>_ms`."""
    return {
        f"{name}_ms" if name in _SECONDS else name: number(facts, name) * 1000
        if name in _SECONDS else value
        for name, value in facts.items()
    }  # fmt: skip


def queues_ls(at: At, as_json: bool, watch: str | None = None) -> None:
    """Print every queue with its counts; raise CommandError."""
    repeated(watch, lambda: _queues_ls(at, as_json))


def _queues_ls(at: At, as_json: bool) -> None:
    with connected(at) as client:
        queues = all_stats(client).queues
    if as_json:
        print(json.dumps([{"name": name, **facts} for name, facts in queues]))
    elif queues:
        console().print(_table(queues))
    else:
        print(f"no queues on {at.server}", file=sys.stderr)


def queue_facts(client: Client, name: bytes) -> Facts:
    """Return one queue's counts and its state; empty if there is no such queue."""
    prefix = b"queue_" + name + b"_"
    return {
        each.removeprefix(prefix).decode("ascii"): decoded(fact)
        for each, fact in client.stats(name).items()
    }


def decoded(value: bytes | int) -> str | int:
    """Return a fact as a number or as text."""
    return value.decode("ascii") if isinstance(value, bytes) else value


def print_facts(facts: Facts) -> None:
    """Print a line for each fact, with its unit."""
    width = max(map(len, facts))
    out = console()
    for name, value in facts.items():
        out.print(Text(f"{name:<{width}}  ") + in_words(name, value))


def in_words(name: str, value: int | str) -> Text:
    """Return the value of a fact of `stats` for people."""
    if isinstance(value, str):
        return state(value)
    if name in _SIZES:
        return Text(size(value))
    if name == "age":
        return Text(duration(value))
    if name == "uptime":
        return Text(duration(value * 1000))
    if name == "time":
        return Text(date(value * 1000))
    return Text(f"{value:,}")


def in_total(facts: Facts) -> str:
    """Return how many items there are, by state, in one line."""
    items = {key: number(facts, key) for key in ("items", "delayed", "leased", "dead")}
    return (
        f"{_count(sum(items.values()), 'item')}: {items['items']:,} ready "
        f"({size(number(facts, 'bytes'))}), {items['delayed']:,} delayed, "
        f"{items['leased']:,} leased, {items['dead']:,} dead; "
        f"{size(number(facts, 'logsize'))} on disk"
    )


def number(facts: Facts, key: str) -> int:
    """Return a count, 0 if the server does not have it."""
    value = facts.get(key, 0)
    return value if isinstance(value, int) else 0


def total(queues: Sequence[tuple[str, Facts]], key: str) -> int:
    """Return the sum of a count over all queues."""
    return sum(number(facts, key) for _, facts in queues)


def queue_state(facts: Facts) -> Text:
    """Return the state of a queue; "paused" is one of them."""
    word = str(facts.get("state", ""))
    return state("paused" if facts.get("paused") and word == "ok" else word)


def place_of(facts: Facts) -> str:
    """Return where a queue is: its slice, and the member that owns it; "": there are no slices."""
    if "slice" not in facts:
        return ""
    if facts["slice"] == "all":
        return "all slices"
    member = f", {printable(str(facts['member']))}" if "member" in facts else ""
    return f"slice {facts['slice']}{member}"


def _table(queues: Sequence[tuple[str, Facts]]) -> Table:
    places = [place_of(facts) for _, facts in queues]
    where = ("where",) if any(places) else ()
    made = table("queue", *_COLUMNS, *where, left=("queue", "where"))
    for (name, facts), place in zip(queues, places, strict=True):
        row = [
            queue_state(facts) if key == "state" else in_words(key, facts.get(key, 0))
            for key in _COLUMNS.values()
        ]
        made.add_row(Text(name), *row, *([Text(place)] if where else []))
    sums = [
        Text() if key in _NOT_COUNTED else in_words(key, total(queues, key))
        for key in _COLUMNS.values()
    ]
    made.add_section()
    made.add_row(Text(f"total ({_count(len(queues), 'queue')})"), *sums, style="bold")
    return made


def _count(count: int, thing: str) -> str:
    return f"1 {thing}" if count == 1 else f"{count:,} {thing}s"
