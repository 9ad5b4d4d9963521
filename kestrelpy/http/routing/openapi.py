"""The description of all routes, for /openapi.json and for the tests.

    routes ──▶ operations by path and method          shapes ──▶ components, as msgspec says them

One rule: it is made of what the routes declare, and says nothing of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, get_args

import msgspec

from kestrelpy.http.routing.route import Parameter, Route

_VERSION: Final = "3.1.0"
_JSON: Final = "application/json"
_DONE: Final = "Successful Response"
_SHAPES: Final = "#/components/schemas/"
_SIGN: Final = re.compile(r"\W")


def described(routes: Iterable[Route], version: str, *more: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the description of these routes; `more` are shapes that they name by a reference."""
    told = [each for each in routes if each.is_described]
    shapes = list(dict.fromkeys([*more, *(shape for each in told for shape in _shapes_of(each))]))
    said, components = msgspec.json.schema_components(shapes, ref_template=_SHAPES + "{name}")
    for shape in components.values():
        if "description" in shape:
            shape["description"] = cleandoc(shape["description"])
    schemas = dict(zip(shapes, said, strict=True))
    paths = dict[str, dict[str, Any]]()
    for each in told:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, schemas)
    return {
        "openapi": _VERSION, "info": {"title": "kestrelpy", "version": version}, "paths": paths,
        "components": {"schemas": components},
    }  # fmt: skip


def _shapes_of(route: Route) -> Iterator[Any]:
    """Yield the shapes of the answers and of the body."""
    yield from parts_of(route.model)
    for each in route.responses.values():
        yield from parts_of(each.get("model"))
    if route.body is not None:
        yield from parts_of(route.body[1])


def parts_of(model: Any) -> tuple[Any, ...]:
    """Return the shapes that an answer may have."""
    if model is None:
        return ()
    return get_args(model) if isinstance(model, UnionType) else (model,)


def _operation(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    name = f"{getattr(route.handler, '__name__', '')}{route.path}"
    said: dict[str, Any] = {
        "tags": list(route.tags), "summary": route.summary,
        "description": cleandoc(route.handler.__doc__ or ""),
        "operationId": f"{_SIGN.sub('_', name)}_{route.method.lower()}",
    }  # fmt: skip
    if parameters := [*_parameters(route), *route.read_itself]:
        said["parameters"] = parameters
    if (body := _body(route, schemas)) is not None:
        said["requestBody"] = body
    said["responses"] = _responses(route, schemas)
    return said


def _parameters(route: Route) -> Iterator[dict[str, Any]]:
    """Yield the parameters that the handler has as arguments."""
    query = (each for each in route.query.values() if each.argument)
    for where, some in (("path", route.path_parameters.values()), ("query", query)):
        for each in some:
            is_needed = where == "path" or each.default is ...
            schema = _schema(each) if where == "query" else dict(each.schema)
            description = schema.pop("description", None)
            said = {"name": each.name, "in": where, "required": is_needed, "schema": schema}
            yield said if description is None else said | {"description": description}


def _schema(known: Parameter) -> dict[str, Any]:
    """Return the schema of a value of the query: a text is not empty, unless its route declares
    that it may be."""
    schema = dict(known.schema)
    if schema.get("type") == "string" and "enum" not in schema:
        schema.setdefault("minLength", 1)
    return schema


def _body(route: Route, schemas: dict[Any, Any]) -> dict[str, Any] | None:
    if route.body is None:
        said: dict[str, Any] | None = route.reads.get("requestBody")
        return said
    _, model, is_needed = route.body
    schema = schemas[model] if model is not None else {"type": "string", "format": "binary"}
    return {"content": {route.kinds[0]: {"schema": schema}}, "required": is_needed}


def _responses(route: Route, schemas: dict[Any, Any]) -> dict[str, Any]:
    """Return the answers by status."""
    answers: dict[Any, dict[str, Any]] = {route.status: {"model": route.model}}
    for status, said in route.responses.items():
        answers[status] = answers.get(status, {}) | said
    found = dict[str, Any]()
    for status, told in answers.items():
        said = dict(told)
        parts = [schemas[each] for each in parts_of(said.pop("model", None))]
        if parts:
            schema = parts[0] if len(parts) == 1 else {"anyOf": parts}
            said["content"] = {_JSON: {"schema": schema}} | said.get("content", {})
        if route.method == "HEAD":
            said.pop("content", None)
        found[str(status)] = {"description": _DONE} | said
    return found
