"""What a route declares besides what FastAPI sees."""

from __future__ import annotations

from kestrelpy.http.models import Error, described, parameter, refusals, request_parts


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


def test_what_no_route_answers_is_not_described() -> None:
    content = {"application/json": {}}
    validation = {"content": {"application/json": {"schema": {"$ref": "HTTPValidationError"}}}}
    openapi = {
        "paths": {"/a": {
            "head": {"responses": {
                "422": validation, "404": {"description": "x", "content": content},
            }},
            "get": {"responses": {"200": {"content": content}}},
        }},
        "components": {"schemas": {"HTTPValidationError": {}, "ValidationError": {}}},
    }  # fmt: skip
    assert described(openapi) == {
        "paths": {"/a": {
            "head": {"responses": {"404": {"description": "x"}}},
            "get": {"responses": {"200": {"content": content}}},
        }},
        "components": {"schemas": {"Error": Error.model_json_schema()}},
    }  # fmt: skip
