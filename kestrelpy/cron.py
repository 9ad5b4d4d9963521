"""Cron lines to moments: which seconds since 1970 a line names in a time zone.

    30 2 * * *  in Europe/Berlin        a line names local times; a moment is one of them in UTC

    the clock goes back     02:30 02:30    02:30 is there twice: the first of them
    the clock goes forward  01:59 03:00    02:30 is not there: later by what the clock skips, 03:30

A line whose hours begin with `*` is about elapsed time, not about an hour's name: it has both
moments of a local time that is there twice, and none for one that is not there.

One rule: whether a moment belongs to a line does not depend on where a search begins. (So cronsim
is asked for local times without a zone only, where a line is a plain question to each of them.)
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from heapq import heappop, heappush
from itertools import islice, takewhile
from typing import Final

from cronsim import CronSim, CronSimError

from kestrelpy.durations import shown

LINE_CHARACTERS_MAX: Final = 200  # the longest that a person wrote for a reason
_FIELDS: Final = {  # in cronsim's words, with what is allowed there
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31, L or LW, and in one of its months",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "0 to 7 or SUN to SAT (FRI#2 is the second, 5L the last one of a month)",
}
_SIX: Final = len(_FIELDS)
_FORM: Final = (
    "five fields, minute hour day-of-month month day-of-week, or six with the second first"
)
_SOME_DAY: Final = datetime(2024, 1, 1)
_BEGINNING: Final = datetime(1970, 1, 1)
_DAY_S: Final = 86_400  # no clock was ever moved by more than a day
# Looked at: from 1970 to the year 9575. Calendars end soon after it, and cronsim with an error.
_FIRST_S, _LAST_S = 0, 240_000_000_000
_NO_TIME: Final = timedelta(0)


class Cron:
    """The moments of one line, whole seconds since 1970."""

    def __init__(self, line: str, timezone: str = "UTC") -> None:
        """Raises ValueError, a sentence without its subject, for a line or zone that is none."""
        self.line = line
        self.timezone = timezone
        self._zone = read_zone(timezone)
        why = why_no_cron(line)
        if why:
            raise ValueError(why)
        self._by_elapsed_time = line.split()[-4].startswith("*")

    def after(self, moment_s: int) -> Iterator[int]:
        """Every moment later than this one, rising; it ends where none comes in 50 years."""
        return self._moments(moment_s, 1)

    def latest(self, after_s: int, to_s: int, most: int) -> list[int]:
        """The last `most` moments later than `after_s` and not later than `to_s`, rising."""
        falling = takewhile(lambda at: at > after_s, self._moments(to_s, -1))
        return list(islice(falling, most))[::-1]

    def _moments(self, from_s: int, step: int) -> Iterator[int]:
        """Later than `from_s` and rising (step 1), or up to it and falling (step -1).

        A local time's moment may lie on the wrong side of its neighbour's where the clock is moved:
        it is held until none can come before it any more.
        """
        from_s = min(max(from_s, _FIRST_S), _LAST_S)
        offsets = self._offsets(from_s)
        start_s = from_s + (min(offsets) if step > 0 else max(offsets) + 1)
        held: list[int] = []
        said = None
        for local in CronSim(self.line, _BEGINNING + timedelta(seconds=start_s), step < 0):
            local_s = int((local - _BEGINNING).total_seconds())
            if not _FIRST_S - _DAY_S <= local_s <= _LAST_S + _DAY_S:
                break
            for at in self._moments_of(local, local_s):
                if (at > from_s) == (step > 0):
                    heappush(held, step * at)
            offsets = self._offsets(local_s)
            none_before = step * (local_s - (max(offsets) if step > 0 else min(offsets)))
            while held and held[0] <= none_before:
                at = step * heappop(held)
                if at != said:
                    said = at
                    yield at
        while held:
            at = step * heappop(held)
            if at != said:
                said = at
                yield at

    def _moments_of(self, local: datetime, local_s: int) -> tuple[int, ...]:
        """When it is this local time: once as a rule, else what the top of this file says."""
        zone = self._zone
        if zone is UTC:
            return (local_s,)
        before = local_s - _seconds(local.replace(tzinfo=zone).utcoffset())
        behind = local_s - _seconds(local.replace(tzinfo=zone, fold=1).utcoffset())
        if not self._by_elapsed_time or before == behind:
            return (before,)
        return (before, behind) if before < behind else ()

    def _offsets(self, about_s: int) -> set[int]:
        """By what the zone is ahead of UTC about this time, a day before it and a day after it."""
        if self._zone is UTC:
            return {0}
        return {
            _seconds(datetime.fromtimestamp(max(at, 0), self._zone).utcoffset())
            for at in (about_s - 2 * _DAY_S, about_s, about_s + 2 * _DAY_S)
        }


def why_no_cron(line: str) -> str:
    """What a line must be and is not; "" if it is one."""
    fields = line.split()
    if len(fields) not in (_SIX - 1, _SIX):
        return f"must be {_FORM}, and this has {len(fields)}"
    if len(line) > LINE_CHARACTERS_MAX or not line.isascii():
        return f"must be at most {LINE_CHARACTERS_MAX} characters of ASCII"
    try:
        never = next(CronSim(line, _SOME_DAY), None) is None
    except CronSimError as error:
        name = str(error).removeprefix("Bad ")
        at = list(_FIELDS)[-len(fields) :].index(name)
        return (
            f"field {at + 1} of {len(fields)}, the {name}, must be {_FIELDS[name]}, or several of "
            f"them (*, a-b, */n, and lists with commas), and is {shown(fields[at])}"
        )
    return "must name a time that comes, and this one does not within 50 years" if never else ""


def read_zone(name: str) -> tzinfo:
    """The time zone of this name; raises ValueError."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (LookupError, OSError, ValueError):
        raise ValueError("must be a time zone that this machine knows, say Europe/Berlin") from None


def _seconds(offset: timedelta | None) -> int:
    return int((offset or _NO_TIME).total_seconds())
