"""When an item becomes available, as the wire says it.

    set jobs/delay=90s ...                 so long from now, on a clock that nobody sets
    set jobs/at=1789000000.5 ...           at that time of the wall clock, unix seconds
    get jobs/abort/delay=5s                the same for what is given back; defer too

One rule: what is over by now is available at once; nothing is refused for being late.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from kestrelpy.core.index.delayed import Delay
from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.errors import ClientError

WORDS: Final = frozenset({"delay", "at"})
GIVING_BACK: Final = ("abort", "defer")
_SECONDS: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")


def parse_delay(values: Mapping[str, str | None]) -> Delay | None:
    """What these options say of it; None: nothing. Raises ClientError."""
    if "delay" in values and "at" in values:
        raise ClientError("delay and at contradict each other")
    if "delay" in values:
        return _duration(values["delay"])
    return _date(values["at"]) if "at" in values else None


def refuse_delay(word: str, options: frozenset[str]) -> None:
    """Raises ClientError where a `get` with these options gives nothing back, or buries it."""
    if not any(each in options for each in GIVING_BACK):
        raise ClientError(
            f"option {word} goes with set, add, abort and defer, for instance q/abort/{word}="
            + ("5s" if word == "delay" else "1789000000.5")
        )
    if "dead" in options:
        raise ClientError(f"dead and {word} contradict each other: what is buried does not come")


def _duration(text: str | None) -> Delay:
    if text is None:
        raise ClientError("option delay needs a duration, for instance delay=90s")
    try:
        return Delay(parse_duration_ms(text))
    except ValueError as error:
        raise ClientError(f"option delay: {error}") from None


def _date(text: str | None) -> Delay:
    match = _SECONDS.fullmatch(text) if text is not None else None
    if match is None:
        was = " needs a value" if text is None else f" is {shown(text)}"
        raise ClientError(
            f"option at{was}: it must be unix seconds, decimals allowed, for instance "
            "at=1789000000.5"
        )
    fraction = (match[2] or "").ljust(9, "0")
    return Delay(int(match[1]) * 1000 + -(-int(fraction) // 1_000_000), True)
