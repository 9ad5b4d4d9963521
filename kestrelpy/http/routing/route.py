"""What a route declares, and the check of a request against it: no name, value or repetition that
the route does not know is ignored.

    @router.get("/queues/{queue}/items", …)      the path, the answers
    async def get_items(call: Call, queue: str, limit: Limit = 20) -> Response

    request ──▶ check ──▶ 400 or 415, one sentence         else ──▶ arguments ──▶ the handler

The parameters of a handler are the declaration: their names, types, bounds and defaults, for the
check and for /openapi.json. What a handler reads itself stands in `reads`; the class of an argument
that is made of the request has its own `parameters`. There is no second list.

One rule: every route is checked, and before it does anything.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import cached_property
from inspect import Parameter as InspectParameter
from inspect import signature
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from kestrelpy.durations import shown
from kestrelpy.http.answers import HttpError
from kestrelpy.http.call import Call
from kestrelpy.http.listener import Scope
from kestrelpy.http.routing.sentences import allowed, meant, of_msgspec, struct_of, worded
from kestrelpy.http.values import is_true, refuse_unclear

Handler = Callable[..., Awaitable[Response]]
Responses = dict[int | str, dict[str, Any]]
_H = TypeVar("_H", bound=Handler)
_EMPTY: Final = InspectParameter.empty
_NAMED: Final = re.compile(r"\{(\w+)(:rest)?\}")
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


class OfRequest:
    """An argument of a handler that its route makes of the request; `parameters` are what it reads,
    as in OpenAPI."""

    __slots__ = ()
    parameters: tuple[dict[str, Any], ...] = ()

    def __init__(self, request: Request) -> None:
        """Raise HttpError for what it cannot read."""


class ReadBy(NamedTuple):
    """Marks the type of a parameter of the query that a function reads and checks, by its name."""

    read: Callable[[Request, str], Any]


class Parameter(NamedTuple):
    """A parameter of the path or of the query.

    `schema` is what its value may be, `checked` the part of it that is checked before the handler:
    empty, if the handler looks at the value itself.
    """

    name: str
    schema: dict[str, Any]
    checked: dict[str, Any]
    is_list: bool = False
    is_bytes: bool = False  # its value need not be UTF-8
    may_be_empty: bool = False
    argument: str = ""  # of the handler; empty: the handler reads it itself
    default: Any = ...  # `...`: it is needed
    read_by: ReadBy | None = None  # None: it is read as the schema says


class Route:
    """A handler, with what it declares."""

    def __init__(
        self, method: str, path: str, handler: Handler, *, tags: tuple[str, ...] = (),
        summary: str = "", status: int = 200, model: Any = None,
        responses: Responses | None = None, reads: dict[str, Any] | None = None,
        is_described: bool = True, is_checked: bool = True,
    ) -> None:  # fmt: skip
        """`model` is the shape of its answer with `status`, `responses` the other answers, `reads`
        the parameters, headers and body that the handler reads itself, as in OpenAPI. A path may
        end with `{name:rest}`, which takes all that follows. Not `is_checked`: the handler refuses
        whatever is asked."""
        self.method = method
        self.path = path.replace(":rest}", "}")
        self.handler = handler
        self.tags = tags
        self.summary = summary
        self.status = status
        self.model = model
        self.responses = responses or {}
        self.is_described = is_described
        self.is_checked = is_checked
        self.reads = reads or {}
        self.pattern: Final = re.compile(_NAMED.sub(_part_of_path, path))

    @property
    def label(self) -> str:
        """Its method and path."""
        return f"{self.method} {self.path}"

    # -- the declaration --------------------------------------------------------------------

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """Return the types of the handler's parameters, with their bounds."""
        hints = get_type_hints(self.handler, include_extras=True)
        return {name: hints[name] for name in signature(self.handler).parameters}

    @cached_property
    def body(self) -> tuple[str, type[msgspec.Struct] | None, bool] | None:
        """Return the argument for the body, its shape (None: the bytes), and whether it is needed;
        None: the handler has no such argument."""
        for name, hint in self._hints.items():
            if hint is bytes:
                return name, None, False
            if self.method not in _SAFE and (shape := struct_of(hint)) is not None:
                return name, shape, hint is shape
        return None

    @cached_property
    def _query_shape(self) -> tuple[str, type[msgspec.Struct]] | None:
        """Return the argument that takes the whole query, and its shape; None: there is none."""
        for name, hint in self._hints.items():
            if self.method in _SAFE and (shape := struct_of(hint)) is not None:
                return name, shape
        return None

    @cached_property
    def query(self) -> dict[str, Parameter]:
        """Return the parameters of the query by name."""
        found = dict[str, Parameter]()
        if self._query_shape is not None:
            shape = self._query_shape[1]
            hints = get_type_hints(shape, include_extras=True)
            for field in msgspec.structs.fields(shape):
                default = ... if field.default is msgspec.NODEFAULT else field.default
                found[field.name] = _parameter(field.name, hints[field.name], default)
        else:
            defaults = signature(self.handler).parameters
            others = self.path_parameters.keys() | {self.body[0] if self.body else ""}
            for name, hint in self._hints.items():
                if not _is_made(hint) and name not in others:
                    default = defaults[name].default
                    known = _parameter(name, hint, ... if default is _EMPTY else default)
                    found[known.name] = known
        told = (each for each in self.read_itself if each["in"] == "query")
        return found | {
            each["name"]: _read_parameter(each) for each in told if not _is_open(each)
        }

    @cached_property
    def path_parameters(self) -> dict[str, Parameter]:
        """Return the parameters of the path by name."""
        names = self.pattern.groupindex
        return {name: _parameter(name, self._hints.get(name, str), ...) for name in names}

    @cached_property
    def is_open(self) -> bool:
        """True if the query may have names that no route knows: the metadata of a queue."""
        return any(map(_is_open, self.read_itself))

    @cached_property
    def headers(self) -> dict[bytes, str]:
        """Return the headers that the handler reads: in lower case, and as they are written."""
        told = (each["name"] for each in self.read_itself if each["in"] == "header")
        return {each.lower().encode(): each for each in told}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Return the media types of its body; empty: it takes none."""
        if self.body is not None:
            return (_JSON if self.body[1] is not None else _OPAQUE,)
        return tuple(self.reads.get("requestBody", {}).get("content", ()))

    @cached_property
    def read_itself(self) -> list[dict[str, Any]]:
        """Return the parameters that the handler, or an argument made for it, reads itself."""
        made = [each for hint in self._hints.values() if _is_made(hint)
                for each in getattr(hint, "parameters", ())]  # fmt: skip
        return [*made, *self.reads.get("parameters", ())]

    @cached_property
    def is_messaging(self) -> bool:
        """True if it is of the messaging API, which has answers of its own for media types."""
        return self.path.startswith(_MESSAGING)

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
        return tuple(each for each in self.path_parameters.values() if each.checked)

    @cached_property
    def _takes(
        self,
    ) -> tuple[dict[str, Callable[[Request], Any]], tuple[Parameter, ...], dict[str, Any]]:
        """Return how each argument is made that is made of the request, the arguments from the
        path, and the others with their defaults."""
        made = {name: _maker(hint) for name, hint in self._hints.items() if _is_made(hint)}
        path = tuple(each for name, each in self.path_parameters.items() if name in self._hints)
        defaults = {each.argument: each.default for each in self.query.values() if each.argument}
        if self._query_shape is not None:
            defaults = {}
        return made, path, defaults

    # -- the call ---------------------------------------------------------------------------

    async def answered(self, scope: Scope, matched: dict[str, str]) -> Response:
        """Return the answer of the handler; raise HttpError unless the request says only what the
        route declares. `matched` has the parts of the path."""
        scope["path_params"] = matched
        request = Request(scope)
        if not self.is_checked:
            return await self.handler(request)
        return await self.handler(**self._arguments(request, matched, self.check(scope)))

    def _arguments(
        self, request: Request, matched: dict[str, str], said: dict[str, str]
    ) -> dict[str, Any]:
        """Return the arguments of the handler: `said` are the values of the query."""
        made, path, defaults = self._takes
        found = defaults.copy()
        for name, make in made.items():
            found[name] = make(request)
        for each in path:
            found[each.argument] = _value(each, matched[each.name])
        values = found if self._query_shape is None else {}
        for name, value in said.items():
            if (known := self.query.get(name)) is not None and known.argument:
                values[known.argument] = (
                    known.read_by.read(request, name) if known.read_by is not None else
                    _list(known, request) if known.is_list else _value(known, value)
                )  # fmt: skip
        for name in self._needed:
            if name not in said:
                raise HttpError(400, f"{name} is missing in the URL")
        if self._query_shape is not None:
            argument, shape = self._query_shape
            found[argument] = shape(**values)
        if self.body is not None:
            argument, model, is_needed = self.body
            found[argument] = request.scope["body"] if model is None else (
                _of_model(request.scope.get("json"), model, is_needed))  # fmt: skip
        return found

    @cached_property
    def _needed(self) -> tuple[str, ...]:
        return tuple(name for name, each in self.query.items() if each.default is ...)

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
            if known.checked:
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
        scope["json"] = found


class Router:
    """The routes of one subject, with what they have in common."""

    def __init__(
        self, *tags: str, prefix: str = "", responses: Responses | None = None,
        is_described: bool = True,
    ) -> None:  # fmt: skip
        """`responses` are the refusals of all its routes."""
        self.routes = list[Route]()
        self._tags = tags
        self._prefix = prefix
        self._responses = responses or {}
        self._is_described = is_described

    def get(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return a decorator, which declares that the handler answers GET; `more` as `Route`."""
        return self._route("GET", path, more)

    def head(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return the same for HEAD."""
        return self._route("HEAD", path, more)

    def post(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return the same for POST."""
        return self._route("POST", path, more)

    def put(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return the same for PUT."""
        return self._route("PUT", path, more)

    def patch(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return the same for PATCH."""
        return self._route("PATCH", path, more)

    def delete(self, path: str, **more: Any) -> Callable[[_H], _H]:
        """Return the same for DELETE."""
        return self._route("DELETE", path, more)

    def refuse(self, path: str, handler: Handler) -> None:
        """Declare that this handler refuses whatever is asked of the path."""
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"):
            self.routes.append(
                Route(method, path, handler, is_described=False, is_checked=False)
            )

    def _route(self, method: str, path: str, more: dict[str, Any]) -> Callable[[_H], _H]:
        more = {"is_described": self._is_described} | more
        more["responses"] = self._responses | more.get("responses", {})

        def declare(handler: _H) -> _H:
            route = Route(method, self._prefix + path, handler, tags=self._tags, **more)
            self.routes.append(route)
            return handler

        return declare


# -- from declarations ------------------------------------------------------------------------


def _part_of_path(named: re.Match[str]) -> str:
    return f"(?P<{named[1]}>{'(?s:.*)' if named[2] else '[^/]+'})"


def _is_made(hint: Any) -> bool:
    """True for an argument that is the request, or is made of it."""
    return hint in (Request, Call) or (isinstance(hint, type) and issubclass(hint, OfRequest))


def _maker(hint: Any) -> Callable[[Request], Any]:
    if hint is Call:
        return lambda request: request.scope["call"]
    return (lambda request: request) if hint is Request else hint


def _parameter(argument: str, hint: Any, default: Any) -> Parameter:
    """Return a parameter of a handler; a name that Python has already ends with an underscore."""
    schema = msgspec.json.schema(hint)
    for each in schema.pop("anyOf", ()):  # with None, which no URL can say
        if each != {"type": "null"}:
            schema = each | schema
    if "enum" in schema:
        schema |= {"type": "string", "enum": list(_words(hint))}  # in their order
    if default not in (..., None, "", ()):
        schema["default"] = default
    known = _of_schema(argument.removesuffix("_"), schema)._replace(
        argument=argument, default=default
    )
    read_by = next((each for each in get_args(hint) if isinstance(each, ReadBy)), None)
    return known if read_by is None else known._replace(read_by=read_by, checked={})


def _words(hint: Any) -> tuple[str, ...]:
    if get_origin(hint) is Literal:
        return get_args(hint)
    return next(filter(None, map(_words, get_args(hint))), ())


def _of_schema(name: str, schema: dict[str, Any]) -> Parameter:
    is_list = schema.get("type") == "array"
    said = schema.get("items", {}) if is_list else schema
    is_any_text = said.get("type") == "string" and not _BOUNDS & said.keys()
    may_be_empty = "" in schema.get("enum", ()) or schema.get("minLength") == 0
    return Parameter(
        name, schema, {} if is_any_text else said, is_list, "x-bytes" in schema, may_be_empty
    )


def _read_parameter(said: dict[str, Any]) -> Parameter:
    """Return a parameter whose value the handler reads and checks."""
    return _of_schema(said["name"], said["schema"])._replace(checked={}, default=None)


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
    schema, name = known.checked, known.name
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


def _value(known: Parameter, text: str) -> Any:
    """Return the value that a text is, which has been checked."""
    kind = known.checked.get("type")
    return int(text) if kind == "integer" else is_true(text) if kind == "boolean" else text


def _list(known: Parameter, request: Request) -> list[str]:
    values, most = request.query_params.getlist(known.name), known.schema.get("maxItems")
    if most is not None and len(values) > most:
        raise HttpError(
            400, f"{known.name} is in the URL {len(values)} times: {most} at most are allowed"
        )
    return values


def _of_model(found: Any, model: type[msgspec.Struct], is_needed: bool) -> Any:
    """Return a body as its shape; None: there is none. Raise HttpError."""
    if found is None:
        if is_needed:
            raise HttpError(400, "the body is missing: this request needs one")
        return None
    return converted(found, model)


def converted(found: Any, kind: Any) -> Any:
    """Return what a body says as this type; raise HttpError."""
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise HttpError(400, of_msgspec(str(error), kind, found)) from None


def _header(scope: Scope, wanted: bytes) -> str:
    found: str = next((v.decode("latin-1") for k, v in scope["headers"] if k == wanted), "")
    return found
