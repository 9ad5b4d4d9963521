"""The page at /docs loads nothing from elsewhere, and may do no more than it needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from kestrelpy.http.app import openapi
from tests.support.http_client import web

_SENTENCE = re.compile(r"[A-Z`].* .*\.", re.DOTALL)
_NAME = re.compile(r"[A-Za-z][A-Za-z_-]*")
# FastAPI's own words for a part without a description.
_UNSAID = {"", "Successful Response", *(status.phrase for status in HTTPStatus)}


async def test_the_page_and_all_that_it_loads_come_from_here(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        page = await server.client.get("/docs")
        assert page.status_code == 200
        loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(loaded) == 4
        for path in loaded:
            assert path.startswith("/docs/")
            said = await server.client.get(path)
            assert said.status_code == 200, path
            assert said.content
        assert "http" not in (await server.client.get("/docs/start.js")).text
        assert (await server.client.get("/docs/..%2Fcore.py")).status_code == 400
        for path in ("/docs/redoc.standalone.js", "/docs/x"):
            assert (await server.client.get(path)).status_code == 404, path


async def test_its_policy_allows_scripts_and_requests_of_this_server_alone(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        said = (await server.client.get("/docs")).headers["content-security-policy"]
        policy = dict(each.strip().split(" ", 1) for each in said.split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["connect-src"] == "'self'"
        other = (await server.client.get("/health")).headers["content-security-policy"]
        assert other == "default-src 'none'; frame-ancestors 'none'"


async def test_the_description_has_every_route_with_the_shape_of_its_answer(
    tmp_path: Path,
) -> None:
    async with web(tmp_path) as server:
        described = (await server.client.get("/openapi.json")).json()
        operations = {
            (method, path): operation
            for path, methods in described["paths"].items()
            for method, operation in methods.items()
        }
        admin = [each for each in operations if each[1].startswith("/admin")]
        assert len(admin) > 25
        for method, path in admin:
            shape = operations[method, path]["responses"]
            first = shape.get("200") or shape["202"]
            kind = "application/octet-stream" if path.endswith("/body") else "application/json"
            assert first["content"][kind]["schema"], (method, path)
            assert operations[method, path]["summary"]
        assert not [each for each in operations if each[1].startswith("/docs")]


def operations(described: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each method with its path, and its description."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def unsaid(described: dict[str, Any]) -> list[str]:
    """Return the parts without a description of their own. (A path describes its parts, and the
    route's text its first success.)"""
    found = list[str]()
    for label, operation in operations(described):
        first = True
        for status, said in operation["responses"].items():
            is_own = first and status.startswith("2")
            if not is_own and said.get("description", "") in _UNSAID:
                found.append(f"{label} {status}")
            first = first and not is_own
        for each in operation.get("parameters", ()):
            if each["in"] == "path":
                continue
            told = each.get("description", "")
            if not _NAME.fullmatch(each["name"]) or not _SENTENCE.fullmatch(told):
                found.append(f"{label} {each['name']}")
        if not _SENTENCE.fullmatch(operation.get("description", "")) or not operation["summary"]:
            found.append(label)
    return found


def test_every_answer_and_parameter_has_a_description_of_its_own() -> None:
    assert unsaid(openapi()) == []


@pytest.mark.parametrize(
    ("part", "mistake", "named"),
    [
        ("parameters", {"name": "limit", "in": "query", "description": "limit"}, " limit"),
        ("parameters", {"name": "How many.", "in": "query", "description": "How many."},
         " How many."),
        ("parameters", {"name": "limit", "in": "header"}, " limit"),
        ("responses", {"409": {}}, " 409"),
        ("responses", {"503": {"description": "Service Unavailable"}}, " 503"),
    ],
)  # fmt: skip
def test_what_says_nothing_of_its_own_is_named(part: str, mistake: Any, named: str) -> None:
    operation: dict[str, Any] = {
        "summary": "Some", "description": "Answer with some.", "parameters": [],
        "responses": {"200": {"description": "Successful Response"}},
    }  # fmt: skip
    described = {"paths": {"/some": {"get": operation}}}
    assert unsaid(described) == []
    if part == "parameters":
        operation[part].append(mistake)
    else:
        operation[part] |= mistake
    assert unsaid(described) == [f"GET /some{named}"]
