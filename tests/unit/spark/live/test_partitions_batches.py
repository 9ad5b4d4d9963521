"""Answers of a server as Arrow batches."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from kestrelpy.spark.live.partitions import Slice, batch_of
from kestrelpy.spark.live.wire import Values
from kestrelpy.spark.offsets import Address, MarkerRange
from kestrelpy.spark.options import parse_options
from kestrelpy.spark.schema import default, select

PART = Slice(Address("a", 1), "5e12", "jobs", 1, MarkerRange(0, 100), 0)


def values_of(*items: tuple[str, bytes]) -> Values:
    lines = [
        f"VALUE jobs/peek 7 {len(body)} {marker} {fields}".encode().split(b" ")
        for marker, (fields, body) in enumerate(items, 1)
    ]
    bodies = [body for _, body in items]
    return Values(lines, [len(body) for body in bodies], b"".join(bodies))


def read(values: Values, part: Slice = PART, **options: str) -> list[dict[str, Any]]:
    batch = batch_of(part, values, default("items"), parse_options({"servers": "a:1", **options}))
    return [] if batch is None else batch.to_pylist()


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


def test_an_item_is_a_row() -> None:
    values = values_of(
        ("1700000000123 - 0 ready - -", b"first"),
        ("1700000000124 1700000009000 2 lent a%2Cb%20c id%2F1", b""),
        ("1700000000125 - 100 dead caf%C3%A9 -", b"\xff\x00"),
    )

    first, second, third = read(values)

    assert first == {
        "server": "5e12",
        "queue": "jobs",
        "marker": 1,
        "key": None,
        "id": None,
        "value": b"first",
        "flags": 7,
        "timestamp": at(1_700_000_000_123),
        "expires": None,
        "attempts": 0,
        "state": "ready",
        "origin": None,
    }
    assert (second["key"], second["id"], second["value"]) == ("a,b c", "id/1", b"")
    assert (second["expires"], second["attempts"]) == (at(1_700_000_009_000), 2)
    assert (third["key"], third["state"], third["value"]) == ("café", "dead", b"\xff\x00")


def test_only_named_columns_are_there_as_they_were_named() -> None:
    selection = select("items", [("flags", "bigint"), ("value", "binary")], live=True)

    batch = batch_of(
        PART, values_of(("1 - 0 ready - -", b"x")), selection, parse_options({"servers": "a:1"})
    )

    assert batch is not None
    assert batch.schema == pa.schema([("flags", pa.int64()), ("value", pa.binary())])
    assert batch.to_pylist() == [{"flags": 7, "value": b"x"}]


def test_what_lies_behind_the_range_is_left_out() -> None:
    values = values_of(*[(f"{n} - 0 ready - -", b"%d" % n) for n in range(1, 6)])
    part = Slice(Address("a", 1), "5e12", "jobs", 1, MarkerRange(0, 3), 0)

    assert [row["value"] for row in read(values, part)] == [b"1", b"2", b"3"]


def test_times_choose_by_when_an_item_was_stored() -> None:
    values = values_of(*[(f"{n}000 - 0 ready - -", b"%d" % n) for n in (3, 1, 2, 4)])

    found = read(values, startingTimestamp="2000", endingTimestamp="1970-01-01T00:00:04Z")

    assert [row["value"] for row in found] == [b"3", b"2"]
    assert read(values, startingTimestamp="9000") == []


def test_a_mark_of_time_and_a_range_hold_together() -> None:
    values = values_of(*[(f"{n}000 - 0 ready - -", b"%d" % n) for n in range(1, 6)])
    part = Slice(Address("a", 1), "5e12", "jobs", 1, MarkerRange(0, 3), 0)

    assert [row["value"] for row in read(values, part, startingTimestamp="2000")] == [b"2", b"3"]


def test_the_texts_of_a_key_are_read_if_a_schema_names_them() -> None:
    words = ["A,b%2Cc", '"1"', "%FF", "1", "-"]
    values = values_of(*((f"1700000000123 - 0 ready {word} -", b"") for word in words))
    selection = select("items", [("keys", "array<binary>")], live=True)

    batch = batch_of(PART, values, selection, parse_options({"servers": "a:1"}))

    assert batch is not None
    assert batch["keys"].to_pylist() == [[b"A", b"b,c"], [b"1"], [b"\xff"], None, None]
