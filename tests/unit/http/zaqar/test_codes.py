"""Every status that the messaging API has, as a table: method, path, body, headers, status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.http_client import web
from tests.support.zaqar import CLIENT, PATCH_TYPE, Api

PATCH = {"Content-Type": PATCH_TYPE}
ADD = [{"op": "add", "path": "/metadata/a", "value": 1}]
LARGE = b'{"messages":[{"body":"' + b"x" * 262_144 + b'"}]}'

# A queue `jobs` has the messages `claimed`, `free`; `held` is the claim of the first.
Row = tuple[str, str, Any, int]
ROWS: list[Row] = [
    # queues
    ("GET", "", None, 200),
    ("GET", "?limit=0", None, 400),
    ("GET", "?limit=21", None, 400),
    ("GET", "?limit=x", None, 400),
    ("GET", "?detailed=maybe", None, 400),
    ("GET", "?name=(a%2B)%2B", None, 400),
    ("GET", "?with_count=true&detailed=true&limit=20&name=jo.*", None, 200),
    ("PUT", "/new", None, 201),
    ("PUT", "/jobs", None, 204),
    ("PUT", "/new", {"team": "mail"}, 201),
    ("PUT", "/jobs", {"team": "mail"}, 204),
    ("PUT", "/new", b"[]", 400),
    ("PUT", "/new", b"{", 400),
    ("PUT", "/new", b"   ", 201),
    ("PUT", "/new", b'{"a": "\xff"}', 400),
    ("PUT", "/new", b'{"a": NaN}', 400),
    ("PUT", "/new", b'{"a": 1, "a": 2}', 400),
    ("PUT", "/new", b'{"_settings": {"max_items": 1, "max_items": 2}}', 400),
    ("PUT", "/new", b'{"a": "\\ud800"}', 400),
    ("PUT", "/new", b'{"\\ud800": 1}', 400),
    ("PUT", "/new", b'{"a": 9223372036854775808}', 400),
    ("PUT", "/new", b'{"a":' + b"[" * 2000 + b"]" * 2000 + b"}", 400),
    ("PUT", "/new", {"a": "x" * 65_600}, 400),
    ("PUT", "/new", {"_default_message_ttl": 59}, 400),
    ("PUT", "/new", {"_default_message_ttl": True}, 400),
    ("PUT", "/new", {"_default_message_delay": 901}, 400),
    ("PUT", "/new", {"_max_messages_post_size": 262_145}, 400),
    ("PUT", "/new", {"_max_claim_count": 0}, 400),
    ("PUT", "/new", {"_dead_letter_queue": "a b"}, 400),
    ("PUT", "/new", {"_dead_letter_queue": "new"}, 400),
    ("PUT", "/new", {"_dead_letter_queue_messages_ttl": 1}, 400),
    ("PUT", "/new", {"_flavor": "gold"}, 400),
    ("PUT", "/new", {"_enable_encrypt_messages": True}, 400),
    ("PUT", "/new", {"_settings": {"max_itmes": 5}}, 400),
    ("PUT", "/new", {"_settings": {"max_items": {}}}, 400),
    ("PUT", "/new", {"_settings": {"expire_to": "../x"}}, 400),
    ("PUT", "/new", {"_settings": {"max_attempts": 1}, "_max_claim_count": 2}, 400),
    ("PUT", "/new", {"_settings": {"max_items": 5}, "_key": {"fields": ["/a"]}}, 201),
    ("PUT", "/new", {"_key": {"field": "a"}}, 400),
    ("PUT", "/" + "x" * 65, None, 400),
    ("PUT", "/a:b", None, 400),
    ("PUT", "/a+b", None, 400),
    ("GET", "/jobs", None, 200),
    ("GET", "/unknown", None, 200),
    ("HEAD", "/jobs", None, 204),
    ("HEAD", "/unknown", None, 404),
    ("DELETE", "/jobs", None, 204),
    ("DELETE", "/unknown", None, 204),
    ("GET", "/jobs/stats", None, 200),
    ("GET", "/unknown/stats", None, 200),
    ("POST", "/jobs/purge", None, 204),
    ("POST", "/unknown/purge", None, 204),
    ("POST", "/jobs/purge", {"resource_types": ["messages", "subscriptions"]}, 204),
    ("POST", "/jobs/purge", {"resource_types": ["claims"]}, 400),
    ("POST", "/jobs/purge", {"resource_types": "messages"}, 400),
    ("POST", "/jobs/purge", b'{"resource_types": ["messages"], "resource_types": []}', 400),
    # messages
    ("POST", "/jobs/messages", {"messages": [{"body": 1}]}, 201),
    ("POST", "/new/messages", {"messages": [{"body": None, "ttl": 60, "delay": 5}]}, 201),
    ("POST", "/jobs/messages", None, 400),
    ("POST", "/jobs/messages", [{"body": 1}], 400),
    ("POST", "/jobs/messages", {"messages": []}, 400),
    ("POST", "/jobs/messages", {"messages": [{"ttl": 60}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "ttl": 59}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "ttl": 1_209_601}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "delay": 901}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "delay": -1}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "ttl": 60, "delay": 60}]}, 400),
    ("POST", "/jobs/messages", {"messages": [{"body": 1, "ttl": 61, "delay": 60}]}, 201),
    ("POST", "/jobs/messages", b'{"messages":[{"body":9223372036854775808}]}', 400),
    ("POST", "/jobs/messages", b'{"messages":[{"body":1,"body":2}]}', 400),
    ("POST", "/jobs/messages", b'{"messages":[{"body":1}],"messages":[]}', 400),
    ("POST", "/jobs/messages", b'{"messages":[{"body":{"body":1,"body":2}}]}', 201),
    ("POST", "/jobs/messages", LARGE, 400),
    ("POST", "/jobs/messages", b" " * (2 << 20), 400),
    ("GET", "/jobs/messages", None, 200),
    ("GET", "/unknown/messages", None, 200),
    ("GET", "/jobs/messages?marker=rubbish", None, 400),
    ("GET", "/jobs/messages?limit=0", None, 400),
    ("GET", "/jobs/messages?limit=21", None, 400),
    ("GET", "/jobs/messages?limit=-1", None, 400),
    ("GET", "/jobs/messages?echo=maybe", None, 400),
    ("GET", "/jobs/messages?include_claimed=2", None, 400),
    ("GET", "/jobs/messages?wait=61", None, 400),
    ("GET", "/jobs/messages?ids={free},{claimed}", None, 200),
    ("GET", "/jobs/messages?ids={free}&ids={claimed}", None, 200),
    ("GET", "/jobs/messages?ids=1-1,2-2", None, 404),
    ("GET", "/jobs/messages?ids=" + ",".join(f"1-{n}" for n in range(21)), None, 400),
    ("GET", "/jobs/messages?ids=", None, 400),
    ("GET", "/jobs/messages/{free}", None, 200),
    ("GET", "/jobs/messages/{claimed}", None, 200),
    ("GET", "/jobs/messages/rubbish", None, 404),
    ("GET", "/unknown/messages/{free}", None, 404),
    ("DELETE", "/jobs/messages/{free}", None, 204),
    ("DELETE", "/jobs/messages/rubbish", None, 204),
    ("DELETE", "/unknown/messages/{free}", None, 204),
    ("DELETE", "/jobs/messages/{claimed}", None, 403),
    ("DELETE", "/jobs/messages/{claimed}?claim_id={held}", None, 204),
    ("DELETE", "/jobs/messages/{claimed}?claim_id=9-1", None, 403),
    ("DELETE", "/jobs/messages/{claimed}?claim_id=rubbish", None, 400),
    ("DELETE", "/jobs/messages/{free}?claim_id={held}", None, 400),
    ("DELETE", "/jobs/messages/rubbish?claim_id={held}", None, 204),
    ("DELETE", "/jobs/messages", None, 400),
    ("DELETE", "/jobs/messages?ids={free}&pop=1", None, 400),
    ("DELETE", "/jobs/messages?ids={free},{claimed}", None, 204),
    ("DELETE", "/jobs/messages?ids={free}&claim_ids=rubbish", None, 400),
    ("DELETE", "/jobs/messages?ids=" + ",".join(f"1-{n}" for n in range(21)), None, 400),
    ("DELETE", "/jobs/messages?pop=1", None, 200),
    ("DELETE", "/unknown/messages?pop=1", None, 200),
    ("DELETE", "/jobs/messages?pop=0", None, 400),
    ("DELETE", "/jobs/messages?pop=21", None, 400),
    # claims
    ("POST", "/jobs/claims", None, 201),
    ("POST", "/jobs/claims", {}, 201),
    ("POST", "/jobs/claims", {"ttl": None, "grace": None}, 201),
    ("POST", "/unknown/claims", None, 204),
    ("POST", "/jobs/claims?limit=0", None, 400),
    ("POST", "/jobs/claims?limit=21", None, 400),
    ("POST", "/jobs/claims?wait=-1", None, 400),
    ("POST", "/jobs/claims", {"ttl": 59}, 400),
    ("POST", "/jobs/claims", {"ttl": 43_201}, 400),
    ("POST", "/jobs/claims", {"grace": 59}, 400),
    ("POST", "/jobs/claims", {"grace": 43_201}, 400),
    ("POST", "/jobs/claims", {"ttl": "60"}, 400),
    ("POST", "/jobs/claims", b'{"ttl": 60, "ttl": 300}', 400),
    ("POST", "/jobs/claims", b"[", 400),
    ("GET", "/jobs/claims/{held}", None, 200),
    ("GET", "/jobs/claims/9-1", None, 404),
    ("GET", "/jobs/claims/rubbish", None, 404),
    ("GET", "/unknown/claims/{held}", None, 404),
    ("PATCH", "/jobs/claims/{held}", {"ttl": 600, "grace": 60}, 204),
    ("PATCH", "/jobs/claims/{held}", None, 204),
    ("PATCH", "/jobs/claims/{held}", {"ttl": 59}, 400),
    ("PATCH", "/jobs/claims/9-1", {"ttl": 60}, 404),
    ("PATCH", "/jobs/claims/rubbish", {"ttl": 60}, 404),
    ("DELETE", "/jobs/claims/{held}", None, 204),
    ("DELETE", "/jobs/claims/rubbish", None, 204),
    # the rest
    ("GET", "/v2/", None, 200),
    ("GET", "/v2", None, 200),
    ("GET", "/v2/ping", None, 204),
    ("HEAD", "/v2/ping", None, 204),
    ("GET", "/v2/health", None, 200),
    ("GET", "/jobs/subscriptions", None, 404),
    ("POST", "/jobs/subscriptions", {}, 404),
    ("DELETE", "/jobs/subscriptions/7", None, 404),
    ("POST", "/jobs/share", {}, 404),
    ("GET", "/v2/pools", None, 404),
    ("PUT", "/v2/flavors/gold", {}, 404),
    ("GET", "/v2/nothing", None, 404),
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"])
async def test_each_request_has_its_status(method: str, tmp_path: Path) -> None:
    wrong = []
    async with web(tmp_path) as server:
        for at, (_, path, body, status) in enumerate(row for row in ROWS if row[0] == method):
            api = Api(server.client, project=f"p{at}")
            claimed, free = await api.post("jobs", "claimed", "free")
            held, _ = await api.claim("jobs", "limit=1", ttl=60, grace=60)
            path = path.replace("{claimed}", claimed).replace("{free}", free)
            done = await api.ask(method, path.replace("{held}", held), body)
            if done.status_code != status:
                wrong.append((path[:80], str(body)[:80], status, done.status_code, done.text[:80]))
            elif status >= 400 and method != "HEAD":
                assert set(done.json()) == {"title", "description"}, path
    assert wrong == []


Change = Callable[[dict[str, str]], object]
HEADERS: list[tuple[Change, int]] = [
    (lambda h: h.pop("Client-ID"), 400),
    (lambda h: h.update({"Client-ID": "me"}), 400),
    (lambda h: h.update({"Client-ID": CLIENT.replace("-", "")}), 200),
    (lambda h: h.pop("X-Project-ID"), 400),
    (lambda h: h.update({"X-Project-ID": ""}), 400),
    (lambda h: h.update({"X-Project-ID": "x" * 256}), 200),
    (lambda h: h.update({"X-Project-ID": "x" * 257}), 400),
    (lambda h: h.update({"Accept": "text/html"}), 406),
    (lambda h: h.update({"Accept": "application/json;q=0"}), 406),
    (lambda h: h.update({"Accept": "text/html, application/json;q=0.5"}), 200),
    (lambda h: h.update({"Accept": "*/*"}), 200),
    (lambda h: h.update({"Content-Type": "application/x-www-form-urlencoded"}), 400),
    (lambda h: h.update({"Content-Type": "application/json", "Content-Length": "0"}), 200),
]


async def test_headers_are_checked_before_anything_else(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for at, (change, status) in enumerate(HEADERS):
            api = Api(server.client)
            change(api.headers)
            done = await api.ask("GET", "/jobs/messages")
            assert done.status_code == status, (at, done.text)


PATCHES: list[tuple[Any, int]] = [
    (ADD, 200),
    ([{"op": "replace", "path": "/metadata/team", "value": "post"}], 200),
    ([{"op": "remove", "path": "/metadata/team"}], 200),
    ([{"op": "replace", "path": "/metadata/other", "value": 1}], 409),
    ([{"op": "remove", "path": "/metadata/other"}], 409),
    ([{"op": "remove", "path": "/metadata/_max_claim_count"}], 200),
    ([{"op": "replace", "path": "/metadata/_max_claim_count", "value": 5}], 200),
    ([{"op": "add", "path": "/metadata/a"}], 400),
    ([{"op": "move", "path": "/metadata/a"}], 400),
    ([{"op": "add", "path": "/a", "value": 1}], 400),
    ([{"op": "add", "path": "/metadata/", "value": 1}], 400),
    ([{"op": "add", "path": "/metadata/a/b", "value": 1}], 400),
    ([{"op": "add", "path": "/metadata/a~2", "value": 1}], 400),
    ([{"op": "add", "path": "/metadata/_default_message_ttl", "value": 1}], 400),
    ({"op": "add"}, 400),
    ([{"path": "/metadata/a"}], 400),
    (b"", 400),
]


async def test_each_patch_has_its_status(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for at, (body, status) in enumerate(PATCHES):
            api = Api(server.client, project=f"p{at}")
            await api.ask("PUT", "/jobs", {"team": "mail"})
            done = await api.ask("PATCH", "/jobs", body, headers=PATCH)
            assert done.status_code == status, (body, done.text)


async def test_a_patch_needs_its_media_type_and_its_queue(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        assert (await api.ask("PATCH", "/jobs", ADD, headers=PATCH)).status_code == 404
        await api.ask("PUT", "/jobs")
        assert (await api.ask("PATCH", "/jobs", ADD)).status_code == 415


@pytest.mark.parametrize("mode", ["readonly", "quiescent"])
async def test_a_server_that_removes_nothing_takes_the_delete_of_a_claim(
    mode: str, tmp_path: Path
) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        claimed, free = await api.post("jobs", 1, 2)
        claim, _ = await api.claim("jobs", "limit=1")
        assert server.server.daemon is not None
        server.server.daemon.set_mode(mode)
        for path, status in (
            (f"/jobs/messages/{free}", 503), (f"/jobs/messages?ids={free}", 503),
            (f"/jobs/messages/{claimed}?claim_id={claim}", 204),
        ):
            assert (await api.ask("DELETE", path)).status_code == status, path
        assert await api.listed("jobs", "echo=true&include_claimed=true") == [2]


async def test_a_busy_server_is_503_and_nothing_is_stored(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        api = Api(server.client)
        assert server.server.daemon is not None
        server.server.daemon.set_mode("quiescent")
        for method, path, body in (
            ("POST", "/jobs/messages", {"messages": [{"body": 1}]}), ("POST", "/jobs/claims", None),
            ("PUT", "/jobs", {"a": 1}), ("DELETE", "/jobs", None), ("POST", "/jobs/purge", None),
        ):  # fmt: skip
            assert (await api.ask(method, path, body)).status_code == 503, (method, path)
        assert (await api.ask("HEAD", "/jobs")).status_code == 404
