"""Refusals have our own sentences: no words of msgspec reach a client."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kestrelpy.http.admin import models
from kestrelpy.http.app import ROUTES
from kestrelpy.http.routing.sentences import (
    allowed,
    meant,
    no_member,
    of_msgspec,
    struct_of,
)
from kestrelpy.http.zaqar.batch import PostedBatch
from kestrelpy.http.zaqar.claims import ClaimTimes
from kestrelpy.http.zaqar.metadata import Operation
from kestrelpy.http.zaqar.queues import Purge
from tests.support.http_client import web

# As msgspec says it.
FOREIGN = re.compile(r"Expected `|Object contains|Object missing|Invalid|- at `|msgspec|`\$")
VALUES: list[Any] = [
    None, True, 0, -1, 1.0, 1.5, 10**18, "", "x", "1", "true", [], [1], {}, {"x": 1}, [None],
    ["x"], [[]], {"reason": 1}, "x" * 2000,
]  # fmt: skip
BODIES = [models.Redrive, models.Selection, models.Move, models.Mode]


@pytest.mark.parametrize("model", BODIES)
def test_each_mistake_in_a_body_is_a_sentence_of_ours(model: type[msgspec.Struct]) -> None:
    names = model.__struct_fields__
    good: dict[str, Any] = {"target": "q"} if "target" in names else {}
    bodies = [{**good, name: value} for name in (*names, "nosuch") for value in VALUES]
    said = list[str]()
    for body in (*bodies, *VALUES):
        try:
            msgspec.convert(body, model)
        except msgspec.ValidationError as error:
            said.append(of_msgspec(str(error), model, body))
    assert len(said) > 10
    for each in said:
        assert FOREIGN.search(each) is None, each
        assert len(each) < 300


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"dry_rum": 1},
         'the body has no member "dry_rum": ids, filter, all, rate, dry_run, target, state or '
         "count is allowed, did you mean dry_run?"),
        ({}, "the body has no target: it is needed"),
        ({"filter": {"Reason": 1}},
         'filter has no member "Reason": reason, died_from_ms, died_before_ms or attempts_least is '
         "allowed, did you mean reason?"),
        ({"ids": [1, 2, 3, "7"]}, 'ids[3] is "7": a whole number is allowed'),
        ({"ids": [0]}, "ids[0] is 0: at least 1 is allowed"),
        ({"ids": []}, "ids has too few members: at least 1 is allowed"),
        ({"ids": [1] * 10_001}, "ids has too many members: at most 10000 are allowed"),
        ({"filter": {"reason": "x" * 1025}},
         "filter.reason is too long: at most 1024 characters are allowed"),
        ({"state": "raedy"}, 'state is "raedy": ready or dead is allowed, did you mean ready?'),
        ({"all": None}, "all is null: true or false is allowed"),
        ({"rate": 1.5}, "rate is 1.5: a whole number or null is allowed"),
    ],
)  # fmt: skip
def test_a_sentence_names_the_place_the_value_and_what_is_allowed(
    body: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(msgspec.ValidationError) as found:
        msgspec.convert(body, models.Move)
    assert of_msgspec(str(found.value), models.Move, body) == sentence


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
    assert struct_of(models.Which | None) is models.Which
    assert struct_of(int | None) is None


async def test_no_route_answers_with_the_words_of_a_library(tmp_path: Path) -> None:
    async with web(tmp_path) as server:
        await server.client.post("/queues/jobs/items", content=b"x")
        for declared in ROUTES:
            if declared.body is None or (shape := declared.body[1]) is None:
                continue
            method, path = declared.label.split(" ", 1)
            for value in VALUES:
                said = await server.client.request(
                    method, path.replace("{queue}", "jobs"), content=json.dumps(value),
                    headers={"Content-Type": "application/json"},
                )  # fmt: skip
                if value == {} and all(each.default is not msgspec.NODEFAULT for each in
                                       msgspec.structs.fields(shape)):
                    continue  # it says nothing, which some routes allow
                assert said.status_code == 400, (path, value, said.text)
                assert FOREIGN.search(said.text) is None, said.text
