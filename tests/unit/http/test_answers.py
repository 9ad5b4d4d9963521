"""Errors are `{title, description}` with the status that fits."""

from __future__ import annotations

import json

import pytest

from kestrelpy.errors import ClientError, InvalidToken, ServerError
from kestrelpy.http.answers import HttpError, answer, refused, without_paths


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
