"""What a route declares, and the check of a request against it: no name, value or repetition that
the route does not know is ignored.

    route ──▶ Declared: parameters of the query, headers of ours, the kind of body
    request ──▶ check ──▶ 400 or 415, one sentence         else ──▶ the handler

A route declares what FastAPI sees of its handler, and in `openapi_extra` what the handler reads
itself; both are shown in /openapi.json. There is no second list.

One rule: every route is checked, and before it does anything.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import product
from typing import Annotated, Any, Final, NamedTuple, cast
from urllib.parse import unquote_to_bytes

from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError, refused
from kestrelpy.http.checks.sentences import allowed, meant, model_of, worded
from kestrelpy.http.door import App, Receive, Scope, Send
from kestrelpy.http.values import refuse_unclear

_DIGITS_MAX: Final = 16
_TRUTH: Final = ("true", "false", "1", "0")
_JSON: Final = "application/json"
_OPAQUE: Final = "application/octet-stream"
_MESSAGING: Final = "/v2"
_SAFE: Final = frozenset({"GET", "HEAD"})
# They change what a request does: where no route reads them, they are refused.
_CONDITIONS: Final = frozenset({b"idempotency-key", b"if-match", b"if-none-match"})
_ALMOST: Final = {
    b"idempotency": b"idempotency-key", b"idempotence-key": b"idempotency-key",
    b"idempotent-key": b"idempotency-key", b"idempotency-id": b"idempotency-key",
    b"idempotencykey": b"idempotency-key", b"if-matches": b"if-match", b"ifmatch": b"if-match",
    b"ifnonematch": b"if-none-match", b"if-nonematch": b"if-none-match",
    b"if-not-match": b"if-none-match",
}  # fmt: skip
_TYPE: Final = b"content-type"
_CODING: Final = b"content-encoding"
# What bounds a text in a schema.
_BOUNDS: Final = frozenset({"enum", "const", "maxLength"})
# What a request may call them: with `x-` in front, with `_` for any `-`.
_FOREIGN: Final = {
    prefix + spelled: wanted
    for name, wanted in {**_ALMOST, **{each: each for each in _CONDITIONS}}.items()
    for spelled in map(b"".join, product(*(
        (b"-", b"_") if byte == ord("-") else (bytes((byte,)),) for byte in name
    )))
    for prefix in (b"", b"x-", b"x_")
}  # fmt: skip
# A name or a value that is no UTF-8 would be read as another one.
_REPLACED: Final = "�"


class Parameter(NamedTuple):
    """A parameter of the path or of the query. `schema`: what its value may be; empty: the handler
    looks at it itself."""

    name: str
    schema: dict[str, Any]
    is_list: bool
    is_bytes: bool  # its value need not be UTF-8
    may_be_empty: bool


class DeclaredRoute:
    """What one route declares."""

    def __init__(self, route: APIRoute) -> None:
        self._route = route
        self.model: type[BaseModel] | None = None
        if route.body_field is not None:
            self.model = model_of(route.body_field.field_info.annotation)

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of its path."""
        return self._route.path_regex

    @cached_property
    def label(self) -> str:
        """Its method and path."""
        return f"{min(self._route.methods or ())} {self._route.path}"

    @cached_property
    def is_messaging(self) -> bool:
        """True if it is of the messaging API, which has answers of its own for media types."""
        return self._route.path.startswith(_MESSAGING)

    @cached_property
    def query(self) -> dict[str, Parameter]:
        """Return the parameters of the query by name."""
        found = {
            each.alias: _parameter(each.alias, _schema_of(each.field_info))
            for each in get_flat_params(self._route.dependant) if _where(each) == "query"
        }
        told = (each for each in self._described if each["in"] == "query" and not _is_open(each))
        return found | {each["name"]: _parameter_of(each) for each in told}

    @cached_property
    def path(self) -> dict[str, Parameter]:
        """Return the parameters of the path by name."""
        return {
            each.alias: _parameter(each.alias, _schema_of(each.field_info))
            for each in get_flat_params(self._route.dependant) if _where(each) == "path"
        }

    @cached_property
    def is_open(self) -> bool:
        """True if the query may have names that no route knows: the metadata of a queue."""
        return any(_is_open(each) for each in self._described)

    @cached_property
    def headers(self) -> dict[bytes, str]:
        """Return the headers that the route reads: in lower case, and as they are written."""
        seen = (
            each.alias.title() for each in get_flat_params(self._route.dependant)
            if _where(each) == "header"
        )
        told = (each["name"] for each in self._described if each["in"] == "header")
        return {each.lower().encode(): each for each in (*seen, *told)}

    @cached_property
    def _watched(self) -> dict[bytes, str]:
        """Return the headers that are looked at, as they are written; empty: they are refused."""
        watched = {_CODING: "Content-Encoding"} | self._watched_safe
        return dict.fromkeys(_FOREIGN, "") | watched

    @cached_property
    def _watched_safe(self) -> dict[bytes, str]:
        """Return those of a request that changes nothing."""
        return {_TYPE: "Content-Type"} | self.headers

    @cached_property
    def _bounded_path(self) -> tuple[Parameter, ...]:
        """Return the parameters of the path that are not any text."""
        return tuple(each for each in self.path.values() if each.schema)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Return the media types of its body; empty: it takes none."""
        if self._route.body_field is not None:
            return (_JSON,)
        return tuple((self._route.openapi_extra or {}).get("requestBody", {}).get("content", ()))

    @property
    def _described(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (self._route.openapi_extra or {}).get("parameters", [])
        return found

    # -- the check --------------------------------------------------------------------------

    def check(self, scope: Scope) -> dict[str, str]:
        """Return the values of the query by name, of a list the last one; leave them in the scope
        as `said`. Raise HttpError unless the request says only what the route declares."""
        query = scope["query_string"]
        said = scope["said"] = self._check_query(query) if query else {}
        for each in self._bounded_path:
            _check_value(each, str(scope["path_params"][each.name]))
        self._check_headers(scope["method"] in _SAFE, scope["headers"])
        if body := scope.get("body"):
            self._check_body(scope, body)
        return said

    def _check_query(self, query: bytes) -> dict[str, str]:
        declared, said = self.query, dict[str, str]()
        for name, raw_value, value in _pairs(query):
            known = declared.get(name)
            if known is None and not (name and self.is_open):
                raise HttpError(400, self._unknown(name))
            if name in said and not (known is not None and known.is_list):
                what = _plain(name)
                raise HttpError(400, f"{what} is in the URL more than once: once is allowed")
            said[name] = value
            if known is None:
                continue
            if not value and not known.may_be_empty:
                raise HttpError(400, f"{name} has no value in the URL: leave it out, or say one")
            if _REPLACED in value and not known.is_bytes:
                _check_utf8(name, raw_value)
            if known.schema:
                _check_value(known, value)
        return said

    def _unknown(self, name: str) -> str:
        names = list(self.query)
        if not names:
            return f"{self.label} takes no parameters in the URL: {shown(name)} is one"
        near = meant(name, names)
        return f"{shown(name)} is no parameter of {self.label}: {allowed(names)}{near}"

    def _check_headers(self, is_safe: bool, headers: list[tuple[bytes, bytes]]) -> None:
        watched, seen = self._watched_safe if is_safe else self._watched, set[bytes]()
        for name, value in headers:
            title = watched.get(name)
            if title is None:
                continue
            if not title:
                self._refuse_foreign(name)
            if name in seen:
                raise HttpError(400, f"the header {title} is there more than once: once is allowed")
            seen.add(name)
            if name in _CONDITIONS and not is_safe and not value.strip():
                raise HttpError(400, f"the header {title} has no value: leave it out, or say one")
            if name == _CODING and value.strip().lower() != b"identity":
                what = shown(value.decode("latin-1"))
                raise HttpError(415, f"Content-Encoding is {what}: bodies are read as they come")

    def _refuse_foreign(self, name: bytes) -> None:
        """Raise HttpError for a header that this route does not read and that changes, or seems to
        change, what a request does."""
        wanted, title = _FOREIGN[name], name.decode("latin-1").title()
        if wanted in self.headers:
            right = self.headers[wanted]
            raise HttpError(400, f"the header {title} is unknown, did you mean {right}?")
        raise HttpError(400, f"{self.label} does not read the header {title}: leave it out")

    def _check_body(self, scope: Scope, body: bytes) -> None:
        if not self.kinds:
            names = list(self.query)
            what = f"its parameters stand in the URL ({', '.join(names)})" if names else (
                "send the request without one")  # fmt: skip
            raise HttpError(400, f"{self.label} takes no body: {what}")
        if self.is_messaging or _OPAQUE in self.kinds:
            return
        said = _header(scope, _TYPE)
        kind, _, more = said.lower().partition(";")
        kind, more = kind.strip(), more.replace(" ", "").replace('"', "")
        if kind not in self.kinds:
            what = f"is {shown(kind)}" if kind else "is missing"
            raise HttpError(415, f"Content-Type {what}: {' or '.join(self.kinds)} is allowed here")
        if more not in ("", "charset=utf-8", "charset=utf8"):
            raise HttpError(415, f"Content-Type has {shown(more)}: JSON is UTF-8")
        if not isinstance(found := refuse_unclear(body), dict):
            raise HttpError(400, f"the body is {worded(found)}: an object is allowed")


def checked(declared: DeclaredRoute, app: App) -> App:
    """Return the application of a route, with the check before it."""

    async def after_check(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            declared.check(scope)
        except HttpError as error:
            await refused(error)(scope, cast(Any, receive), cast(Any, send))
        else:
            await app(scope, receive, send)

    return after_check


# -- from declarations ------------------------------------------------------------------------


def _where(field: Any) -> str:
    """Return where a parameter stands: path, query or header."""
    place = getattr(field.field_info, "in_", None)
    return place.value if place is not None else "query"  # of a model of the whole query


def _schema_of(info: Any) -> dict[str, Any]:
    """Return the JSON schema of a value, without that of null."""
    found: dict[str, Any] = TypeAdapter(Annotated[info.annotation, info]).json_schema()
    for each in found.pop("anyOf", ()):
        if each != {"type": "null"}:
            found = each | found
    return found


def _parameter(name: str, schema: dict[str, Any]) -> Parameter:
    is_list = schema.get("type") == "array"
    words = schema.get("enum", ())
    said = schema.get("items", {}) if is_list else schema
    is_any_text = said.get("type") == "string" and not _BOUNDS & said.keys()
    return Parameter(
        name, {} if is_any_text else said, is_list, "x-bytes" in schema,
        "" in words or schema.get("minLength") == 0,
    )  # fmt: skip


def _parameter_of(said: dict[str, Any]) -> Parameter:
    """Return a parameter whose value the handler reads and checks."""
    return _parameter(said["name"], said["schema"])._replace(schema={})


def _is_open(said: dict[str, Any]) -> bool:
    return bool(said["in"] == "query" and said["schema"].get("type") == "object")


# -- values -----------------------------------------------------------------------------------


def _plain(name: str) -> str:
    return name if name.isascii() and name.isidentifier() else shown(name)


def _pairs(query: bytes) -> list[tuple[str, bytes, str]]:
    """Return the names, and the values as they were sent and as texts."""
    if query.isascii() and b"%" not in query and b"+" not in query:  # each text stands there
        plain = [part.partition("=") for part in query.decode().split("&") if part]
        return [(name, b"", value) for name, _, value in plain]
    parts = [part.partition(b"=") for part in query.split(b"&") if part]
    return [(_text(name), value, _text(value)) for name, _, value in parts]


def _text(raw: bytes) -> str:
    return unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8", "replace")


def _check_utf8(name: str, raw: bytes) -> None:
    try:
        unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        raise HttpError(400, f"{name} is not UTF-8 in the URL") from None


def _check_value(known: Parameter, text: str) -> None:
    """Raise HttpError unless the text is what the schema says: not what could be made one."""
    schema, name = known.schema, known.name
    kind, words = schema.get("type"), schema.get("enum")
    if "const" in schema:
        words = [schema["const"]]
    if words is not None:
        if text not in words:
            some = [each or "no value" for each in words]
            raise HttpError(400, f"{name} is {shown(text)}: {allowed(some)}{meant(text, some)}")
    elif kind == "boolean":
        if text not in _TRUTH:
            raise HttpError(400, f"{name} is {shown(text)}: {allowed(_TRUTH[:2])}")
    elif kind == "integer":
        least, most = schema.get("minimum", 0), schema["maximum"]
        is_whole = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
        if not is_whole or not least <= int(text) <= most:
            raise HttpError(
                400, f"{name} is {shown(text)}: a whole number from {least} to {most} is allowed"
            )
    elif len(text) > (longest := schema.get("maxLength", len(text))):
        raise HttpError(400, f"{name} has {len(text)} characters (limit {longest})")


def _header(scope: Scope, wanted: bytes) -> str:
    found: str = next((v.decode("latin-1") for k, v in scope["headers"] if k == wanted), "")
    return found
