"""Errors are `{title, description}` with the status that fits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from kestrelpy.errors import ClientError, InvalidToken, ServerError
from kestrelpy.http.answers import HttpError, Parts, answer, refused, without_paths


def test_each_refusal_has_its_status() -> None:
    for error, status in (
        (ClientError("a"), 400), (ServerError("b"), 503), (InvalidToken(7, b"q"), 404),
        (HttpError(412, "c", expected=1), 412),
    ):  # fmt: skip
        said = refused(error)
        assert said.status_code == status
        assert json.loads(said.body)["description"] == str(error)
    assert json.loads(refused(HttpError(412, "c", expected=1)).body)["expected"] == 1


def test_an_answer_is_json() -> None:
    assert answer({"a": b"x"}.keys() and {"a": 1}, 201).body == b'{"a":1}'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/var/lib/kestrelpy/q-1/7.seg: sync failed", ".../7.seg: sync failed"),
        ("the disk said no", "the disk said no"),
        ("/admin", "/admin"),
        ("in '/srv/data/x y'", "in '.../x y'"),
    ],
)
def test_a_text_shows_no_folder(text: str, shown: str) -> None:
    assert without_paths(text) == shown


def test_a_refusal_shows_no_folder() -> None:
    said = json.loads(refused(ServerError("/srv/data/jobs.1: syncing failed")).body)
    assert said["description"] == ".../jobs.1: syncing failed"


async def test_of_an_answer_in_parts_a_head_makes_none() -> None:
    made = list[bytes]()
    sent = list[Any]()

    async def parts() -> AsyncIterator[bytes]:
        made.append(b"x")
        yield b"x"

    async def send(message: Any) -> None:
        sent.append(message)

    for is_head in (True, False):
        made.clear()
        sent.clear()
        await Parts(parts())({"call": SimpleNamespace(is_head=is_head)}, Mock(), send)
        assert made == ([] if is_head else [b"x"])
        assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
