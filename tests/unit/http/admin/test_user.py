"""The user of a request, and the files that need none."""

from __future__ import annotations

from pathlib import Path

from kestrelpy.access import hash_secret
from tests.support.http_client import web

SECRET = hash_secret(b"secret")
USERS = "".join(
    f'[auth.{name}]\nsecret = "{SECRET}"\nrole = "{role}"\n'
    for name, role in (("root", "admin"), ("reader", "read"))
)


async def test_without_users_all_may_do_all(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        said = await server.client.get("/admin/me")
        now_ms = said.json()["now_ms"]  # the wall clock
        assert said.json() == {"name": None, "role": "admin", "now_ms": now_ms}
        assert (await server.client.get("/views?view=overview")).json()["now_ms"] >= now_ms


async def test_a_user_learns_the_role_and_the_page_needs_none(tmp_path: Path) -> None:
    async with web(tmp_path, USERS) as server:
        assert (await server.client.get("/admin/me")).status_code == 401
        for name, role in (("root", "admin"), ("reader", "read")):
            said = await server.client.get("/admin/me", auth=(name, "secret"))
            assert said.json().items() >= {"name": name, "role": role}.items()
        for path in ("/", "/page/app.js", "/page/none.js"):
            assert (await server.client.get(path)).status_code in (200, 404)
            assert (await server.client.post(path)).status_code == 401
        assert (await server.client.get("/pages")).status_code == 401
