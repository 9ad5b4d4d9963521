"""One voice for refusals: no words of pydantic, msgspec or FastAPI leave the server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, ValidationError

from kestrelpy.http.admin import models
from kestrelpy.http.app import declarations
from kestrelpy.http.checks.sentences import (
    allowed,
    meant,
    model_of,
    no_member,
    of_msgspec,
    of_pydantic,
)
from kestrelpy.http.zaqar.batch import PostedBatch
from kestrelpy.http.zaqar.claims import ClaimTimes
from kestrelpy.http.zaqar.metadata import Operation
from kestrelpy.http.zaqar.queues import Purge
from tests.support.http_client import web

# As pydantic and msgspec say it.
FOREIGN = re.compile(
    r"Input should|Extra inputs|Field required|String should|List should|Unable to|valid \w+,|"
    r"Expected `|Object contains|Object missing|Value error|- at `|pydantic|Assertion"
)
VALUES: list[Any] = [
    None, True, 0, -1, 1.0, 1.5, 10**18, "", "x", "1", "true", [], [1], {}, {"x": 1}, [None],
    ["x"], [[]], {"reason": 1}, "x" * 2000,
]  # fmt: skip
BODIES = [models.Redrive, models.Selection, models.Move, models.Mode]


@pytest.mark.parametrize("model", BODIES)
def test_each_mistake_in_a_body_is_a_sentence_of_ours(model: type[BaseModel]) -> None:
    good: dict[str, Any] = {"target": "q"} if "target" in model.model_fields else {}
    bodies = [
        {**good, name: value} for name in (*model.model_fields, "nosuch") for value in VALUES
    ]
    said = list[str]()
    for body in (*bodies, *VALUES):
        try:
            model.model_validate(body)
        except ValidationError as error:
            said += [
                of_pydantic({**each, "loc": ("body", *each["loc"])}, model)
                for each in error.errors()
            ]
    assert len(said) > 10
    for each in said:
        assert FOREIGN.search(each) is None, each
        assert "this value is not allowed" not in each, each
        assert len(each) < 300


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ({"type": "missing", "loc": ("body",)}, "the body is missing: this request needs one"),
        ({"type": "missing", "loc": ("body", "target")}, "target is missing"),
        ({"type": "missing", "loc": ("query", "text")}, "text is missing in the URL"),
        ({"type": "extra_forbidden", "loc": ("body", "dry_rum"), "input": 1},
         'the body has no member "dry_rum": ids, filter, all, rate or dry_run is allowed, '
         "did you mean dry_run?"),
        ({"type": "extra_forbidden", "loc": ("body", "filter", "Reason"), "input": 1},
         'filter has no member "Reason": reason, died_from_ms, died_before_ms or attempts_least is '
         "allowed, did you mean reason?"),
        ({"type": "int_type", "loc": ("body", "ids", 3), "input": "7"},
         'ids.3 is "7": a whole number is allowed'),
        ({"type": "a type of tomorrow", "loc": ("body", "ids"), "input": {"a": 1}},
         "ids is an object: this value is not allowed"),
    ],
)  # fmt: skip
def test_a_sentence_names_the_place_the_value_and_what_is_allowed(
    error: dict[str, Any], sentence: str
) -> None:
    assert of_pydantic(error, models.Selection) == sentence


@pytest.mark.parametrize(
    ("kind", "body", "sentence"),
    [
        (ClaimTimes, b'{"tll": 1}',
         'the body has no member "tll": ttl or grace is allowed, did you mean ttl?'),
        (ClaimTimes, b'{"ttl": "60"}', "ttl is text: a whole number or null is allowed"),
        (ClaimTimes, b'{"ttl": 60.0}', "ttl is a number: a whole number or null is allowed"),
        (ClaimTimes, b"[]", "the body is a list: an object is allowed"),
        (PostedBatch, b"{}", "the body has no messages: it is needed"),
        (PostedBatch, b'{"messages": [{"body": 1}, {"body": 1, "delai": 1}]}',
         'messages[1] has no member "delai": body, ttl or delay is allowed, did you mean delay?'),
        (list[Operation], b'[{"op": "add", "path": "/x", "vlaue": 1}]',
         '[0] has no member "vlaue": op, path or value is allowed, did you mean value?'),
        (Purge, b'{"dry_run": true}',
         'the body has no member "dry_run": resource_types is allowed'),
        (ClaimTimes, b"{",
         "the body is not JSON that the server can read: input data was truncated"),
        (ClaimTimes, b'{"ttl": 1e400}',
         "the body is not JSON that the server can read: number out of range"),
    ],
)  # fmt: skip
def test_msgspec_is_translated(kind: Any, body: bytes, sentence: str) -> None:
    with pytest.raises(msgspec.MsgspecError) as found:
        msgspec.json.decode(body, type=kind)
    assert of_msgspec(str(found.value), kind) == sentence


def test_names_are_listed_and_the_nearest_is_named() -> None:
    assert allowed(["a"]) == "a is allowed"
    assert allowed(["a", "b", "c"]) == "a, b or c is allowed"
    assert meant("ABORRT", ["abort", "bury"]) == ", did you mean abort?"
    assert meant("x" * 100_000, ["abort"]) == ""
    assert no_member("x", []) == 'the body has the member "x": it has none'
    assert model_of(models.Which | None) is models.Which
    assert model_of(int | None) is None


async def test_no_route_answers_with_the_words_of_a_library(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        for declared in declarations().values():
            if declared.model is None:
                continue
            method, path = declared.label.split(" ", 1)
            for value in VALUES:
                said = await server.client.request(
                    method, path.replace("{queue}", "jobs"), content=json.dumps(value),
                    headers={"Content-Type": "application/json"},
                )  # fmt: skip
                if value == {} and not any(
                    each.is_required() for each in declared.model.model_fields.values()
                ):
                    continue  # it says nothing, which some routes allow
                assert said.status_code == 400, (path, value, said.text)
                assert FOREIGN.search(said.text) is None, said.text


class _Deep(BaseModel):
    known: int = 0
    listed: list[int] = []


@pytest.mark.parametrize("place", [("known", "x"), ("listed", 0, "x"), ("none", "y", "x")])
def test_a_member_too_many_below_what_is_no_model_is_a_sentence_too(
    place: tuple[str | int, ...],
) -> None:
    error: Any = {"type": "extra_forbidden", "loc": ("body", *place), "input": 1, "msg": ""}
    assert "x" in of_pydantic(error, _Deep)
