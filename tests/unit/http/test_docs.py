"""The page at /docs loads nothing from elsewhere, and may do no more than it needs."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.http_client import web


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
