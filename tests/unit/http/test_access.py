"""Every route with no, wrong and insufficient credentials.

Promise: users.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from pathlib import Path

import pytest

from kestrelpy.access import ALL, Need, Role, hash_secret
from kestrelpy.http.access import credentials, need_of
from tests.support.http_client import every_route, web
from tests.support.zaqar import CLIENT

HASH = hash_secret(b"secret")
USERS = "".join(
    f'[auth.{name}]\nsecret = "{HASH}"\nrole = "{role}"\nqueues = {queues}\n'
    for name, role, queues in (
        ("reader", "read", '["jobs"]'), ("writer", "write", '["jobs", "acc"]'),
        ("elsewhere", "admin", '["none"]'), ("root", "admin", '["*"]'),
        ("reads", "read", '["*"]'), ("writes", "write", '["*"]'),
    )
)  # fmt: skip
# The routes of producers and workers.
WORK = r"/items$|/leases|/messages|/claims|^/streams/"
HAS = {"reads": Role.READ, "writes": Role.WRITE}  # in all queues


def test_each_route_needs_a_role_and_changes_need_more_than_read() -> None:
    for method, path in every_route():
        need = need_of(method, path)
        assert need.role == Role.READ or method not in ("GET", "HEAD"), path
        assert need.role != Role.READ or method in ("GET", "HEAD"), (method, path)
        is_lease = path.startswith("/admin/queues/jobs/leases/")
        is_work = is_lease or (not path.startswith("/admin") and re.search(WORK, path))
        assert need.role != Role.WRITE or is_work, (method, path)


def test_a_queue_of_the_messaging_api_is_that_of_its_project() -> None:
    for method, path, need in (
        ("POST", "/v2/queues/jobs/messages", Need(Role.WRITE, b"acme:jobs")),
        ("POST", "/v2/queues/jobs/claims", Need(Role.WRITE, b"acme:jobs")),
        ("GET", "/v2/queues/jobs/messages", Need(Role.READ, b"acme:jobs")),
        ("DELETE", "/v2/queues/jobs", Need(Role.ADMIN, b"acme:jobs")),
        ("POST", "/v2/queues/jobs/purge", Need(Role.ADMIN, b"acme:jobs")),
        ("GET", "/v2/queues", Need(Role.READ, ALL)),
    ):
        assert need_of(method, path, b"acme") == need
    assert need_of("GET", "/v2/queues/jobs", b"main", "main") == Need(Role.READ, b"jobs")


@pytest.mark.slow
async def test_no_route_answers_a_stranger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.server.connections.logins.FAILURE_SECONDS", 0.0)
    async with web(tmp_path, USERS) as server:
        for method, path in every_route():
            if path in ("/ready", "/") or path.startswith("/page/"):
                continue
            said = await server.client.request(method, path)
            assert said.status_code == 401, (method, path)
            assert said.headers["www-authenticate"].startswith("Basic ")
            wrong = await server.client.request(method, path, auth=("reader", "secreT"))
            assert wrong.status_code == 401, (method, path)
            role = need_of(method, path).role
            few = [user for user, has in HAS.items() if has < role] + ["elsewhere"]
            for user in few:
                less = await server.client.request(method, path, auth=(user, "secret"))
                assert less.status_code == 403, (method, path, user)
        unknown = await server.client.get("/nothing/here", auth=("writer", "secret"))
        assert unknown.status_code == 403
        nothing = await server.client.get("/nothing/here", auth=("root", "secret"))
        assert nothing.status_code == 404


async def test_ready_answers_everybody_in_a_word_and_health_only_a_user(tmp_path: Path) -> None:
    async with web(tmp_path, USERS) as server:
        wrong = {"Authorization": "Bearer nobody:nothing"}
        for headers in ({}, wrong):
            said = await server.client.get("/ready", headers=headers)
            body = {"ready": True, "why": None, "warning": None}
            assert (said.status_code, said.json()) == (200, body)
        assert (await server.client.head("/ready")).status_code != 401
        assert (await server.client.get("/health")).status_code == 401
        assert (await server.client.post("/ready")).status_code == 401
        assert (await server.client.get("/ready/")).status_code == 401
        root = ("root", "secret")
        assert (await server.client.get("/health", auth=root)).status_code == 200
        mode = {"mode": "readonly"}
        assert (await server.client.patch("/admin/mode", json=mode, auth=root)).is_success
        said = await server.client.get("/ready")
        body = {"ready": False, "why": "readonly", "warning": None}
        assert (said.status_code, said.json()) == (503, body)


async def test_the_project_of_a_request_is_one(tmp_path: Path) -> None:
    users = f'[auth.own]\nsecret = "{HASH}"\nrole = "write"\nqueues = [":*", "own:*"]\n'
    async with web(tmp_path, users) as server:
        for projects, status in (
            (["own"], 204), (["acme"], 403), (["own", "acme"], 400),
            (["acme", "own"], 400), ([], 400),
        ):
            headers = [("Client-ID", CLIENT), *(("X-Project-ID", each) for each in projects)]
            said = await server.client.post(
                "/v2/queues/jobs/claims", headers=headers, auth=("own", "secret")
            )
            assert said.status_code == status, projects


async def test_a_user_with_the_role_is_answered_by_basic_and_bearer(tmp_path: Path) -> None:
    async with web(tmp_path, USERS) as server:
        done = await server.client.post(
            "/queues/jobs/items", content=b"x", auth=("writer", "secret")
        )
        assert done.status_code == 201
        bearer = {"Authorization": "Bearer writer:secret"}
        assert (await server.client.post("/streams/acc-1", headers=bearer)).status_code == 201
        assert (await server.client.post("/streams/bcc-1", headers=bearer)).status_code == 403
        read = await server.client.get("/categories/jobs", auth=("reader", "secret"))
        assert read.status_code == 200


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b"Basic " + b64encode(b"a:b:c"), ("a", b"b:c")), (b"bearer a:", ("a", b"")),
        (b"", None), (b"Basic", None), (b"Basic !!!", None), (b"Basic " + b64encode(b"ab"), None),
        (b"Digest a:b", None), (b"Bearer :b", None),
    ],
)  # fmt: skip
def test_credentials(said: bytes, found: tuple[str, bytes] | None) -> None:
    assert credentials(said) == found


async def test_each_request_of_a_connection_that_a_proxy_shares_logs_in_for_itself(
    tmp_path: Path,
) -> None:
    def asked(path: str, user: str = "") -> bytes:
        login = b"Authorization: Bearer %b:secret\r\n" % user.encode() if user else b""
        return b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path.encode(), login)

    async with web(tmp_path, USERS) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for users in (("root", "reads", "root", "writes"), ("reads", "root"), ("root", "")):
            writer.write(b"".join(asked("/admin/me", user) for user in users))  # pipelined
            for user in users:
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 200" if user else b"HTTP/1.1 401")
                assert b"cache-control: no-store" in head
                length = re.search(rb"content-length: (\d+)", head)
                assert length is not None
                body = await reader.readexactly(int(length[1]))
                assert (b'"%b"' % user.encode() in body) == bool(user)
        writer.close()


def test_a_path_with_odd_names_needs_no_less() -> None:
    for path in ("/queues/", "/queues//items", "/streams/", "/categories/", "/queues"):
        assert need_of("GET", path) == Need(Role.READ, ALL), path
    assert need_of("POST", "/queues/a/b/items") == Need(Role.ADMIN, b"a")
    assert need_of("DELETE", "/queues/a") == Need(Role.ADMIN, b"a")
    assert need_of("DELETE", "/admin/queues/a/leases/1") == Need(Role.WRITE, b"a")
    assert need_of("DELETE", "/admin/queues//leases/1") == Need(Role.WRITE, ALL)
    assert need_of("DELETE", "/admin/queues/leases/1") == Need(Role.ADMIN, ALL)
    assert need_of("POST", "/categories/a") == Need(Role.ADMIN, ALL)
