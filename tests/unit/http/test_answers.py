"""Errors are `{title, description}` with the status that fits."""

from __future__ import annotations

import json

from kestrelpy.errors import ClientError, InvalidToken, ServerError
from kestrelpy.http.answers import HttpError, answer, refused


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
