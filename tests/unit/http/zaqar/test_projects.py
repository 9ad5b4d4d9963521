"""Two projects never share a queue, whatever their names."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from kestrelpy.http.zaqar.projects import own_name, prefix_of
from kestrelpy.operations import check_name
from tests.support.http_client import web
from tests.support.zaqar import Api


def test_a_project_is_quoted_or_hashed() -> None:
    assert prefix_of(b"acme", None) == b"acme:"
    assert prefix_of(b"a b/c~", None) == b"a%20b%2Fc%7E:"
    assert prefix_of(b"x" * 63, None) == b"x" * 63 + b":"
    hashed = prefix_of(b"x" * 64, None)
    assert (hashed[:1], len(hashed)) == (b"~", 28)
    assert prefix_of(b"acme", "acme") == b""


@given(st.binary(min_size=1, max_size=256), st.binary(min_size=1, max_size=256))
def test_no_two_projects_have_one_prefix(one: bytes, other: bytes) -> None:
    assert (prefix_of(one, None) == prefix_of(other, None)) == (one == other)
    check_name(prefix_of(one, None) + b"q" * 64)


def test_a_project_has_the_names_behind_its_prefix() -> None:
    assert own_name(b"acme:jobs", b"acme:") == "jobs"
    assert own_name(b"acme:jobs", b"") is None
    assert own_name(b"jobs", b"") == "jobs"
    assert own_name(b"jobs+audit", b"") is None
    assert own_name(b"acmes:jobs", b"acme:") is None


async def test_a_project_sees_its_own_queues_messages_and_claims_only(tmp_path: Path) -> None:
    async with web(tmp_path, '[server]\ndefault_project = "main"\n') as server:
        acme, other, main = (Api(server.client, each) for each in ("acme", "acm", "main"))
        (id_,) = await acme.post("jobs", 1)
        claim, _ = await acme.claim("jobs")
        for api in (other, main):
            assert (await api.ask("GET", "?with_count=true")).json()["count"] == 0
            assert (await api.ask("HEAD", "/jobs")).status_code == 404
            assert (await api.ask("GET", f"/jobs/messages/{id_}")).status_code == 404
            assert (await api.ask("GET", f"/jobs/claims/{claim}")).status_code == 404
            assert (await api.ask("DELETE", "/jobs")).status_code == 204
        assert (await acme.ask("GET", f"/jobs/claims/{claim}")).status_code == 200
        await main.post("jobs", 2)
        peer = await server.memcache()
        assert await peer.ask(b"get jobs\r\n") == b"VALUE jobs 0 1\r\n"
