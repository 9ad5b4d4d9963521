"""`kestrelpy dead ls` and `dead purge`: the dead letters of a queue, and their reasons.

One rule: a purge removes the items that were dead at the time of the yes; later dead letters stay.
"""

from __future__ import annotations

import json
import sys
from typing import Final
from urllib.parse import unquote

from pymemcache.client.base import Client
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.asking import asked, report
from kestrelpy.cli.at import At
from kestrelpy.cli.errors import NOTHING, CommandError
from kestrelpy.cli.remote import (
    NONE,
    connected,
    date,
    printable,
    require_queue,
)
from kestrelpy.wire.names import state_word

_AT_ONCE: Final = 500  # removals in flight: they share a sync
_WIDE: Final = 1000

Death = dict[str, str | int | None]


def ls(at: At, queue: str, as_json: bool) -> None:
    """Print every dead letter; raise CommandError."""
    with connected(at) as client:
        deaths = deaths_of(client, queue)
        if not deaths:
            require_queue(client, queue)
    if as_json:
        print(json.dumps(list(deaths.values())))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("number", "attempts", "bytes", "died", "state", "reason"):
        is_number = title in ("number", "attempts", "bytes")
        table.add_column(title, justify="right" if is_number else "left", no_wrap=True)
    for number, death in deaths.items():
        died_ms = death["died_ms"]
        assert isinstance(died_ms, int)
        words = (number, death["attempts"], death["bytes"], date(died_ms), death["state"],
                 death["reason"] or NONE)  # fmt: skip
        table.add_row(*(Text(printable(str(word))) for word in words))
    if deaths:
        Console(width=_WIDE).print(table)
    else:
        print(f"no dead letters in {queue}", file=sys.stderr)


def purge(
    at: At, queue: str, numbers: list[int], everything: bool, yes: bool, as_json: bool = False
) -> None:
    """Remove these dead letters, or all of them; raise CommandError if one of them stays."""
    if bool(numbers) == everything:
        raise CommandError("dead purge: say which items, or --all of them")
    with connected(at) as client:
        require_queue(client, queue)
        deaths = deaths_of(client, queue)
        chosen = list(deaths) if everything else list(dict.fromkeys(numbers))
        known = [number for number in chosen if number in deaths]
        question = f"{dead_items(len(known))} of {queue} go for good. Remove?"
        if known and not yes and not asked(question):
            raise CommandError("nothing was changed", NOTHING)
        for first in range(0, len(known), _AT_ONCE):
            some = known[first : first + _AT_ONCE]
            client.delete_many([f"{queue}/dead/item={number}" for number in some])
        left = deaths_of(client, queue) if known else {}
    stay = [number for number in chosen if number in left]
    gone = len(known) - len(stay)
    report(as_json, {"queue": queue, "purged": gone}, f"purged {dead_items(gone)} of {queue}")
    missing = [number for number in chosen if number not in deaths]
    if missing:
        raise CommandError(f"{queue}: not among the dead letters: {listed(missing)}", NOTHING)
    if stay:
        raise CommandError(f"{queue}: they are leased, so they stay: {listed(stay)}", NOTHING)


def deaths_of(client: Client, queue: str) -> dict[int, Death]:
    """Return the server's facts of each dead letter, by number, oldest first."""
    prefix, found = f"queue_{queue}_dead_", dict[int, Death]()
    for key, value in client.stats(f"{queue}/dead").items():
        number, _, fact = key.decode("ascii").removeprefix(prefix).partition("_")
        death = found.setdefault(int(number), {"number": int(number)})
        word = _decoded(value)
        death[fact] = state_word(str(word)) if fact == "state" else word
    return found


def _decoded(value: bytes | int) -> str | int | None:
    if isinstance(value, int):
        return value
    text = value.decode("ascii")
    return unquote(text) if text != NONE else None


def dead_items(count: int) -> str:
    """Return the number of dead letters in words."""
    return "1 dead letter" if count == 1 else f"{count} dead letters"


def listed(numbers: list[int], most: int = 20) -> str:
    """Return the first of the numbers, and how many more there are."""
    rest = f" and {len(numbers) - most} more" if len(numbers) > most else ""
    return ", ".join(map(str, numbers[:most])) + rest
