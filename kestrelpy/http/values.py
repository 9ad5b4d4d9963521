"""What a request says: the values of query parameters, and JSON that can be read in one way only.

    {"ttl": 60, "ttl": 300}     ──▶ 400: which of them counts?
    NaN, 99999999999999999999   ──▶ 400: no JSON, no integer of 64 bits
    [[[[[[…                     ──▶ 400: nested too deeply

What clients store (items, events, the bodies of messages) is theirs and is not looked into.

One rule: a bad value is refused with its name, the value and what is allowed.
"""

from __future__ import annotations

import json
from math import isfinite
from re import DOTALL
from re import compile as pattern
from typing import Any, Final, Literal, NoReturn

from starlette.requests import Request

from journal.format import SENT_TEXTS, ItemTexts
from kestrelpy.durations import parse_duration_ms, shown
from kestrelpy.errors import ClientError
from kestrelpy.http.answers import HttpError
from kestrelpy.operations import check_name, texts_sent

# A truth value of the query.
Truth = Literal["", "true", "1", "false", "0"]
_DIGITS_MAX: Final = 16
_INT64_DIGITS: Final = 19
_MEMBERS_MAX: Final = 100
_SURROGATE: Final = pattern(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = pattern(rb"\\(?:u([0-9a-fA-F]{4})|.)", DOTALL)
_FIRST_HALVES: Final = frozenset((b"d8", b"d9", b"da", b"db"))
_SECOND_HALVES: Final = frozenset((b"dc", b"dd", b"de", b"df"))
_OPAQUE: Final = "application/octet-stream"
_WEIGHT: Final = pattern(r"(?:^|;)\s*q\s*=\s*([01](?:\.[0-9]{0,3})?)")
_BLANKS: Final = pattern(r"[ \t\r\n]*")
_decode: Final = json.JSONDecoder().raw_decode


def queue_name(text: str) -> bytes:
    """Return the name of a queue; raise ClientError."""
    try:
        name = text.encode("ascii")
    except UnicodeEncodeError:
        raise ClientError("bad queue name: printable ASCII without blanks is allowed") from None
    check_name(name)
    if b"/" in name:
        raise ClientError("bad queue name: / separates a queue from what is asked of it")
    return name


def duration_ms(name: str, text: str, most_ms: int | None = None) -> int:
    """Return the milliseconds of `30s`, `500ms` or `30`: a bare number counts seconds."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        text += "s"
    try:
        value = parse_duration_ms(text)
    except ValueError as error:
        raise HttpError(400, f"{name}: {error}") from None
    if most_ms is not None and value > most_ms:
        raise HttpError(400, f"{name} is at most {most_ms // 1000}s")
    return value


def above_0_ms(name: str, text: str, most_ms: int | None = None) -> int:
    """Return the milliseconds of a duration that must not be 0."""
    value = duration_ms(name, text, most_ms)
    if not value:
        raise HttpError(400, f"{name} is {shown(text)}: a duration above 0 is allowed")
    return value


def is_true(text: str) -> bool:
    """Return a `Truth`: `?dry_run` says the same as `?dry_run=true`."""
    return text in ("", "true", "1")


def prefers_raw(request: Request) -> bool:
    """True if the client wants the bare body of one item rather than JSON: by the weights in its
    headers Accept, and not because a media type is named there."""
    said = ",".join(request.headers.getlist("accept")).lower()
    if _OPAQUE not in said:
        return False
    weights: dict[str, float] = {}
    for part in said.split(","):
        kind, _, parameters = part.partition(";")
        weight = _WEIGHT.search(parameters)
        weights[kind.strip()] = float(weight[1]) if weight is not None else 1.0
    raw = weights.get(_OPAQUE, 0.0)
    return raw > 0 and raw >= weights.get("application/json", 0.0)


def id_of(request: Request, said: str) -> bytes:
    """Return the id of what is stored: the parameter `id`, or the header Idempotency-Key."""
    key: str | None = request.headers.get("idempotency-key")
    if key is None:
        return said.encode()
    if said:
        raise HttpError(400, "id and the header Idempotency-Key are both there: say one of them")
    return key.encode("latin-1")


def texts_of(request: Request) -> ItemTexts:
    """Return the texts of what is stored, each from its header, such as Item-Trace; raise
    ClientError."""
    if not SENT_TEXTS:
        return ()
    said = ((row.name, request.headers.get(f"item-{row.name}")) for row in SENT_TEXTS)
    return texts_sent({name: text.encode("latin-1") for name, text in said if text is not None})


def whole(name: str, text: str, least: int, most: int) -> int:
    """Return a whole number within limits."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX:
        number = int(text)
        if least <= number <= most:
            return number
    allowed = f"a whole number from {least} to {most} is allowed"
    raise HttpError(400, f"{name} is {shown(text)}: {allowed}")


# -- JSON --------------------------------------------------------------------------------------


def parsed(body: bytes) -> Any:
    """Return what the body says; raise HttpError."""
    refuse_half_characters(body)
    try:
        return _strict(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise HttpError(400, "the body is not UTF-8") from None
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except ValueError as error:
        raise HttpError(400, f"the body is not JSON: {error}") from None


def refuse_unclear(body: bytes) -> Any:
    """Return the body of a request; raise HttpError unless it is JSON that can be read in one way,
    soon."""
    found = parsed(body)
    if isinstance(found, dict):
        for each in (found, *found.values()):
            if isinstance(each, dict) and len(each) > _MEMBERS_MAX:  # each would be an error
                raise HttpError(400, f"an object has {len(each)} members (limit {_MEMBERS_MAX})")
    return found


def refuse_half_characters(body: bytes) -> None:
    """Raise HttpError if an escape of the body is half of a surrogate pair: no text has that."""
    if _SURROGATE.search(body) is None:
        return
    first, end = b"", -1  # a first half that waits for the second
    lone = b""
    for each in _ESCAPE.finditer(body):
        half = (each[1] or b"").lower()
        is_second = half[:2] in _SECOND_HALVES
        if first and is_second and each.start() == end:
            first = b""
            continue
        lone = first or (half if is_second else b"")
        if lone:
            break
        if half[:2] in _FIRST_HALVES:
            first, end = half, each.end()
    if lone := lone or first:
        raise HttpError(400, f"the body has half a character: \\u{lone.decode()} has no other half")


def members(text: str) -> list[str]:
    """Return the names of the members of this object, one as often as it is there.

    The text is an object in valid JSON.
    """
    names, at = list[str](), _after_blanks(text, 1)
    while text[at] != "}":
        name, at = _decode(text, at)
        at = _after_blanks(text, at) + 1  # a colon
        _, at = _decode(text, _after_blanks(text, at))
        names.append(name)
        at = _after_blanks(text, at)
        if text[at] == ",":
            at = _after_blanks(text, at + 1)
    return names


def refuse_repeated(names: list[str]) -> None:
    """Raise HttpError if a name is there twice."""
    if len(set(names)) != len(names):
        name = next(each for each in names if names.count(each) > 1)
        raise HttpError(400, f"the body has {shown(name)} twice in one object")


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    assert found is not None
    return found.end()


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        refuse_repeated([name for name, _ in pairs])
    return found


def _whole(text: str) -> int:
    if len(text) <= _INT64_DIGITS + 1 and -(1 << 63) <= (number := int(text)) < 1 << 63:
        return number
    raise HttpError(400, f"{shown(text)} does not fit into 64 bits")


def _float(text: str) -> float:
    if isfinite(number := float(text)):
        return number
    raise HttpError(400, f"{shown(text)} is too large for a number")


def _constant(text: str) -> NoReturn:
    raise HttpError(400, f"the body is not JSON: it has {text}")


_strict: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_whole, parse_float=_float, parse_constant=_constant
).decode
