"""The columns that a sink takes."""

from __future__ import annotations

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.write.requests import TYPES, row_form
from kestrelpy.spark.write.write_options import WriteOptions, parse_write_options

OPTIONS = parse_write_options({"servers": "a:1", "queue": "jobs"}, streams=False)
NO_IDS = parse_write_options({"servers": "a:1", "queue": "jobs", "ids": "none"}, streams=False)
NO_QUEUE = parse_write_options({"servers": "a:1"}, streams=False)


def refused(*fields: str, options: WriteOptions = OPTIONS) -> str:
    with pytest.raises(KestrelError) as caught:
        row_form([(name, word) for name, _, word in (f.partition(" ") for f in fields)], options)
    return str(caught.value)


def test_every_column_may_be_there_and_stand_anywhere() -> None:
    fields = [(name, min(TYPES[name])) for name in reversed(TYPES) if name != "delay"]

    assert row_form(fields, NO_QUEUE).names == tuple(name for name, _ in fields)
    assert row_form([("value", "string")], NO_IDS).names == ("value",)


def test_another_column_is_refused_by_its_name() -> None:
    assert refused("id string", "valu string").startswith(
        "The sink has no column 'valu'. Did you mean 'value'?"
    )
    assert refused("value string", "id string", "marker bigint").startswith(
        "The sink has no column 'marker': only the source has it."
    )
    assert refused("value string", "id string", "x int").startswith(
        "The sink has no column 'x'. Drop"
    )


def test_the_keys_of_a_source_are_the_key_of_a_sink() -> None:
    assert refused("value string", "id string", "keys array<binary>").startswith(
        "The sink has no column 'keys'. Name it key:"
    )
    fields = [("value", "string"), ("id", "string"), ("key", "array<binary>")]
    assert row_form(fields, OPTIONS).names == ("value", "id", "key")


def test_a_wrong_type_is_refused_with_the_cast() -> None:
    assert refused("value struct<a:int>", "id string") == (
        "Column 'value' is of type struct<a:int>, and the sink takes binary, string. Cast it, for "
        "instance col('value').cast('string')."
    )
    assert "col('flags').cast('int')" in refused("value string", "id string", "flags string")
    assert "delay" in refused("value string", "id string", "delay int")


def test_a_missing_or_contradicting_column_is_refused() -> None:
    assert refused("id string").startswith("There is no column 'value'")
    assert refused("value string").startswith("There is no column 'id', and without ids")
    assert refused("value string", "id string", options=NO_QUEUE).startswith(
        "The rows name no queue"
    )
    assert refused("value string", "id string", options=NO_IDS).startswith(
        "Column 'id' and ids=none"
    )
    assert refused("value string", "id string", "id string").startswith(
        "There are two columns 'id'"
    )
    assert refused("value string", "id string", "at timestamp", "delay string").startswith(
        "Columns 'delay' and 'at' contradict each other."
    )
