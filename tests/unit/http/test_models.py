"""The declarations of a route whose handler reads the request itself."""

from __future__ import annotations

from kestrelpy.http.models import parameter, refusals, request_parts


def test_a_router_refuses_with_what_all_do_and_with_its_own() -> None:
    assert refusals(404).keys() - refusals().keys() == {404}
    assert "WWW-Authenticate" in refusals()[401]["headers"]


def test_parameters_and_a_body_are_described() -> None:
    count = parameter("limit", {"type": "integer"}, "How many.")
    assert (count["in"], count["required"]) == ("query", False)
    assert request_parts() == {}
    assert request_parts(count, body={}, kind="a/b", required=True) == {
        "parameters": [count],
        "requestBody": {"content": {"a/b": {"schema": {}}}, "required": True},
    }  # fmt: skip
