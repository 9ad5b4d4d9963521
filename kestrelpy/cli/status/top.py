"""`kestrelpy top`: whether all is well with a server, and its busiest queues, live.

    two answers to `stats`, some time apart ──▶ a row for each queue, with its rates ──▶ sorted

At a terminal the table is drawn again and again, and a key changes the order; the last line names
the keys. Elsewhere it is printed once.

One rule: a rate is the difference of two counts over the time between them; a first print has none.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.at import At
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.queues.listing import number, place_of, queue_state
from kestrelpy.cli.remote import NONE, connected
from kestrelpy.cli.screen import console, duration, parse_interval, size, state, table
from kestrelpy.cli.status.verdict import ServerVerdict, ask_verdict, lines_of
from kestrelpy.cli.wire import Facts, all_stats

_HELD: Final = ("items", "delayed", "leased", "dead")
# The order of each column, and its key at a terminal.
SORTS: Final = {
    "name": "n", "items": "i", "bytes": "b", "delayed": "d", "leased": "l", "dead": "x",
    "waiters": "w", "age": "a", "in": "p", "out": "o", "disk": "s",
}  # fmt: skip
_QUIT: Final = "q"
# An answer that did not come is not waited for at each print.
_ASK_AGAIN_SECONDS: Final = 10.0
Queues = Sequence[tuple[str, Facts]]


@dataclass(frozen=True, slots=True)
class TopRow:
    """A queue: its counts, and items in and out in a second (None: not known yet). Over slices its
    `slice`, "all" if it is in all, and in a fleet the member that owns it."""

    name: str
    items: int
    bytes: int
    delayed: int
    leased: int
    dead: int
    waiters: int
    age_ms: int
    in_per_s: float | None
    out_per_s: float | None
    disk_bytes: int
    state: str
    slice: int | str | None = None
    member: str | None = None


def rows_of(now: Queues, before: Queues, seconds: float) -> list[TopRow]:
    """Return a row for each queue; its rates since `before`, that many seconds ago."""
    earlier = dict(before)
    return [_row(name, facts, earlier.get(name), seconds) for name, facts in now]


def in_order(rows: list[TopRow], sort: str) -> list[TopRow]:
    """Return the rows with the largest first; by name from a on."""
    if sort == "name":
        return sorted(rows, key=lambda row: row.name)
    field = {"age": "age_ms", "in": "in_per_s", "out": "out_per_s", "disk": "disk_bytes"}
    name = field.get(sort, sort)
    return sorted(rows, key=lambda row: (-(getattr(row, name) or 0), row.name))


def top(at: At, sort: str, interval: str, once: bool, most: int, as_json: bool) -> None:
    """Show the queues until q or Ctrl-C, or once; raise CommandError."""
    if sort not in SORTS:
        raise CommandError(f"--sort: {sort!r} is not a column, known are {', '.join(SORTS)}")
    seconds = parse_interval(interval, "--interval")
    if once or as_json or not sys.stdout.isatty():
        with connected(at) as client:
            stats = all_stats(client)
        rows = in_order(rows_of(stats.queues, [], 0), sort)
        if not as_json and number(stats.server, "http_port"):
            for line in lines_of(ask_verdict(at, stats.server)):
                console().print(line, soft_wrap=True)
        if as_json:
            print(json.dumps([asdict(row) for row in rows[:most]]))
        elif rows:
            console().print(_table(rows, most))
        else:
            print(f"no queues on {at.server}", file=sys.stderr)
        return
    with contextlib.suppress(KeyboardInterrupt):
        _live(at, sort, seconds, most)


def _live(at: At, sort: str, seconds: float, most: int) -> None:
    with (
        connected(at) as client,
        _pressed_keys() as key_within,
        Live(console=console(), screen=True, auto_refresh=False) as live,
    ):
        queues: Queues = []
        verdict, ask_at = ServerVerdict({}), 0.0
        seen_at = time.monotonic()
        while True:
            now, earlier = time.monotonic(), queues
            stats = all_stats(client)
            queues = stats.queues
            if now >= ask_at:
                verdict = ask_verdict(at, stats.server)
                ask_at = now + _ASK_AGAIN_SECONDS if verdict.why_not else now
            rows = rows_of(queues, earlier, now - seen_at)
            seen_at = now
            while True:
                live.update(_screen(at, in_order(rows, sort), sort, most, verdict), refresh=True)
                key = key_within(max(now + seconds - time.monotonic(), 0))
                if key == _QUIT:
                    return
                if not key:
                    break
                sort = next((name for name, each in SORTS.items() if each == key), sort)


@contextlib.contextmanager
def _pressed_keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits for a key for some seconds; without a keyboard it only waits."""
    if not sys.stdin.isatty():
        yield _no_key_within
        return

    def key_within(seconds: float) -> str:
        ready, _, _ = select.select([descriptor], [], [], seconds)
        return os.read(descriptor, 1).decode("ascii", "replace") if ready else ""

    descriptor = sys.stdin.fileno()
    was = termios.tcgetattr(descriptor)
    try:
        tty.setcbreak(descriptor)
        yield key_within
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, was)


def _no_key_within(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _row(name: str, facts: Facts, before: Facts | None, seconds: float) -> TopRow:
    came = went = None
    if before is not None and seconds > 0:
        arrived = number(facts, "total_items") - number(before, "total_items")
        more = sum(number(facts, key) - number(before, key) for key in _HELD)
        came, went = max(arrived, 0) / seconds, max(arrived - more, 0) / seconds
    return TopRow(
        name, number(facts, "items"), number(facts, "bytes"), number(facts, "delayed"),
        number(facts, "leased"), number(facts, "dead"), number(facts, "waiters"),
        number(facts, "age"), came, went, number(facts, "logsize"), queue_state(facts).plain,
        facts.get("slice"), str(facts["member"]) if "member" in facts else None,
    )  # fmt: skip


def _screen(at: At, rows: list[TopRow], sort: str, most: int, verdict: ServerVerdict) -> Group:
    head = f"{at.server}  {len(rows):,} queues, by {sort}"
    keys = "  ".join(f"{key} {name}" for name, key in SORTS.items())
    return Group(
        *lines_of(verdict), Text(head), Text(), _table(rows, most), Text(),
        Text(f"{keys}  {_QUIT} end"),
    )  # fmt: skip


def _table(rows: list[TopRow], most: int) -> Table:
    where = ("where",) if any(row.slice is not None for row in rows) else ()
    made = table(
        "queue", "items", "bytes", "delayed", "leased", "dead", "waiters", "age", "in/s", "out/s",
        "disk", "state", *where, left=("queue", "state", "where"),
    )  # fmt: skip
    for row in rows[:most]:
        counts = (f"{count:,}" for count in (row.delayed, row.leased, row.dead, row.waiters))
        made.add_row(
            Text(row.name), f"{row.items:,}", size(row.bytes), *counts, duration(row.age_ms),
            _rate(row.in_per_s), _rate(row.out_per_s), size(row.disk_bytes), state(row.state),
            *([Text(_place(row))] if where else []),
        )  # fmt: skip
    made.add_section()
    made.add_row(
        Text(f"total ({len(rows):,})"), f"{sum(row.items for row in rows):,}",
        size(sum(row.bytes for row in rows)),
        *(f"{sum(getattr(row, key) for row in rows):,}"
          for key in ("delayed", "leased", "dead", "waiters")),
        "", _rate(_sum([row.in_per_s for row in rows])),
        _rate(_sum([row.out_per_s for row in rows])),
        size(sum(row.disk_bytes for row in rows)), "", style="bold",
    )  # fmt: skip
    return made


def _place(row: TopRow) -> str:
    facts: dict[str, int | str | None] = {"slice": row.slice, "member": row.member}
    return place_of({name: value for name, value in facts.items() if value is not None})


def _sum(rates: list[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    return sum(known) if known else None


def _rate(rate: float | None) -> str:
    if rate is None:
        return NONE
    return f"{rate:.1f}" if rate < 10 else f"{rate:,.0f}"
