"""The schema is the one DESIGN knows, a narrower one is checked, and each kind has its word."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from journal.format.kinds import UNNUMBERED, Kind
from kestrelpy.spark.schema import (
    OP_WORDS,
    OPS,
    SchemaError,
    default,
    select,
)


def sentence(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(SchemaError) as caught:
        select(*args, **kwargs)
    return str(caught.value)


def test_the_columns_of_items_are_those_of_the_spec_as_it_lists_them() -> None:
    assert default("items").names == (
        "server", "queue", "marker", "key", "id", "value", "flags", "timestamp", "expires",
        "attempts", "state", "origin",
    )  # fmt: skip


def test_the_columns_of_events_are_those_of_the_spec_as_it_lists_them() -> None:
    assert default("events").names == (
        "server", "queue", "marker", "op", "timestamp", "reader", "attempts", "opened",
        "segment", "position", "value",
    )  # fmt: skip


def test_a_narrower_schema_stays_as_the_user_wrote_it_and_may_name_extras() -> None:
    chosen = select("events", [("lsn", "long"), ("op", "STRING"), ("attempts", "integer")])
    assert chosen.ddl == "lsn bigint, op string, attempts int"
    assert chosen.arrow == pa.schema(
        [("lsn", pa.int64()), ("op", pa.string()), ("attempts", pa.int32())]
    )
    assert "op" in chosen
    assert "value" not in chosen


def test_times_are_instants_in_utc() -> None:
    assert default("events").arrow.field("opened").type == pa.timestamp("us", "UTC")


def test_an_unknown_column_is_a_sentence_with_the_nearest() -> None:
    said = sentence("items", [("quue", "string")])
    assert said.startswith("There is no column 'quue' of items. Did you mean 'queue'?")


def test_a_column_of_the_other_mode_says_so() -> None:
    assert "only of events. Say mode=events" in sentence("items", [("opened", "timestamp")])


def test_a_wrong_type_names_the_right_one() -> None:
    said = sentence("items", [("flags", "int")])
    assert said.startswith("Column 'flags' of items is of type bigint, and the schema says int.")


def test_a_column_twice_and_no_column_are_refused() -> None:
    assert "twice" in sentence("items", [("queue", "string"), ("queue", "string")])
    assert "names no column" in sentence("items", [])


def test_a_server_does_not_know_the_extras_of_items() -> None:
    assert "read from servers" in sentence("items", [("lsn", "long")], live=True)
    assert select("items", [("lsn", "long")]).names == ("lsn",)


def test_every_kind_that_is_numbered_in_a_log_has_a_word_of_its_own() -> None:
    in_snapshots = {
        Kind.KEYS, Kind.LIVE, Kind.ATTEMPTS, Kind.SEGMENTS, Kind.DELAYED, Kind.PLACED, Kind.OPEN,
    }  # fmt: skip
    assert set(OPS) == set(Kind) - UNNUMBERED - in_snapshots
    assert len(set(OPS.values())) == len(OPS)
    assert OP_WORDS[Kind.DONE] == "confirm"
    assert OP_WORDS[200] == "kind 200"
    assert OP_WORDS[Kind.BATCH] == ""


def test_a_selection_travels() -> None:
    chosen = select("items", [("queue", "string")])
    assert pickle.loads(pickle.dumps(chosen)) == chosen
