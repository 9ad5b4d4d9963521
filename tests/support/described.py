"""Requests from /openapi.json to a daemon in which there is something to find.

    operation ──▶ schemathesis: requests that it allows, and requests that it does not
              ──▶ some of the values are of things that are there: a queue, an item, a lease
              ──▶ the daemon ──▶ the answer is as the operation declares
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    missing_required_header,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from tests.support.zaqar import CLIENT, PATCH_TYPE

CHECKS = [
    status_code_conformance, content_type_conformance, response_headers_conformance,
    response_schema_conformance, allow_header_conformance,
]  # fmt: skip
# Each sends a request of its own for a case: some cases are enough.
COSTLY_CHECKS = [missing_required_header, unsupported_method]
HEADERS = {"Client-ID": CLIENT, "X-Project-ID": "acme"}
SECONDS = 30
# Parameters that cannot have any value, with the values that the tests use instead.
INSTEAD: dict[tuple[str, str], tuple[str, list[str]]] = {
    ("DELETE /admin/connections/{connection}", "connection"): (
        "it would close the connection that asks: no connection has these numbers",
        ["1000000000", "9007199254740991", "9007199254740992", "0", "x"],
    ),
    ("POST /admin/schedules/{name}/run", "name"): (
        "by chance no schedule has that name", ["yearly", "none", "a b", "%20"],
    ),
    ("POST /queues/{queue}/leases", "wait"): ("a wait of minutes", ["0", "1ms", "", "-1", "61s"]),
    ("GET /categories/{name}", "wait"): ("a wait of minutes", ["0", "1ms", "", "-1", "61s"]),
    ("GET /v2/queues/{queue}/messages", "wait"): ("a wait of minutes", ["0", "-1", "61", "x"]),
    ("POST /v2/queues/{queue}/claims", "wait"): ("a wait of minutes", ["0", "-1", "61", "x"]),
}
# Bodies with an effect on this daemon: a random body has none.
BODIES: dict[str, list[Any]] = {
    "POST /admin/queues/{queue}/redrive": [{"all": True}, {"ids": [1, 2]}, {"filter": {}}],
    "POST /admin/queues/{queue}/purge": [{"ids": [1]}, {"all": True, "dry_run": True}],
    "POST /admin/queues/{queue}/move": [
        {"count": 1, "target": "moved"}, {"all": True, "state": "dead", "target": "moved"},
    ],
    "POST /v2/queues/{queue}/messages": [{"messages": [{"body": {"a": 1}, "ttl": 60}]}],
    "PATCH /v2/queues/{queue}": [[{"op": "add", "path": "/metadata/a", "value": 1}]],
    "PUT /v2/queues/{queue}": [{"team": "mail"}, {"_max_claim_count": 3}],
    "POST /v2/queues/{queue}/claims": [{"ttl": 60, "grace": 60}, {}],
}  # fmt: skip
# Parameters that go together: most combinations contradict themselves.
QUERIES: dict[str, list[dict[str, str]]] = {
    "GET /views": [
        {"view": "overview", "range": "5m"}, {"view": "queues", "sort": "dead", "limit": "1"},
        {"view": "queue", "queue": "jobs"}, {"view": "items", "queue": "jobs", "state": "dead"},
        {"view": "dead", "queue": "jobs", "key": ""}, {"view": "schedules"}, {"view": "journal"},
    ],
    "DELETE /v2/queues/{queue}/messages": [{"pop": "1"}, {"ids": "1-1"}],
}  # fmt: skip


@schemathesis.serializer(PATCH_TYPE)
def as_json(ctx: Any, value: Any) -> bytes:
    """Encode the body of a PATCH."""
    return json.dumps(value).encode()


class Site:
    """A daemon with queues, items in all states, a stream, messages and a claim."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.session = requests.Session()
        self.session.trust_env = False
        described = self.ask("GET", "/openapi.json").json()
        schema = schemathesis.openapi.from_dict(described)
        self.operations = {found.ok().label: found.ok() for found in schema.get_all_operations()}

    def ask(self, method: str, path: str, **more: Any) -> requests.Response:
        """Make a request of our own, which must be answered."""
        return self.session.request(method, self.url + path, timeout=SECONDS, **more)

    def things(self) -> dict[str, list[str]]:
        """Make the things to find anew; return the values of parameters that name them."""
        ask = self.ask
        ask("PATCH", "/admin/mode", json={"mode": "up"})
        for job in ask("GET", "/admin/jobs").json()["jobs"]:
            if job["state"] == "running":
                ask("DELETE", f"/admin/jobs/{job['id']}")
        ask("POST", "/queues/jobs/items?key=A&id=once", data=b"\xff")
        for _ in range(6):
            assert ask("POST", "/queues/jobs/items", data=b"x").status_code == 201
        delayed = str(ask("POST", "/queues/jobs/items?delay=1h", data=b"x").json()["id"])
        ask("POST", "/admin/queues/jobs/resume")
        leases = ask("POST", "/queues/jobs/leases?count=5").json()["leases"]
        tokens = [str(each["token"]) for each in leases]
        for token in (tokens.pop(), tokens.pop()):
            ask("DELETE", f"/queues/jobs/leases/{token}?bury=why")
        ask("POST", "/streams/acc-1", data=b"x")
        ask("POST", "/admin/queues/acc/resume")
        ask("POST", "/admin/queues/jobs/purge", json={"ids": [1], "dry_run": True})
        items = ask("GET", "/admin/queues/jobs/items?limit=20").json()["items"]
        jobs = ask("GET", "/admin/jobs").json()["jobs"]
        return {
            "token": tokens, "item": [delayed, *(str(each["id"]) for each in reversed(items))],
            "job": [str(each["id"]) for each in jobs], **self._messages(),
        }  # fmt: skip

    def _messages(self) -> dict[str, list[str]]:
        path, ask = "/v2/queues/jobs", self.ask
        ask("POST", "/admin/queues/acme:jobs/resume")
        batch = {"messages": [{"body": n} for n in range(4)]}
        hrefs = ask("POST", f"{path}/messages", json=batch, headers=HEADERS).json()["resources"]
        claim = ask("POST", f"{path}/claims?limit=2", headers=HEADERS).headers["Location"]
        ids = [each.rpartition("/")[2] for each in reversed(hrefs)]
        return {"message": ids, "claim": [claim.rpartition("/")[2]]}


def answers(site: Site, label: str, *, first: int, count: int) -> Counter[int]:
    """Ask `count` times, beginning with this seed; return the statuses. An AssertionError, or a
    failure of schemathesis, names the request and the mistake in its answer."""
    operation, things, seen = site.operations[label], site.things(), Counter[int]()
    named = {
        "queue": ["jobs", "acme:jobs", "none"], "name": ["acc-1", "acc", "jobs", "acc-2"], **things,
    }  # fmt: skip
    named["name"] = named["name"][:1] if "/streams" in label else named["name"][1:]

    @seed(first)
    @settings(
        max_examples=count, deadline=None, database=None, derandomize=False,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )
    @given(cases(label, operation, named))
    def ask(case: Any) -> None:
        response = case.call(
            base_url=site.url, session=site.session, timeout=SECONDS, allow_redirects=False
        )
        costly = COSTLY_CHECKS if seen.total() % 10 == 0 else []
        if response.status_code != 503:
            case.validate_response(response, checks=[not_a_server_error])
        case.validate_response(response, checks=CHECKS + costly)
        if response.status_code == 503:  # it is declared: then it is a sentence
            assert response.json()["description"], response.text
        seen[response.status_code] += 1

    ask()
    return seen


@st.composite
def cases(draw: Callable[..., Any], label: str, operation: Any, named: dict[str, list[str]]) -> Any:
    """A case of the operation; in most of them some values name what is there."""
    modes = [schemathesis.GenerationMode.POSITIVE]
    if any(True for _ in operation.iter_parameters()) or operation.body:
        modes.append(schemathesis.GenerationMode.NEGATIVE)
    is_like_ours = st.integers(0, 3).map(lambda n: n < 3)
    mode = draw(st.sampled_from(modes))
    case = draw(operation.as_strategy(generation_mode=mode))
    for name in list(case.path_parameters or ()):
        if draw(is_like_ours) and named.get(name):
            case.path_parameters[name] = draw(st.sampled_from(named[name]))
    if label in BODIES and draw(is_like_ours):
        case.body = draw(st.sampled_from(BODIES[label]))
    if label in QUERIES and draw(is_like_ours):
        case.query = dict(draw(st.sampled_from(QUERIES[label])))
    if "/v2/queues" in label and draw(is_like_ours):
        case.headers = {**(case.headers or {}), **HEADERS}
    for (where, name), (_, values) in INSTEAD.items():
        for given_ in (case.query, case.path_parameters):
            if where == label and given_ and name in given_:
                given_[name] = draw(st.sampled_from(values))
    return case
