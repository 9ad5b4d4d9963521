"""The home document names what there is, and what there is not is 404."""

from __future__ import annotations

from pathlib import Path

from kestrelpy.http.zaqar.home import HOME
from tests.support.http_client import web
from tests.support.zaqar import Api


async def test_each_resource_of_the_home_document_is_there(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        assert (await api.ask("GET", "/v2/")).json() == HOME
        for each in HOME["resources"].values():
            path = each["href-template"].partition("{?")[0]
            for name in ("queue_name", "message_id", "claim_id"):
                path = path.replace(f"{{{name}}}", "x")
            for method in each["hints"]["allow"]:
                done = await api.ask(method, path)
                assert done.status_code != 405, (method, path)


async def test_health_says_what_the_server_does_now(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        health = (await server.client.get("/v2/health")).json()
        assert (health["catalog_reachable"], health["storage_reachable"]) == (True, True)
        assert server.server.daemon is not None
        server.server.daemon.set_mode("readonly")
        assert not (await server.client.get("/v2/health")).json()["storage_reachable"]


async def test_an_absent_feature_says_so(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        for path, word in (
            ("/jobs/subscriptions", "subscriptions"), ("/jobs/share", "signed URLs"),
            ("/v2/pools/a", "pools"), ("/v2/flavors", "flavors"),
        ):  # fmt: skip
            said = (await api.ask("GET", path)).json()["description"]
            assert said == f"this server has no {word}"
