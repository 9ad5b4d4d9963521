"""The description says what the routes declare."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.responses import Response

from kestrelpy.http.routing import Router, described
from kestrelpy.http.values import Truth

router = Router("things", prefix="/a", responses={404: {"description": "None."}})


class Thing(Struct):
    """One thing,
    in two lines."""

    size: int


class Other(Struct):
    """Another thing."""

    name: str


@router.post("/{number}", status=201, summary="Put", model=Thing,
             responses={200: {"model": Thing | Other, "description": "Both."}})  # fmt: skip
async def put(
    number: Annotated[int, Meta(ge=1)], thing: Thing | None = None,
    count: Annotated[int, Meta(le=9, description="How many.")] = 3,
    key: Annotated[str, Meta(description="Its key.")] = "", truth: Truth = "false",
) -> Response:  # fmt: skip
    """Put a thing."""
    return Response()


@router.head("/{number}")
async def head(number: str) -> Response:
    """Look."""
    return Response()


SAID = described(router.routes, "1")


def operation(method: str) -> dict[str, Any]:
    found: dict[str, Any] = SAID["paths"]["/a/{number}"][method]
    return found


def test_an_operation_has_the_parameters_of_its_handler() -> None:
    parameters = {each["name"]: each for each in operation("post")["parameters"]}
    assert parameters["number"] == {
        "name": "number", "in": "path", "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }  # fmt: skip
    assert parameters["count"]["schema"] == {"type": "integer", "maximum": 9, "default": 3}
    assert parameters["count"]["description"] == "How many."
    assert parameters["key"]["schema"] == {"type": "string", "minLength": 1}
    assert parameters["truth"]["schema"]["enum"] == ["", "true", "1", "false", "0"]


def test_an_operation_has_the_answers_of_its_router_and_its_own() -> None:
    answers = operation("post")["responses"]
    assert list(answers) == ["201", "404", "200"]
    thing, other = ({"$ref": f"#/components/schemas/{name}"} for name in ("Thing", "Other"))
    assert answers["201"]["content"]["application/json"]["schema"] == thing
    assert answers["200"]["content"]["application/json"]["schema"] == {"anyOf": [thing, other]}
    assert SAID["components"]["schemas"]["Thing"]["description"] == "One thing,\nin two lines."


def test_a_body_is_needed_if_the_handler_needs_it() -> None:
    assert operation("post")["requestBody"] == {
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}},
        "required": False,
    }  # fmt: skip


def test_no_body_is_described_of_an_answer_to_head() -> None:
    assert all("content" not in each for each in operation("head")["responses"].values())
