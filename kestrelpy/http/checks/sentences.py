"""One voice for refusals: what pydantic and msgspec find wrong, in sentences of ours.

    {"type": "extra_forbidden", "loc": ["body", "dry_rum"]}  ──▶ the body has no member "dry_rum": …
    Expected `int | null`, got `str` - at `$.ttl`            ──▶ ttl is text: a whole number …

One rule: a sentence says where, what is there, and what is allowed; no library's own words leave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from re import compile as pattern
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

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


# -- pydantic ---------------------------------------------------------------------------------

_Error = dict[str, Any]
_WHOLE: Final = "a whole number is allowed"
_TEXT: Final = "text is allowed"
_TRUTH: Final = "true or false is allowed"
_LIST: Final = "a list is allowed"
_OBJECT: Final = "an object is allowed"
_QUOTED: Final = pattern(r"'([^']*)'")


def _one_of(error: _Error) -> str:
    words = _QUOTED.findall(error["ctx"]["expected"])
    said = error.get("input")
    return allowed(words) + (meant(said, words) if isinstance(said, str) else "")


def _count(error: _Error, which: str) -> str:
    return f"{error['ctx'][which + '_length']} characters"


# By the type of the error: what is allowed.
_ALLOWED: Final[dict[str, Callable[[_Error], str]]] = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"),
                    lambda _: _WHOLE),
    **dict.fromkeys(("bool_type", "bool_parsing"), lambda _: _TRUTH),
    **dict.fromkeys(("string_type", "string_unicode"), lambda _: _TEXT),
    "list_type": lambda _: _LIST,
    **dict.fromkeys(("model_attributes_type", "model_type", "dict_type"), lambda _: _OBJECT),
    "literal_error": _one_of,
    "greater_than_equal": lambda error: f"at least {error['ctx']['ge']} is allowed",
    "less_than_equal": lambda error: f"at most {error['ctx']['le']} is allowed",
    "string_too_short": lambda error: f"{_count(error, 'min')} at least are allowed",
    "string_too_long": lambda error: f"{_count(error, 'max')} at most are allowed",
    "too_short": lambda error: f"{error['ctx']['min_length']} at least are allowed",
    "too_long": lambda error: f"{error['ctx']['max_length']} at most are allowed",
}  # fmt: skip


def of_pydantic(error: _Error, model: type[BaseModel] | None = None) -> str:
    """Return what is wrong with a request; `model` is that of its body."""
    part, *place = error["loc"]
    where = ".".join(str(each) for each in place) or (_BODY if part == "body" else str(part))
    kind = error["type"]
    if kind == "missing":
        if not place:
            return "the body is missing: this request needs one"
        return f"{where} is missing" if part == "body" else f"{where} is missing in the URL"
    if kind == "extra_forbidden":
        *above, name = place
        names = _members_at(model, above)
        return no_member(str(name), names, ".".join(map(str, above)) or _BODY)
    says = _ALLOWED.get(kind)
    what = says(error) if says is not None else "this value is not allowed"
    return f"{where} is {worded(error.get('input'))}: {what}"


def worded(value: object) -> str:
    """Return a value of JSON as it may stand in a sentence."""
    return "null" if value is None else "an object" if isinstance(value, dict) else shown(value)


def _members_at(model: type[BaseModel] | None, place: list[Any]) -> list[str]:
    """Return the members that the object at this place may have."""
    for each in place:
        if model is not None and each in model.model_fields:
            model = model_of(model.model_fields[each].annotation)
    return list(model.model_fields) if model is not None else []


def model_of(annotation: Any) -> type[BaseModel] | None:
    """Return the model in a type that may be `Model | None`; None: there is none."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    models = (each for each in parts if isinstance(each, type) and issubclass(each, BaseModel))
    return next(models, None)


# -- msgspec ----------------------------------------------------------------------------------

_AT: Final = pattern(r"(?s)(.*?)(?: - at `(?:key in )?\$([^`]*)`)?")
_EXPECTED: Final = pattern(r"Expected `([^`]*)`(?:, got `([^`]*)`)?.*")
_UNKNOWN: Final = pattern(r"(?s)Object contains unknown field `(.*)`")
_MISSING: Final = pattern(r"Object missing required field `(.*)`")
_STEP: Final = pattern(r"\[[^\]]*\]|\w+")
_NOUNS: Final = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
    "null": "null", "array": "a list", "object": "an object",
}  # fmt: skip


def of_msgspec(error: str, kind: Any = None) -> str:
    """Return what is wrong with a body that should be of this kind."""
    found = _AT.fullmatch(error)
    assert found is not None
    text, where = found[1], (found[2] or "").lstrip(".") or _BODY
    if (unknown := _UNKNOWN.fullmatch(text)) is not None:
        return no_member(unknown[1], _fields_at(kind, found[2] or ""), where)
    if (missing := _MISSING.fullmatch(text)) is not None:
        return f"{where} has no {missing[1]}: it is needed"
    if (expected := _EXPECTED.fullmatch(text)) is not None:
        kinds = [_NOUNS.get(each.strip(), each.strip()) for each in expected[1].split("|")]
        got = _NOUNS.get(expected[2] or "", "of another kind")
        return f"{where} is {got}: {allowed(kinds)}"
    text = text.removeprefix("JSON is malformed: ")
    return f"{_BODY} is not JSON that the server can read: {text[:1].lower()}{text[1:]}"


def _fields_at(kind: Any, where: str) -> list[str]:
    """Return the members of the object at this place of a body."""
    for each in _STEP.findall(where):
        if each.startswith("["):
            kind = (*get_args(kind), None)[0]
        else:
            kind = get_type_hints(kind).get(each) if isinstance(kind, type) else None
    return list(getattr(kind, "__struct_fields__", ()))
