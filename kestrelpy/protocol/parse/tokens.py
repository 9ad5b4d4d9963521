"""Leases by token as the wire says them: `lease=`, `token=` and `abort/dead=<why>`.

    gets jobs/open/lease=60s          lent by token, whoever knows it may end it
    get jobs/close/token=1048577      from any connection; delete and touch take token= too
    get jobs/abort/dead=no%20address  to the dead line now, with a reason

One rule: what is not said is not guessed: a token is a whole number, a lease has its unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.errors import ClientError

TOKEN_BELOW: Final = 1 << 53
REASON_BYTES_MAX: Final = 200
DIGITS_MAX: Final = 16
_MARKED: Final = re.compile(rb"/token=([0-9]{1,16})(?=[/ \r]|\Z)")
_NUMBER: Final = re.compile(r"[0-9]{1,16}")
_ENDING: Final = ("close", "abort", "defer")
_ABORT: Final = b"abort"


class Tokens(NamedTuple):
    """`lease_ms` 0: not by token. `token` 0: none is named. `why` None: not to be buried."""

    lease_ms: int
    token: int
    why: bytes | None


NO_TOKENS: Final = Tokens(0, 0, None)


def parse_tokens(values: Mapping[str, str | None], verb: str) -> Tokens:
    """What these options say of leases by token; raises ClientError."""
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
    """A line without its first token, as no line can be, and the token; 0: it has none.

    So the meaning of a line can be kept, although every lease has another number.
    """
    parts = _MARKED.split(line, 1)
    if len(parts) == 1:
        return b"", 0
    before, digits, behind = parts
    token = int(digits)
    return (before + b"\n" + behind, token) if 0 < token < TOKEN_BELOW else (b"", 0)


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
    if text is None or not _NUMBER.fullmatch(text) or not 0 < int(text) < TOKEN_BELOW:
        was = "needs a value" if text is None else f"is {shown(text)}"
        raise ClientError(
            f"option token {was}: it must be the number that gets q/open answered, from 1 to "
            f"{TOKEN_BELOW - 1}"
        )
    if verb == "get" and not any(word in values for word in _ENDING):
        raise ClientError("option token goes with close, abort, defer, delete and touch")
    return int(text)
