"""Mistakes that people make with the routes: each is refused in one sentence, and nothing changes.

`test_declared` asks every route for what it does not declare; here are values and pairs that only a
handler can judge.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.http_client import Web, web
from tests.support.zaqar import CLIENT

MESSAGING = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
PATCH = {"Content-Type": "application/openstack-messaging-v2.0-json-patch"}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
RAW = {"Accept": "application/octet-stream"}
IF_NONE, IF_4 = {"If-None-Match": "*"}, {"If-Match": '"4"'}
LEASE, ITEMS, LEASES = "/queues/jobs/leases/{token}", "/queues/jobs/items", "/queues/jobs/leases"
DELETE, PATCHES, POST, GET, PUT = "DELETE", "PATCH", "POST", "GET", "PUT"
ADMIN, V2 = "/admin/queues/jobs", "/v2/queues/mail"

Mistake = tuple[str, str, str, dict[str, str], str]
MISTAKES: list[Mistake] = [
    # a lease is not ended by a typo
    (DELETE, f"{LEASE}?aborrt", "", {}, "did you mean abort?"),
    (DELETE, f"{LEASE}?Abort", "", {}, "did you mean abort?"),
    (DELETE, f"{LEASE}?burry=why", "", {}, "did you mean bury?"),
    (DELETE, f"{LEASE}?delay=5m", "", {}, '"delay" is no parameter'),
    (DELETE, f"{LEASE}?abort=false", "", {}, 'abort is "false"'),
    (DELETE, f"{LEASE}?abort=0", "", {}, 'abort is "0"'),
    (DELETE, f"{LEASE}?abort&bury=x", "", {}, "contradict"),
    (DELETE, f"{LEASE}?abort&dead", "", {}, '"dead" is no parameter'),
    (DELETE, f"{LEASE}?bury", "", {}, "bury has no value"),
    (DELETE, f"{LEASE}?abort;bury=x", "", {}, "is no parameter"),
    (DELETE, LEASE, "abort", {}, "takes no body"),
    (DELETE, LEASE, '{"abort": true}', JSON, "takes no body"),
    (DELETE, LEASE, "", {"Idempotency-Key": "a"}, "does not read the header Idempotency-Key"),
    (PATCHES, f"{LEASE}?lease=60s&delay=5s", "", {}, "lease and delay contradict"),
    (PATCHES, f"{LEASE}?delay=5s&delay=5s", "", {}, "delay is in the URL more than once"),
    (PATCHES, f"{LEASE}?lease=0", "", {}, "a duration above 0"),
    (PATCHES, f"{LEASE}?lease=1.5s", "", {}, "lease"),
    (PATCHES, f"{LEASE}?lease=%D9%A1s", "", {}, "lease"),
    (PATCHES, LEASE, '{"lease": "60s"}', JSON, "takes no body"),
    (DELETE, "/queues/jobs/leases/1.0", "", {}, 'token is "1.0"'),
    (DELETE, "/queues/jobs/leases/%D9%A1", "", {}, "token is"),
    # nor is an item leased
    (POST, LEASES, '{"count": 5}', JSON, "takes no body"),
    (POST, LEASES, "count=5", FORM, "takes no body"),
    (POST, f"{LEASES}?count=5", "", RAW, "count is 5"),
    (POST, f"{LEASES}?count=1&count=1", "", {}, "more than once"),
    (POST, f"{LEASES}?Count=5", "", {}, "did you mean count?"),
    (POST, f"{LEASES}?count=+5", "", {}, "count is"),
    (POST, f"{LEASES}?count=1e1", "", {}, "count is"),
    (POST, f"{LEASES}?count=%D9%A2", "", {}, "count is"),
    (POST, f"{LEASES}?wait=", "", {}, "wait has no value"),
    (POST, f"{LEASES}?leese=5s", "", {}, "did you mean lease?"),
    # or stored
    (POST, f"{ITEMS}?id=", "x", {}, "id has no value"),
    (POST, f"{ITEMS}?key=", "x", {}, "key has no value"),
    (POST, f"{ITEMS}?id=a&id=b", "x", {}, "id is in the URL more than once"),
    (POST, f"{ITEMS}?id=%FF", "x", {}, "id is not UTF-8"),
    (POST, f"{ITEMS}?id=a", "x", {"Idempotency-Key": "a"}, "say one of them"),
    (POST, f"{ITEMS}?id=a", "x", {"Idempotency-Key": "b"}, "say one of them"),
    (POST, ITEMS, "x", {"Idempotency-Key": ""}, "Idempotency-Key has no value"),
    (POST, ITEMS, "x", {"X-Idempotency-Key": "a"}, "did you mean Idempotency-Key?"),
    (POST, ITEMS, "x", {"Idempotency_Key": "a"}, "did you mean Idempotency-Key?"),
    (POST, ITEMS, "x", IF_4, "does not read the header If-Match"),
    (POST, f"{ITEMS}?expires=0", "x", {}, "a duration above 0"),
    (POST, f"{ITEMS}?expires=0s", "x", {}, "a duration above 0"),
    (POST, f"{ITEMS}?expire=1s", "x", {}, "did you mean expires?"),
    (POST, f"{ITEMS}?expires=-1", "x", {}, "expires"),
    (POST, f"{ITEMS}?delay=5s&delay=6s", "x", {}, "delay is in the URL more than once"),
    (POST, f"{ITEMS}?delay=5s&at=1", "x", {}, "contradict"),
    (POST, f"{ITEMS}?at=1e9", "x", {}, 'at is "1e9": unix seconds are allowed'),
    *((POST, f"{ITEMS}?at={bad}", "x", {}, "at is") for bad in (
        "nan", "inf", "1_0", "+5", "%205", "1e9", "-1", "%D9%A1", "1.", ".5", "9" * 17)),
    *((POST, f"{ITEMS}?flags={bad}", "x", {}, "flags is") for bad in (
        "1.0", "-1", "%2B1", "1_0", "%D9%A1", "4294967296", "0x1")),
    # an event of a stream, or read
    (POST, "/streams/acc-1?id=a", "x", {"Idempotency-Key": "a"}, "say one of them"),
    (POST, "/streams/acc-1", "x", IF_NONE | IF_4, "contradict"),
    (POST, "/streams/acc-1", "x", {"If-Match": ""}, "If-Match has no value"),
    (POST, "/streams/acc-1", "x", {"If-Match": 'W/"1"'}, "If-Match is"),
    (POST, "/streams/acc-1", "x", {"If-None-Match": '"1"'}, "only * is allowed"),
    (POST, "/streams/acc-1", "x", {"If-Not-Match": "*"}, "did you mean If-None-Match?"),
    (POST, "/streams/acc-1?key=A", "x", {}, "is no parameter"),
    (GET, "/streams/jobs-1?from_version=abc", "", {}, "from_version is"),
    (GET, "/streams/jobs-1?from-version=1", "", {}, "did you mean from_version?"),
    (GET, "/categories/jobs?after=abc", "", {}, "after is"),
    (GET, "/categories/jobs?marker=5", "", {}, "is no parameter"),
    (GET, "/categories/jobs?member=0", "", {}, "go together"),
    (GET, "/categories/jobs?member=0&size=", "", {}, "size has no value"),
    # by an operator
    (POST, f"{ADMIN}/flush?dryrun=true", "", {}, "dryrun"),
    (POST, f"{ADMIN}/pause", '{"dry_run": true}', JSON, "takes no body"),
    (POST, f"{ADMIN}/purge", '{"all": true, "dry-run": true}', JSON, "did you mean dry_run?"),
    (POST, f"{ADMIN}/purge", '{"all": true, "all": true}', JSON, "twice"),
    (POST, f"{ADMIN}/purge", '{"all": true, "dry_run": "true"}', JSON, "true or false is allowed"),
    (POST, f"{ADMIN}/purge", '{"all": true, "dry_run": 1}', JSON, "true or false is allowed"),
    (POST, f"{ADMIN}/purge", '{"all": "yes"}', JSON, "true or false is allowed"),
    (POST, f"{ADMIN}/purge", '{"ids": ["1"]}', JSON, "a whole number is allowed"),
    (POST, f"{ADMIN}/purge", '{"ids": [1.0]}', JSON, "a whole number is allowed"),
    (POST, f"{ADMIN}/purge", '{"ids": [true]}', JSON, "a whole number is allowed"),
    (POST, f"{ADMIN}/purge", '{"all": true, "rate": 1e400}', JSON, "too large"),
    (POST, f"{ADMIN}/purge", '{"filter": {"reason": "\\ud800"}}', JSON, "character: \\ud800"),
    (POST, f"{ADMIN}/purge", '{"filter": {"reason": "\\udc00\\ud800"}}', JSON, "\\udc00"),
    (POST, f"{ADMIN}/purge", '{"all": true}', FORM, "Content-Type"),
    (POST, f"{ADMIN}/purge", '{"all": true}', {}, "Content-Type is missing"),
    (POST, f"{ADMIN}/move", '{"all": true, "target": "\\uD83D"}', JSON, "half a character"),
    (GET, f"{ADMIN}/items?state=Ready", "", {}, "did you mean ready?"),
    (GET, f"{ADMIN}/items/1?body=1.5", "", {}, "body is"),
    (GET, f"{ADMIN}/items/%2B1", "", {}, "item is"),
    (GET, "/views?view=overview&queue=jobs", "", {}, "does not take queue: range is allowed"),
    (GET, "/views?view=schedules&limit=1", "", {}, "it takes none"),
    (GET, "/views?view=queue&queue=jobs&search=x", "", {}, "does not take search"),
    (GET, "/views?view=keys&queue=jobs&state=ready", "", {}, "state is ready"),
    (GET, "/views?view=items&queue=jobs&key=", "", {}, "key has no value"),
    (GET, "/events?view=overview&serch=x", "", {}, "did you mean search?"),
    (GET, "/metrics?queues=jobs", "", {}, "did you mean queue?"),
    (GET, "/health?verbose=1", "", {}, "takes no parameters"),
    # in the messaging API
    (GET, f"{V2}/messages?include_claimd=true", "", MESSAGING, "did you mean include_claimed?"),
    (GET, f"{V2}/messages?Limit=1", "", MESSAGING, "did you mean limit?"),
    (GET, f"{V2}/messages?limit=1&limit=2", "", MESSAGING, "more than once"),
    (GET, f"{V2}/messages?limit=", "", MESSAGING, "limit has no value"),
    (GET, f"{V2}/messages?marker=abc", "", MESSAGING, "marker is"),
    (GET, f"{V2}/messages?marker=1-2-3-4", "", MESSAGING, "marker is"),
    (GET, f"{V2}/messages?marker=%D9%A1-1", "", MESSAGING, "marker is"),
    (GET, f"{V2}/messages?ids=1-1&limit=5", "", MESSAGING, "ids and limit contradict"),
    (DELETE, f"{V2}/messages?pop=1&claim_ids=1-1", "", MESSAGING, "contradict"),
    (DELETE, f"{V2}/messages?pop=1&ids=1-1", "", MESSAGING, "either ids or pop"),
    (DELETE, f"{V2}?dry_run=true", "", MESSAGING, "takes no parameters"),
    (POST, f"{V2}/purge", '{"dry_run": true}', MESSAGING | JSON, 'no member "dry_run"'),
    (POST, f"{V2}/purge?dry_run=true", "", MESSAGING, "takes no parameters"),
    (POST, f"{V2}/messages", '{"messages": [{"body": 1, "tll": 60}]}', MESSAGING | JSON,
     "did you mean ttl?"),
    (POST, f"{V2}/messages", '{"mesages": []}', MESSAGING | JSON, "did you mean messages?"),
    (POST, f"{V2}/messages", '{"messages": [{"body": "\\ud800"}]}', MESSAGING | JSON,
     "half a character: \\ud800"),
    (POST, f"{V2}/messages", '{"messages": [{"body": 1}]}',
     MESSAGING | JSON | {"Idempotency-Key": "a"}, "does not read the header"),
    (POST, f"{V2}/claims", '{"ttl": "60"}', MESSAGING | JSON, 'ttl is "60"'),
    (POST, f"{V2}/claims", '{"lease": 60}', MESSAGING | JSON, 'no member "lease"'),
    (PUT, V2, '{"_max_claims_count": 3}', MESSAGING | JSON, "did you mean _max_claim_count?"),
    (PUT, V2, '{"_Max_Claim_Count": 3}', MESSAGING | JSON, "is no reserved key"),
    (PUT, V2, '{"team": "\\udfff"}', MESSAGING | JSON, "half a character: \\udfff"),
    (PATCHES, V2, '[{"op": "add", "path": "/metadata/_foo", "value": 1}]', MESSAGING | PATCH,
     "is no reserved key"),
    (GET, "/v2/queues?limit=1&limit=2", "", MESSAGING, "more than once"),
    (GET, "/v2/queues?team=a&team=b", "", MESSAGING, "team is in the URL more than once"),
    (GET, "/v2/ping?x=1", "", {}, "takes no parameters"),
]  # fmt: skip


def state(server: Web) -> object:
    """Return the state that an accepted request would have changed."""
    return {
        name: (queue.log.lsn_appended, len(queue.reader.leases))
        for name, queue in server.daemon.broker.queues.items()
    }


async def test_a_mistake_is_refused_with_its_name_and_changes_nothing(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        for _ in range(2):
            await server.client.post(ITEMS, content=b"x")
        await server.client.post(f"{V2}/messages", headers=MESSAGING,
                                 json={"messages": [{"body": 1}]})  # fmt: skip
        got = (await server.client.post(LEASES)).json()["leases"]
        token, before, complaints = got[0]["token"], state(server), list[str]()
        for each in MISTAKES:
            method, url, body, headers, why = each
            said = await server.client.request(
                method, url.replace("{token}", str(token)), content=body.encode() or None,
                headers=headers,
            )  # fmt: skip
            text = said.json()["description"]
            if said.status_code not in (400, 415) or why not in text or state(server) != before:
                complaints.append(f"{each}: {said.status_code} {text}")
                before = state(server)
        assert not complaints, "\n".join(complaints)


@pytest.mark.parametrize(
    ("query", "status"), [("abort", 204), ("abort=", 204), ("abort=true", 204), ("abort=1", 204),
                          ("%61bort", 204), ("&abort&", 204), ("bury=a+b", 204), ("", 204)]
)  # fmt: skip
async def test_what_is_declared_is_taken(tmp_path: Path, query: str, status: int) -> None:
    async with web(tmp_path) as server:
        await server.client.post(ITEMS, content=b"x")
        got = (await server.client.post(LEASES)).json()["leases"]
        url = LEASE.replace("{token}", str(got[0]["token"]))
        assert (await server.client.delete(f"{url}?{query}")).status_code == status
        left = (await server.client.post(LEASES)).json()["leases"]
        assert [each["attempts"] for each in left] == ([1] if "bort" in query else [])
