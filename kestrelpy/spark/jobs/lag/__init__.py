"""How far each consumer is behind: items, bytes, the oldest age, and the time to drain.

    python -m kestrelpy.spark.jobs.lag --servers a:22133,b:22133 --queues 'jobs*'

    look ──── interval ────▶ look again
    total_items   t0   t1        in   = (t1 - t0) / s
    unfinished    u0   u1        out  = in - (u1 - u0) / s        drain = u1 / (out - in)

A row is one queue of one server; each child and cursor (`orders+audit`) is a consumer of its own.
`unfinished` counts ready, leased and delayed items. The time to drain is what it takes at the
rates between the two looks; it is unknown if the backlog does not shrink.

Exit code 1: a consumer has more than `--most-items`, or an item is older than `--most-age`.

One rule: a look asks for `stats` only, so it takes no item and creates nothing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from kestrelpy.durations import format_duration_ms, parse_duration_ms
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.jobs.common.fleet import (
    FleetFigures,
    ServerFigures,
    add_flags,
    fleet_options,
    look,
)
from kestrelpy.spark.jobs.common.job import BREACH, HOLDS, Outcome, Progress, counted, perform
from kestrelpy.spark.options import Options

INTERVAL: Final = "5s"
_SHOWN: Final = ("server", "queue", "items", "leased", "delayed", "dead", "bytes", "oldest", "in/s",
                 "out/s", "drain")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Watch:
    """How long to wait between the two looks, and from where on the lag is too much."""

    interval: str = INTERVAL
    most_items: int | None = None
    most_age: str | None = None

    @property
    def interval_ms(self) -> int:
        """Raises KestrelError."""
        found = _duration_ms("--interval", self.interval)
        if found <= 0:
            raise KestrelError("--interval 0s is no time between two looks. Say 1s or more.")
        return found

    @property
    def most_age_ms(self) -> int | None:
        """Raises KestrelError."""
        return None if self.most_age is None else _duration_ms("--most-age", self.most_age)


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one consumer. Rates are None if its server was started between the looks."""

    server: str
    queue: str
    consumer: str | None  # the child's name; None: the queue's own consumers
    items: int
    leased: int
    delayed: int
    dead: int
    bytes: int
    oldest_ms: int
    in_per_second: float | None
    out_per_second: float | None
    drain_seconds: float | None  # None: it does not shrink, or nothing is known
    is_too_much: bool


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="lag", description=__doc__.splitlines()[0])
    add_flags(parser)
    parser.add_argument("--interval", default=INTERVAL, help=f"between looks; default {INTERVAL}")
    parser.add_argument("--most-items", type=int, help="more are exit code 1")
    parser.add_argument("--most-age", help="an older item is exit code 1")
    said = parser.parse_args(argv)
    watch = Watch(said.interval, said.most_items, said.most_age)
    return command(said.servers, said.queues, said.option, watch, said.as_json, said.summary)


def command(
    servers: str, queues: str, words: Sequence[str], watch: Watch, as_json: bool,
    summary: str | None,
) -> int:  # fmt: skip
    """Look twice and print the lags; return the exit code."""

    def act(progress: Progress) -> Outcome:
        return outcome(lags(fleet_options(servers, queues, words), watch, progress))

    return perform("lag", act, as_json, summary)


def lags(options: Options, watch: Watch, progress: Progress) -> list[Lag]:
    """Return the lag of each consumer, the largest first. Raises KestrelError."""
    interval_ms, most_age_ms = watch.interval_ms, watch.most_age_ms
    progress.step("looking")
    before = {each.server: each for each in look(options)}
    progress.step(f"looking again after {format_duration_ms(interval_ms)}")
    time.sleep(interval_ms / 1000)
    found = [
        lag_of(each, figures, before.get(each.server), watch.most_items, most_age_ms)
        for each in look(options)
        for figures in each.queues.values()
    ]
    return sorted(found, key=lambda lag: (-lag.items - lag.leased - lag.delayed, lag.queue))


def lag_of(
    server: ServerFigures, now: FleetFigures, seen: ServerFigures | None, most_items: int | None,
    most_age_ms: int | None,
) -> Lag:  # fmt: skip
    """Return the lag of one consumer, from what was seen before and now."""
    before = seen.queues.get(now.queue) if seen is not None else None
    rate_in = rate_out = drain = None
    if before is not None and now.at > before.at and now.total_items >= before.total_items:
        seconds = now.at - before.at
        rate_in = (now.total_items - before.total_items) / seconds
        shrinks = (before.unfinished - now.unfinished) / seconds
        rate_out = max(rate_in + shrinks, 0.0)
        if shrinks > 0:
            drain = now.unfinished / shrinks
    if not now.unfinished:
        drain = 0.0
    is_too_much = most_items is not None and now.unfinished > most_items
    is_too_much |= most_age_ms is not None and now.age > most_age_ms
    queue, _, consumer = now.queue.partition("+")
    return Lag(
        server.server, queue, consumer or None, now.items, now.leased, now.delayed, now.dead,
        now.bytes, now.age, _rounded(rate_in), _rounded(rate_out), _rounded(drain), is_too_much,
    )  # fmt: skip


def outcome(found: Sequence[Lag]) -> Outcome:
    """Return the lags as text and facts."""
    late = sum(lag.is_too_much for lag in found)
    backlog = sum(lag.items + lag.leased + lag.delayed for lag in found)
    servers = len({lag.server for lag in found})
    text = table([_SHOWN, *(_row(lag) for lag in found)]) if found else ""
    text += (
        f"{counted(len(found), 'consumer')} on {counted(servers, 'server')}: "
        f"{counted(backlog, 'item')} unfinished"
    )
    if late:
        text += f"; {counted(late, 'consumer')} too far behind (marked with !)"
    facts: dict[str, object] = {
        "consumers": [asdict(lag) for lag in found], "unfinished": backlog, "too_far_behind": late,
    }
    return Outcome(text, facts, BREACH if late else HOLDS)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as lines with aligned columns; the first two columns are words."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = (
            cell.ljust(width) if nth < 2 else cell.rjust(width)
            for nth, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip() + "\n")
    return "".join(lines)


def _row(lag: Lag) -> tuple[str, ...]:
    name = lag.queue + (f"+{lag.consumer}" if lag.consumer else "")
    return (
        lag.server, name + ("!" if lag.is_too_much else ""), f"{lag.items:,}", f"{lag.leased:,}",
        f"{lag.delayed:,}", f"{lag.dead:,}", f"{lag.bytes:,}", _time(lag.oldest_ms / 1000),
        _number(lag.in_per_second), _number(lag.out_per_second), _time(lag.drain_seconds),
    )  # fmt: skip


def _duration_ms(flag: str, text: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise KestrelError(f"{flag}: {error}.") from None


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 3)


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:,.1f}"


def _time(seconds: float | None) -> str:
    """Return a time in its two largest units, for people."""
    if seconds is None:
        return "-"
    left = round(seconds)
    words: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or (words and len(words) < 2):
            words.append(f"{count}{unit}")
        if len(words) == 2:
            break
    return " ".join(words) or ("0s" if not seconds else "<1s")
