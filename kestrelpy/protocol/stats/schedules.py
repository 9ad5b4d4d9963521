"""`stats schedules`: when each puts next, and how far it has got.

One rule: a value is one word, as in all of stats; what may have blanks is percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from kestrelpy.core.schedules import Running, Timetable
from kestrelpy.protocol.stats.stats import lines

_SCHEDULES_PER_SLICE: Final = 100
_UNESCAPED: Final = "!$&'()*+,:;=@/"


def schedule_lines(timetable: Timetable) -> Iterator[bytes]:
    """All of them by name, in slices; times are seconds since 1970."""
    names = sorted(timetable.running)
    for start in range(0, len(names), _SCHEDULES_PER_SLICE):
        yield b"".join(
            lines(f"schedule_{name.decode('ascii')}_", _facts(timetable.running[name]))
            for name in names[start : start + _SCHEDULES_PER_SLICE]
            if name in timetable.running
        )
    yield b"END\r\n"


def _facts(running: Running) -> list[tuple[str, object]]:
    schedule = running.schedule
    return [
        ("queue", schedule.queue.decode("ascii")),
        ("cron", quote(schedule.line, _UNESCAPED)),
        ("timezone", schedule.timezone),
        ("catch_up", schedule.catch_up.value),
        ("next", running.next_s if running.next_s is not None else "-"),
        ("last", running.done_s),
        ("waiting", len(running.waiting)),
        ("state", quote(running.state, _UNESCAPED)),
    ]
