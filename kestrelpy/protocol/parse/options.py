"""What the options of an observer mean: `after=`, `since=`, `n=`; and where a child begins.

    q/peek/after=17           the first item behind marker 17; after=0 is the beginning
    q/peek/since=1789000000.5 the first one stored at that time or later
    .../n=500                 so many of them in one answer
    orders+audit/from=17      a child that this makes sees items from marker 17 on

One rule: a number that is out of bounds is refused with the bounds; none is brought into them.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from kestrelpy.durations import shown
from kestrelpy.errors import ClientError

COUNT_MAX: Final = 10_000
MARKER_BELOW: Final = 1 << 53  # such numbers survive clients that read them as floating point
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_SECONDS: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")


class View:
    """Where an observer begins, and how many items it wants in one answer at most."""

    __slots__ = ("after", "most", "since_ms")

    def __init__(self, after: int, since_ms: int, most: int) -> None:
        """`since_ms` above 0 (wall clock): `after` is to be found."""
        self.after = after
        self.since_ms = since_ms
        self.most = most


class Begin(NamedTuple):
    """Where a child begins that this makes: behind `after`, or at `since_ms` if that is set."""

    after: int
    since_ms: int


def parse_begin(values: dict[str, str | None]) -> Begin | None:
    """What `from=` or `since=` says of a child; None: neither is there. Raises ClientError."""
    if "from" in values and "since" in values:
        raise ClientError("from and since contradict each other")
    if "since" in values:
        return Begin(0, _since_ms(values["since"]))
    if "from" in values:
        return Begin(max(_marker(values["from"], "from") - 1, 0), 0)
    return None


def parse_view(values: dict[str, str | None]) -> View | None:
    """What these options ask for; None: none of them is there. Raises ClientError."""
    after = values.get("after", "0")
    since, most = values.get("since", "0"), values.get("n", "1")
    if "after" in values and "since" in values:
        raise ClientError("after and since contradict each other")
    if not values.keys() & {"after", "since"}:
        if "n" in values:
            raise ClientError("option n needs after= or since=, for instance q/peek/after=0/n=10")
        return None
    return View(_marker(after), _since_ms(since), _count(most))


def parse_number(word: str, text: str | None) -> int:
    """The number of an item, or a token, that the option `word` names; raises ClientError."""
    if text is None or not _NUMBER.fullmatch(text) or not 0 < int(text) < MARKER_BELOW:
        raise ClientError(
            f"option {word}{_was(text)}: it must be a whole number from 1 to {MARKER_BELOW - 1}"
        )
    return int(text)


def _marker(text: str | None, word: str = "after") -> int:
    if text is None or not _NUMBER.fullmatch(text) or int(text) >= MARKER_BELOW:
        raise ClientError(
            f"option {word}{_was(text)}: it must be a marker, a whole number from 0 (the "
            f"beginning) to {MARKER_BELOW - 1}"
        )
    return int(text)


def _since_ms(text: str | None) -> int:
    match = _SECONDS.fullmatch(text) if text is not None else None
    if match is None:
        raise ClientError(
            f"option since{_was(text)}: it must be unix seconds, decimals allowed, for instance "
            "since=1789000000.5"
        )
    fraction = (match[2] or "").ljust(9, "0")
    return int(match[1]) * 1000 + -(-int(fraction) // 1_000_000)


def _count(text: str | None) -> int:
    if text is None or not _NUMBER.fullmatch(text) or not 1 <= int(text) <= COUNT_MAX:
        raise ClientError(f"option n{_was(text)}: it must be a count from 1 to {COUNT_MAX}")
    return int(text)


def _was(text: str | None) -> str:
    return " needs a value" if text is None else f" is {shown(text)}"
