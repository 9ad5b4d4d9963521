"""Facts on a terminal: units, bad states in colour, and a print that repeats.

One rule: colour and the clearing of the screen are for a terminal; a pipe gets plain text.
NO_COLOR (set to anything) means no colour on a terminal either.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.remote import parse_wait_ms

WIDE: Final = 1000  # columns: a narrow terminal may wrap a name, but none is cut
_KIBI: Final = 1024
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_CLEAR: Final = "\x1b[H\x1b[2J"
_SHORT_MS: Final = 10_000  # durations below this are shown with milliseconds
_PARTS: Final = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
_STYLES: Final[Mapping[str, str]] = {
    "failed": "bold red",
    "disk_full": "bold red",
    "no_new_queue": "bold red",
    "out_of_files": "bold red",
    "damaged": "bold red",
    "abandoned": "yellow",
    "paused": "yellow",
    "readonly": "yellow",
    "quiescent": "yellow",
}


def console() -> Console:
    """Return the console for standard output, as it is now."""
    on_terminal = sys.stdout.isatty()
    return Console(
        width=WIDE, force_terminal=on_terminal, highlight=False, markup=False, emoji=False,
        no_color=not on_terminal or "NO_COLOR" in os.environ,
    )  # fmt: skip


def table(*titles: str, left: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns of `left` are text, the others are numbers."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        made.add_column(title, justify="left" if title in left else "right", no_wrap=True)
    return made


def state(word: str) -> Text:
    """Return a state, in colour if it is a bad one."""
    return Text(word, _STYLES.get(word, ""))


def counted(count: int, noun: str) -> str:
    """Return a count with its noun: 1 item, 2 items."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def size(count: int) -> str:
    """Return a number of bytes with a unit: 512B, 1.5KiB, 20MiB."""
    if count < _KIBI:
        return f"{count}B"
    value = float(count)
    for unit in _UNITS:
        value /= _KIBI
        if value < _KIBI or unit == _UNITS[-1]:
            break
    return f"{value:.1f}{unit}" if value < 10 else f"{value:.0f}{unit}"


def duration(ms: int) -> str:
    """Return a duration in at most two units: 1.234s, 90s as 1m30s, 3d4h."""
    if ms < 1000:
        return f"{ms}ms"
    if ms < _SHORT_MS:
        return f"{ms / 1000:g}s"
    left, parts = ms // 1000, list[str]()
    for unit, seconds in _PARTS:
        count, left = divmod(left, seconds)
        if count or parts:
            parts.append(f"{count}{unit}" if count else "")
    return "".join(parts[:2])


def repeated(interval: str | None, draw: Callable[[], None]) -> None:
    """Draw once, or with an interval again and again until Ctrl-C; raise CommandError."""
    if interval is None:
        draw()
        return
    seconds = parse_interval(interval, "--watch")
    try:
        while True:
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            draw()
            sys.stdout.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        return


def parse_interval(text: str, flag: str) -> float:
    """Return the seconds between two prints; raise CommandError."""
    milliseconds = parse_wait_ms(text, flag)
    if milliseconds < 100:
        raise CommandError(f"{flag}: {text} is too often: it must be at least 100ms")
    return milliseconds / 1000
