"""The values of options: markers, delays, the key of an item, and tokens of leases.

    q/peek/after=17           the first item after marker 17; after=0 is the beginning
    q/peek/since=1789000000.5 the first item stored at that time or later
    .../n=500                 at most 500 items in one reply
    orders+audit/from=17      a new child sees the items from marker 17 on

    set jobs/delay=90s        available in 90 s, on the monotonic clock
    set jobs/at=1789000000.5  available at that time of the wall clock, in unix seconds
    get jobs/abort/delay=5s   the same for an item given back; defer takes both options as well

    set jobs/key=A,B          a key of two texts, A and B
    set jobs/key=a%2Cb        a key of one text: the comma is a part of it

    gets jobs/open/lease=60s          lease by token: any connection that has it may end the lease
    get jobs/close/token=1048577      close by token; delete and touch take token= as well
    get jobs/abort/dead=no%20address  to the dead letters at once, with a reason

One rule: a number that is out of bounds is refused with the bounds; it is never brought into them.
A time in the past is not refused: the item is available at once. The values of a key are split
first and then decoded, each on its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from journal.format import text_of
from kestrelpy.core import Delay
from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.errors import ClientError

COUNT_MAX: Final = 10_000
MARKER_BELOW: Final = 1 << 53  # such numbers survive clients that read them as floating point
TOKEN_BELOW: Final = 1 << 53
TOKEN_DIGITS_MAX: Final = 16
REASON_BYTES_MAX: Final = 200
KEY_OPTION: Final = "key"
DELAY_OPTIONS: Final = frozenset({"delay", "at"})
_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_TOKEN: Final = re.compile(r"[0-9]{1,16}")
_TOKEN_IN_LINE: Final = re.compile(rb"/token=([0-9]{1,16})(?=[/ \r]|\Z)")
_SECONDS: Final = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")
_GIVING_BACK: Final = ("abort", "defer")
_ENDING: Final = ("close", *_GIVING_BACK)
_ABORT: Final = b"abort"


class BrowseView:
    """Where a browse begins, and the largest number of items in one reply."""

    __slots__ = ("after", "most", "since_ms")

    def __init__(self, after: int, since_ms: int, most: int) -> None:
        """If `since_ms` (wall clock) is above 0, `after` is found by it."""
        self.after = after
        self.since_ms = since_ms
        self.most = most


class ChildBegin(NamedTuple):
    """Where a new child begins: after the marker `after`, or at `since_ms` if that is set."""

    after: int
    since_ms: int


class Tokens(NamedTuple):
    """`lease_ms` 0: no lease by token. `token` 0: none is named. `why` None: no dead letter."""

    lease_ms: int
    token: int
    why: bytes | None


NO_TOKENS: Final = Tokens(0, 0, None)


def parse_begin(values: dict[str, str | None]) -> ChildBegin | None:
    """Return the start of a child that `from=` or `since=` names; None without both. Raise
    ClientError."""
    if "from" in values and "since" in values:
        raise ClientError("from and since contradict each other")
    if "since" in values:
        return ChildBegin(0, _unix_ms(values["since"], "since"))
    if "from" in values:
        return ChildBegin(max(_marker(values["from"], "from") - 1, 0), 0)
    return None


def parse_view(values: dict[str, str | None]) -> BrowseView | None:
    """Return the view that the options ask for; None without such an option. Raise ClientError."""
    after = values.get("after", "0")
    since, most = values.get("since", "0"), values.get("n", "1")
    if "after" in values and "since" in values:
        raise ClientError("after and since contradict each other")
    if not values.keys() & {"after", "since"}:
        if "n" in values:
            raise ClientError("option n needs after= or since=, for instance q/peek/after=0/n=10")
        return None
    return BrowseView(_marker(after), _unix_ms(since, "since"), _count(most))


def parse_number(word: str, text: str | None) -> int:
    """Return the number of an item, or a token, that the option `word` names; raise ClientError."""
    if text is None or not _NUMBER.fullmatch(text) or not 0 < int(text) < MARKER_BELOW:
        raise ClientError(
            f"option {word}{_was(text)}: it must be a whole number from 1 to {MARKER_BELOW - 1}"
        )
    return int(text)


def parse_delay(values: Mapping[str, str | None]) -> Delay | None:
    """Return the delay that the options ask for; None without one. Raise ClientError."""
    if "delay" in values and "at" in values:
        raise ClientError("delay and at contradict each other")
    if "delay" in values:
        return _duration(values["delay"])
    return Delay(_unix_ms(values["at"], "at"), True) if "at" in values else None


def refuse_delay(word: str, options: frozenset[str]) -> None:
    """Raise ClientError if a `get` with these options gives no item back, or makes a dead
    letter."""
    if not any(each in options for each in _GIVING_BACK):
        raise ClientError(
            f"option {word} goes with set, add, abort and defer, for instance q/abort/{word}="
            + ("5s" if word == "delay" else "1789000000.5")
        )
    if "dead" in options:
        raise ClientError(
            f"dead and {word} contradict each other: a dead letter does not become available"
        )


def parse_key(part: bytes) -> tuple[bytes, ...]:
    """Return the canonical values that this option names; raise ClientError."""
    _, _, named = part.partition(b"=")
    if not named:
        raise ClientError("option key needs a value, for instance key=A or key=A,B")
    return values_of(named)


def values_of(named: bytes) -> tuple[bytes, ...]:
    """Return the canonical values after `key=`."""
    return tuple(text_of(unquote_to_bytes(value)) for value in named.split(b","))


def parse_tokens(values: Mapping[str, str | None], verb: str) -> Tokens:
    """Return what the options say about leases by token; raise ClientError."""
    lease_ms = _lease_ms(values) if "lease" in values else 0
    token = _token(values, verb) if "token" in values else 0
    why = None
    if "dead" in values:
        reason = values["dead"]
        if "abort" in values:
            why = reason.encode() if reason else _ABORT
            if len(why) > REASON_BYTES_MAX:
                raise ClientError(
                    f"option dead: the reason has {len(why)} bytes (limit {REASON_BYTES_MAX})"
                )
        elif reason is not None:
            raise ClientError("option dead takes a reason with abort only: q/abort/dead=<why>")
    return Tokens(lease_ms, token, why) if lease_ms or token or why is not None else NO_TOKENS


def cut_token(line: bytes) -> tuple[bytes, int]:
    """Return a line without its first token, as no real line can be, and the token; 0 without one.

    With that the meaning of a line is cached although every lease has another token.
    """
    parts = _TOKEN_IN_LINE.split(line, 1)
    if len(parts) == 1:
        return b"", 0
    before, digits, after = parts
    token = int(digits)
    return (before + b"\n" + after, token) if 0 < token < TOKEN_BELOW else (b"", 0)


def _marker(text: str | None, word: str = "after") -> int:
    if text is None or not _NUMBER.fullmatch(text) or int(text) >= MARKER_BELOW:
        raise ClientError(
            f"option {word}{_was(text)}: it must be a marker, a whole number from 0 (the "
            f"beginning) to {MARKER_BELOW - 1}"
        )
    return int(text)


def _unix_ms(text: str | None, word: str) -> int:
    """Return these unix seconds as milliseconds, rounded up; raise ClientError."""
    match = _SECONDS.fullmatch(text) if text is not None else None
    if match is None:
        raise ClientError(
            f"option {word}{_was(text)}: it must be unix seconds, decimals allowed, for instance "
            f"{word}=1789000000.5"
        )
    fraction = (match[2] or "").ljust(9, "0")
    return int(match[1]) * 1000 + -(-int(fraction) // 1_000_000)


def _count(text: str | None) -> int:
    if text is None or not _NUMBER.fullmatch(text) or not 1 <= int(text) <= COUNT_MAX:
        raise ClientError(f"option n{_was(text)}: it must be a count from 1 to {COUNT_MAX}")
    return int(text)


def _was(text: str | None) -> str:
    return " needs a value" if text is None else f" is {shown(text)}"


def _duration(text: str | None) -> Delay:
    if text is None:
        raise ClientError("option delay needs a duration, for instance delay=90s")
    try:
        return Delay(parse_duration_ms(text))
    except ValueError as error:
        raise ClientError(f"option delay: {error}") from None


def _lease_ms(values: Mapping[str, str | None]) -> int:
    text = values["lease"]
    if text is None:
        raise ClientError("option lease needs a duration, for instance lease=60s")
    try:
        lease_ms = parse_duration_ms(text)
    except ValueError as error:
        raise ClientError(f"option lease: {error}") from None
    if not lease_ms:
        raise ClientError("option lease: a duration above 0 is allowed")
    if "open" not in values:
        raise ClientError("option lease goes with open, for instance q/open/lease=60s")
    return lease_ms


def _token(values: Mapping[str, str | None], verb: str) -> int:
    text = values["token"]
    if text is None or not _TOKEN.fullmatch(text) or not 0 < int(text) < TOKEN_BELOW:
        raise ClientError(
            f"option token{_was(text)}: it must be the number that gets q/open answered, from 1 to "
            f"{TOKEN_BELOW - 1}"
        )
    if verb == "get" and not any(word in values for word in _ENDING):
        raise ClientError("option token goes with close, abort, defer, delete and touch")
    return int(text)
