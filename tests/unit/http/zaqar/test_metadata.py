"""Metadata are valid or refused as a whole, and mean settings."""

from __future__ import annotations

from typing import Any

import pytest

from kestrelpy.http.answers import HttpError
from kestrelpy.http.zaqar.metadata import (
    DEFAULTS,
    checked,
    in_force,
    parsed,
    patched,
    settings_of,
    stored_form,
)


def settings(meta: dict[str, Any]) -> str:
    return settings_of(checked(meta), lambda own: b"acme:" + own.encode()).decode()


def test_reserved_keys_have_their_defaults_until_they_are_set() -> None:
    assert in_force({}) == dict(DEFAULTS)
    assert in_force({"_default_message_ttl": 60, "a": 1})["_default_message_ttl"] == 60
    assert checked({"_max_claim_count": None, "a": None}) == {"a": None}


def test_metadata_are_read_as_they_were_stored() -> None:
    assert parsed(stored_form({"a": [1, {"b": None}]})) == {"a": [1, {"b": None}]}
    assert stored_form({}) == b""
    assert parsed(b"") == {}


@pytest.mark.parametrize(
    ("meta", "expected"),
    [
        ({"a": 1}, ""),
        ({"_max_claim_count": 3}, "max_attempts = 3\n"),
        ({"_dead_letter_queue": "dead"}, 'dead_letter_to = "acme:dead"\n'),
        ({"_dead_letter_queue_messages_ttl": 60}, 'dead_letter_age = "60s"\n'),
        ({"_settings": {"lease": "5m", "durable": True}}, 'lease = "5m"\ndurable = true\n'),
        ({"_settings": {"expire_to": "old"}}, 'expire_to = "acme:old"\n'),
        (
            {"_key": {"fields": ["/a", "b"], "match": "any"}},
            'key_format = "json"\nkey = ["/a", "b"]\nkey_match = "any"\n',
        ),
        ({"_key": {"unordered": True}}, "key_unordered = true\n"),
    ],
)
def test_some_of_them_mean_settings(meta: dict[str, Any], expected: str) -> None:
    assert settings(meta) == expected


@pytest.mark.parametrize(
    "meta",
    [
        {"_settings": {'a" = 1\nb': 1}}, {"_settings": {"a": None}}, {"_key": {"x": 1}},
        {"_settings": 5}, {"_settings": {"dead_letter_to": "other:q"}}, {"": 1},
    ],
)  # fmt: skip
def test_what_is_no_setting_is_refused(meta: dict[str, Any]) -> None:
    with pytest.raises(HttpError) as refused:
        settings(meta)
    assert refused.value.status == 400


def test_a_patch_applies_its_operations_in_sequence_and_changes_nothing_it_was_given() -> None:
    before = {"a": 1, "b/c": 2, "_max_claim_count": 5}
    after = patched(before, b"""[
        {"op": "add", "path": "/metadata/d", "value": {"e": 1}},
        {"op": "replace", "path": "/metadata/d", "value": 3},
        {"op": "remove", "path": "/metadata/b~1c"},
        {"op": "remove", "path": "/metadata/_max_claim_count"}
    ]""")
    assert after == {"a": 1, "d": 3}
    assert before == {"a": 1, "b/c": 2, "_max_claim_count": 5}


def test_a_reserved_key_that_nobody_knows_is_refused_unless_it_is_there_already() -> None:
    with pytest.raises(HttpError, match="did you mean _max_claim_count"):
        checked({"_max_claims_count": 3})
    stored = {"_old": 1}
    assert checked({**stored, "b": 1}, stored) == {"_old": 1, "b": 1}
    with pytest.raises(HttpError, match="_new"):
        checked({**stored, "_new": 1}, stored)
