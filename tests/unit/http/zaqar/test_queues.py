"""A project's queues are listed by name, have metadata, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.http_client import web
from tests.support.zaqar import Api


async def names(api: Api, query: str = "") -> list[str]:
    return [each["name"] for each in (await api.ask("GET", query)).json()["queues"]]


async def test_queues_are_listed_by_name_page_by_page(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        for name in ("b", "d", "a", "c", "e"):
            await api.ask("PUT", f"/{name}")
        found, where = list[str](), "?limit=2"
        for _ in range(4):
            page = (await api.ask("GET", where)).json()
            found += [each["name"] for each in page["queues"]]
            if not page["links"]:
                break
            where = page["links"][0]["href"]
        assert found == ["a", "b", "c", "d", "e"]
        assert page == {"queues": [], "links": []}
        (one,) = (await api.ask("GET", "?limit=1&detailed=true")).json()["queues"]
        assert (one["href"], one["metadata"]["_max_claim_count"]) == ("/v2/queues/a", None)


async def test_queues_are_found_by_their_name_and_their_metadata(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        for name, meta in (("jobs-1", {"n": 1}), ("jobs-22", {"n": 2}), ("old-jobs", {"n": 1})):
            await api.ask("PUT", f"/{name}", meta)
        for pattern, found in {
            "jobs": ["jobs-1", "jobs-22"], "jobs.*2": ["jobs-22"], ".*jobs": 3, "jobs-1$": 1,
            "x": 0, ".*1$": ["jobs-1"],
        }.items():  # fmt: skip
            got = await names(api, f"?name={pattern}")
            assert (got if isinstance(found, list) else len(got)) == found, pattern
        assert await names(api, "?n=1") == ["jobs-1", "old-jobs"]
        assert await names(api, "?n=1&name=jobs") == ["jobs-1"]
        assert (await api.ask("GET", "?n=3&with_count=1")).json()["count"] == 0


async def test_metadata_are_set_shown_replaced_and_changed(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        assert (await api.ask("PUT", "/jobs", {"team": "mail"})).headers["location"] == (
            "/v2/queues/jobs"
        )
        assert (await api.ask("PUT", "/jobs")).status_code == 204
        assert (await api.ask("GET", "/jobs")).json()["team"] == "mail"
        await api.ask("PUT", "/jobs", {"other": 1})
        assert "team" not in (await api.ask("GET", "/jobs")).json()
        done = await api.patch("jobs", ("add", "x.y", 5), ("add", "_default_message_ttl", 70))
        assert (done.json()["x.y"], done.json()["_default_message_ttl"]) == (5, 70)
        done = await api.patch("jobs", ("remove", "_default_message_ttl"), ("remove", "x.y"))
        assert done.json()["_default_message_ttl"] == 3600


async def in_force(server: Any, name: bytes, key: str) -> object:
    queue = server.server.daemon.broker.queues[name]
    return getattr(queue.policy, key)


async def test_metadata_put_settings_in_force_and_out_again(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs", {"_max_claim_count": 3, "_settings": {"max_items": 5}})
        assert await in_force(server, b"acme:jobs", "max_attempts") == 3
        assert await in_force(server, b"acme:jobs", "max_items") == 5
        await api.patch("jobs", ("remove", "_max_claim_count"), ("add", "_settings", {}))
        assert await in_force(server, b"acme:jobs", "max_attempts") == 100
        assert await in_force(server, b"acme:jobs", "max_items") is None


async def test_settings_that_memcache_declared_stay_and_others_are_409(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api, peer = Api(server.client), await server.memcache()
        said = await peer.ask(b"set acme:jobs/declare 0 0 13\r\nmax_items = 5\r\n")
        assert said == b"STORED\r\n"
        assert (await api.ask("PUT", "/jobs", {"team": "mail"})).status_code == 204
        assert (await api.ask("PUT", "/jobs", {"_max_claim_count": 3})).status_code == 409
        assert (await api.ask("GET", "/jobs")).json()["team"] == "mail"
        assert (await api.ask("PUT", "/jobs", {"_settings": {"max_items": 5}})).status_code == 204
        assert await in_force(server, b"acme:jobs", "max_items") == 5


async def test_the_file_wins(tmp_path: Path) -> None:
    async with web(tmp_path, '[queues."acme:jobs"]\nmax_attempts = 7\n') as server:
        api = Api(server.client)
        await api.ask("PUT", "/jobs", {"_max_claim_count": 3})
        assert await in_force(server, b"acme:jobs", "max_attempts") == 7


async def test_a_key_cannot_change_while_there_are_messages(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        await api.post("jobs", {"who": 1})
        assert (await api.ask("PUT", "/jobs", {"_key": {"fields": ["who"]}})).status_code == 400
        assert "_key" not in (await api.ask("GET", "/jobs")).json()


async def test_stats_count_messages_and_show_the_oldest_and_the_newest(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        assert (await api.ask("GET", "/jobs/stats")).json() == {
            "messages": {"claimed": 0, "free": 0, "total": 0}
        }
        ids = await api.post("jobs", *range(5))
        claim, claimed = await api.claim("jobs", "limit=2")
        figures = (await api.ask("GET", "/jobs/stats")).json()["messages"]
        assert (figures["claimed"], figures["free"], figures["total"]) == (2, 3, 5)
        assert set(figures["oldest"]) == {"href", "age", "created"}
        assert figures["oldest"]["href"].endswith(ids[0])
        assert figures["newest"]["href"].endswith(ids[4])
        await api.ask("DELETE", f"/jobs/messages/{claimed[0]['id']}?claim_id={claim}")
        figures = (await api.ask("GET", "/jobs/stats")).json()["messages"]
        assert (figures["claimed"], figures["free"], figures["total"]) == (1, 3, 4)
        await api.ask("POST", "/jobs/purge")
        figures = (await api.ask("GET", "/jobs/stats")).json()["messages"]
        assert (figures["claimed"], figures["free"], figures["total"]) == (1, 0, 1)
