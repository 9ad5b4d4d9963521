"""The shapes in /openapi.json follow the facts, and input has bounds."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kestrelpy.http.admin import models
from kestrelpy.operations import ItemFacts, QueueFacts


def test_a_model_has_the_members_of_its_facts() -> None:
    assert set(models.QueueRow.model_fields) == {*QueueFacts._fields, "name"}
    of_body = {"body", "base64", "is_cut", "body_bytes"}
    assert set(models.Item.model_fields) == {*ItemFacts._fields, *of_body}
    assert models.Item.model_json_schema()["properties"]["reason"]["anyOf"][0]["type"] == "string"


@pytest.mark.parametrize(
    "body",
    [
        {"ids": []}, {"ids": [0]}, {"ids": [1 << 53]}, {"rate": 0}, {"unknown": 1},
        {"ids": [1] * (models.IDS_MAX + 1)}, {"filter": {"reason": "x" * 1025}},
    ],
)  # fmt: skip
def test_a_selection_out_of_its_bounds_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        models.Selection.model_validate(body)
