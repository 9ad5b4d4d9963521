"""`kestrelpy schedules ls`: the next run of each schedule of a server, and the last one.

A schedule without a run yet shows its start.
"""

from __future__ import annotations

import json
import sys
from typing import Final
from urllib.parse import unquote

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.at import At
from kestrelpy.cli.queues.listing import decoded
from kestrelpy.cli.remote import NONE, connected, date, printable
from kestrelpy.cli.screen import WIDE

_PREFIX: Final = "schedule_"
# Every schedule has this fact, and no other fact ends like it; a schedule's own name may hold
# anything.
_SURE: Final = "_catch_up"
_FACTS: Final = (
    "queue", "cron", "timezone", "catch_up", "next", "last", "waiting", "state",
)  # fmt: skip
_TIMES: Final = ("next", "last")


def ls(at: At, as_json: bool) -> None:
    """Print every schedule; raise CommandError."""
    with connected(at) as client:
        told = client.stats("schedules")
    found = {key.decode("ascii"): decoded(value) for key, value in told.items()}
    names = [key[len(_PREFIX) : -len(_SURE)] for key in found if key.endswith(_SURE)]
    schedules = [(name, _facts(found, name)) for name in names]
    if as_json:
        print(json.dumps([{"name": name, **_in_ms(facts)} for name, facts in schedules]))
    elif schedules:
        _print_table(schedules)
    else:
        print(f"no schedules on {at.server}", file=sys.stderr)


def _facts(found: dict[str, str | int], name: str) -> dict[str, str | int | None]:
    facts: dict[str, str | int | None] = {}
    for fact in _FACTS:
        value = found.get(f"{_PREFIX}{name}_{fact}", NONE)
        if fact in _TIMES:
            facts[fact] = None if value == NONE else int(value)
        else:
            facts[fact] = unquote(value) if isinstance(value, str) else value
    return facts


def _in_ms(facts: dict[str, str | int | None]) -> dict[str, str | int | None]:
    """Return the facts with the times as `<name>_ms`, like those of every other listing."""
    return {
        f"{fact}_ms" if fact in _TIMES else fact:
            value * 1000 if fact in _TIMES and isinstance(value, int) else value
        for fact, value in facts.items()
    }  # fmt: skip


def _print_table(schedules: list[tuple[str, dict[str, str | int | None]]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("schedule", *_FACTS):
        table.add_column(title, no_wrap=True, justify="right" if title == "waiting" else "left")
    for name, facts in schedules:
        row = [
            date(value * 1000) if fact in _TIMES and isinstance(value, int)
            else NONE if value is None
            else printable(str(value))
            for fact, value in facts.items()
        ]  # fmt: skip
        table.add_row(Text(name), *map(Text, row))
    Console(width=WIDE).print(table)
