"""One voice for refusals: what msgspec finds wrong, in sentences of ours.

    Object contains unknown field `dry_rum`       ──▶ the body has no member "dry_rum": …
    Expected `int | null`, got `str` - at `$.ttl` ──▶ ttl is text: a whole number …

One rule: a sentence names the place, the value there and the allowed values, without any words of a
library.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from re import compile as pattern
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from msgspec import Struct, UnsetType

from kestrelpy.durations import shown

# The time of a comparison grows with both lengths; the longest name of ours is half as long.
_MEANT_MAX: Final = 40
_CUTOFF: Final = 0.6
_BODY: Final = "the body"


def allowed(names: Iterable[str]) -> str:
    """Return which names are allowed."""
    *most, last = names
    return f"{', '.join(most)} or {last} is allowed" if most else f"{last} is allowed"


def meant(name: str, names: Sequence[str]) -> str:
    """Return the end of a refusal: the nearest name, or nothing."""
    near = get_close_matches(name[:_MEANT_MAX].lower(), names, 1, _CUTOFF)
    return f", did you mean {near[0]}?" if near else ""


def no_member(name: str, names: Sequence[str], where: str = _BODY) -> str:
    """Return the refusal of a member that an object may not have."""
    if not names:
        return f"{where} has the member {shown(name)}: it has none"
    return f"{where} has no member {shown(name)}: {allowed(names)}{meant(name, names)}"


def worded(value: object) -> str:
    """Return a value of JSON as it may stand in a sentence."""
    return "null" if value is None else "an object" if isinstance(value, dict) else shown(value)


# -- msgspec ----------------------------------------------------------------------------------

_AT: Final = pattern(r"(?s)(.*?)(?: - at `(?:key in )?\$([^`]*)`)?")
_EXPECTED: Final = pattern(r"Expected `([^`]*)`(?:, got `([^`]*)`)?.*")
_BOUND: Final = pattern(r"Expected `(int|str|array)` (?:of length )?([<>]=) (\d+)")
_UNKNOWN: Final = pattern(r"(?s)Object contains unknown field `(.*)`")
_MISSING: Final = pattern(r"Object missing required field `(.*)`")
_ENUM: Final = "Invalid enum value"
_STEP: Final = pattern(r"\[[^\]]*\]|\w+")
_NOUNS: Final = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
    "null": "null", "array": "a list", "object": "an object",
}  # fmt: skip


def of_msgspec(error: str, kind: Any, body: Any = None) -> str:
    """Return what is wrong with a body that should be of this kind; `body` is what it says, if that
    is known."""
    found = _AT.fullmatch(error)
    assert found is not None
    text, place = found[1], found[2] or ""
    where = place.lstrip(".") or _BODY
    if (unknown := _UNKNOWN.fullmatch(text)) is not None:
        names = list(getattr(_kind_at(kind, place), "__struct_fields__", ()))
        return no_member(unknown[1], names, where)
    if (missing := _MISSING.fullmatch(text)) is not None:
        return f"{where} has no {missing[1]}: it is needed"
    if (bound := _BOUND.fullmatch(text)) is not None:
        return f"{where} {_beyond(bound[1], bound[2] == '>=', bound[3], _value_at(body, place))}"
    if text.startswith(_ENUM):
        words = list(get_args(_kind_at(kind, place)))
        value = _value_at(body, place)
        near = meant(value, words) if isinstance(value, str) else ""
        return f"{where} is {worded(value)}: {allowed(words)}{near}"
    if (expected := _EXPECTED.fullmatch(text)) is not None:
        kinds = [_NOUNS.get(each.strip(), each.strip()) for each in expected[1].split("|")]
        got = _NOUNS.get(expected[2] or "", "of another kind")
        got = got if body is None else worded(_value_at(body, place))
        return f"{where} is {got}: {allowed(kinds)}"
    text = text.removeprefix("JSON is malformed: ")
    return f"{_BODY} is not JSON that the server can read: {text[:1].lower()}{text[1:]}"


def _beyond(kind: str, is_least: bool, limit: str, value: Any) -> str:
    """Return the end of a sentence about a number, a length or a count beyond its limit."""
    allows = f"at {'least' if is_least else 'most'} {limit}"
    if kind == "int":
        return f"is {worded(value)}: {allows} is allowed"
    if kind == "str":
        return f"is too {'short' if is_least else 'long'}: {allows} characters are allowed"
    verb = "is" if limit == "1" else "are"
    return f"has too {'few' if is_least else 'many'} members: {allows} {verb} allowed"


def _value_at(body: Any, place: str) -> Any:
    """Return the value at this place of a body."""
    for step in _STEP.findall(place):
        body = body[int(step[1:-1])] if step.startswith("[") else body[step]
    return body


def _kind_at(kind: Any, place: str) -> Any:
    """Return the type of the value at this place of a body."""
    for step in _STEP.findall(place):
        kind = _plain(kind)
        if step.startswith("["):
            kind = (*get_args(kind), None)[0]
        else:
            kind = get_type_hints(kind).get(step) if isinstance(kind, type) else None
    return _plain(kind)


def _plain(kind: Any) -> Any:
    """Return a type without None and without its bounds."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return _plain(next(each for each in get_args(kind) if each not in (NoneType, UnsetType)))
    return kind


def struct_of(kind: Any) -> type[Struct] | None:
    """Return the shape in a type that may be `Shape | None`; None: there is none."""
    kind = _plain(kind)
    return kind if isinstance(kind, type) and issubclass(kind, Struct) else None
