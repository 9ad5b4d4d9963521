"""The shapes in /openapi.json follow the facts, and input has bounds."""

from __future__ import annotations

import msgspec
import pytest

from kestrelpy.http.admin import models
from kestrelpy.operations import ItemFacts, QueueFacts


def test_a_model_has_the_members_of_its_facts() -> None:
    assert set(models.QueueRow.__struct_fields__) == {*QueueFacts._fields, "name"}
    of_body = {"body", "base64", "is_cut", "body_bytes"}
    assert set(models.Item.__struct_fields__) == {*ItemFacts._fields, *of_body} - {"texts"}
    [_], shapes = msgspec.json.schema_components([models.Item])
    assert {"type": "string"} in shapes["Item"]["properties"]["reason"]["anyOf"]


@pytest.mark.parametrize(
    "body",
    [
        {"ids": []}, {"ids": [0]}, {"ids": [1 << 53]}, {"rate": 0}, {"unknown": 1},
        {"ids": [1] * (models.IDS_MAX + 1)}, {"filter": {"reason": "x" * 1025}},
    ],
)  # fmt: skip
def test_a_selection_out_of_its_bounds_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(body, models.Selection)
