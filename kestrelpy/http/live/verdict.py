"""Whether all is well, in sentences: the worst first, each with where to look.

One rule: the same facts make the same verdict; time is a fact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from kestrelpy.http.answers import without_paths
from kestrelpy.http.live.troubles import LEVELS, Level, Trouble, span

LINES_MAX: Final = 20
_MINUTE_MS: Final = 60_000
_SOON_MS: Final = 3_600_000  # bad
_LATER_MS: Final = 24 * 3_600_000  # worth a warning
_SEEN_POINTS: Final = 6  # a rate from fewer is a guess


class VerdictLine(NamedTuple):
    """One sentence; `link` is a part of the page. `since_ms` is steady time; None: not known."""

    level: Level
    code: str
    text: str
    link: str
    since_ms: int | None


class ServerState(NamedTuple):
    """What the verdict needs of the server as a whole. `damages` were found since the start; with
    less free disk than `min_disk_free` bytes nothing new is stored. `no_new_queue` says why none
    can be made now."""

    mode: str
    is_leaving: bool
    disk_full_in_ms: int | None
    damages: int = 0
    min_disk_free: int = 0
    no_new_queue: str = ""


class ServerLines:
    """What is wrong with the server; a line that lasts keeps its beginning."""

    __slots__ = ("_since", "lines")

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self.lines: list[VerdictLine] = []

    def look(self, server: ServerState, now_ms: int) -> None:
        """Renew the lines."""
        found = server_lines(server)
        self._since = {each.code: self._since.get(each.code, now_ms) for each in found}
        self.lines = [each._replace(since_ms=self._since[each.code]) for each in found]


def disk_full_in_ms(free: Sequence[float | None], step_ms: int, reserved: int = 0) -> int | None:
    """Return when nothing new is stored if the disk fills as it did; None: it does not fill.

    `free` has its free bytes, `step_ms` apart, the oldest first; None: not known. `reserved` of
    them are for others (`min_disk_free`).
    """
    known = [(at, value) for at, value in enumerate(free) if value is not None]
    if len(known) < _SEEN_POINTS:
        return None
    (first_at, first), (last_at, last) = known[0], known[-1]
    filled = first - last
    if filled <= 0:
        return None
    return int(max(last - reserved, 0) / filled * (last_at - first_at) * step_ms)


def lines_of(
    server: Iterable[VerdictLine], troubles: Mapping[bytes, Iterable[Trouble]]
) -> list[VerdictLine]:
    """Return what is wrong, the worst first, LINES_MAX at most; the last one counts the rest.

    `server` are the lines of the server as a whole. While a queue's disk is full it alone is named:
    that new queues are refused follows.
    """
    codes = {each.code for some in troubles.values() for each in some}
    found = [each for each in server if each.code != "no_new_queue" or "disk_full" not in codes]
    of_queues = [
        (LEVELS.index(each.level), each.since_ms, name, each)
        for name, some in troubles.items() for each in some
    ]  # fmt: skip
    found += [
        VerdictLine(each.level, each.code, f"{name.decode('ascii')}: {each.text}",
             f"#/queues/{quote(name, safe='')}/{each.tab}", each.since_ms)
        for _, _, name, each in nsmallest(LINES_MAX, of_queues)
    ]  # fmt: skip
    found.sort(key=lambda each: LEVELS.index(each.level))
    more = len(found) + max(len(of_queues) - LINES_MAX, 0) - LINES_MAX
    if more > 0:
        level = found[LINES_MAX - 1].level
        text = f"and {more + 1} more troubles of queues"
        found = [*found[: LINES_MAX - 1], VerdictLine(level, "more", text, "#/queues", None)]
    return found


def server_lines(server: ServerState) -> list[VerdictLine]:
    """Return what is wrong with the server as a whole; since when is not known here."""
    found = list[VerdictLine]()
    if server.is_leaving:
        found.append(VerdictLine("bad", "draining", "the server stops", "#/journal", None))
    if server.no_new_queue:
        text = without_paths(server.no_new_queue)
        found.append(VerdictLine("bad", "no_new_queue", text, "#/journal", None))
    if server.mode == "readonly":
        text = "the server is read-only: nothing new is stored"
        found.append(VerdictLine("warn", "readonly", text, "#/journal", None))
    if server.mode == "quiescent":
        text = "the server is quiescent: no item is delivered"
        found.append(VerdictLine("warn", "quiescent", text, "#/journal", None))
    left_ms = server.disk_full_in_ms
    if left_ms is not None and left_ms < _LATER_MS:
        level: Level = "bad" if left_ms < _SOON_MS else "warn"
        end = "down to min_disk_free" if server.min_disk_free else "full"
        when = span(left_ms) if left_ms >= _MINUTE_MS else "less than a minute"
        text = f"the disk is {end} in {when} at this rate, and then nothing new is stored"
        found.append(VerdictLine(level, "disk_filling", text, "#/journal", None))
    if server.damages:
        places = "1 damaged place" if server.damages == 1 else f"{server.damages} damaged places"
        text = f"{places} found in journals since the start, and set aside"
        found.append(VerdictLine("warn", "damaged", text, "#/journal", None))
    return found


def verdict(lines: list[VerdictLine], offset_ms: int) -> dict[str, Any]:
    """Return the verdict as the page reads it; `offset_ms` makes steady time wall time."""
    level = lines[0].level if lines else "ok"
    return {
        "level": level,
        "lines": [
            each._replace(
                since_ms=each.since_ms + offset_ms if each.since_ms is not None else None
            )._asdict()
            for each in lines
        ],
    }
