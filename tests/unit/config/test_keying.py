"""The key settings: the allowed fields."""

from __future__ import annotations

import pytest

from kestrelpy.config.keying import FIELDS_MAX, fields_in_words, read_fields


def test_fields_are_a_list_or_words_between_commas() -> None:
    assert read_fields(["src_id", "/to/id"]) == read_fields("src_id,/to/id") == ("src_id", "/to/id")


@pytest.mark.parametrize(
    "fields",
    [
        5, None, [], [5], [""], ["a", ""], "", "a,", ["a\n"], ["/a~2"], ["a", "a"], ["a", "/a"],
        ["x" * 201], [f"f{n}" for n in range(FIELDS_MAX + 1)], {"a": 1},
    ],
)  # fmt: skip
def test_invalid_fields_are_refused(fields: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_fields(fields)


def test_fields_are_written_as_in_the_file() -> None:
    assert fields_in_words(("src_id", 'a"b')) == '["src_id", "a\\"b"]'
