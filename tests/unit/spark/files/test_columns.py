"""Columns of frames: only those that were selected, and only the rows that are wanted."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from journal.format.checkpoint import Checkpoint
from journal.format.kinds import Kind, Tag
from journal.format.meta import ended
from kestrelpy.spark.files.columns import EVENT_COLUMNS, ITEM_COLUMNS, Rows
from kestrelpy.spark.files.frame_headers import FrameHeaders, headers_of
from kestrelpy.spark.files.split import NO_LIMITS, RowLimits, Split
from kestrelpy.spark.schema import DEFAULT, EXTRA, select
from tests.golden.layout import TIME_MS, SegmentBuilder, draft

SPLIT = Split("a.segment", b"\x01\x02", 1, 9, 8192, 1, 6, "server-1", "jobs", 7)


def headers() -> FrameHeaders:
    one = SegmentBuilder(9, 8192, 1, Checkpoint(b"jobs", generation=7))
    records = one.batch(
        draft(Kind.PUT, 1, 1, 5, b"one", {Tag.EXPIRES_MS: TIME_MS + 9}),
        draft(Kind.PUT, 2, 2, 0, b"", time_ms=TIME_MS + 1),
        draft(Kind.PUT, 3, 0, 0, b"later", {Tag.DUE_MS: TIME_MS + 50}, time_ms=TIME_MS + 2),
        draft(Kind.RETURNED, 1, TIME_MS, 2, b"", {Tag.REASON: b"abort"}, time_ms=TIME_MS + 3),
        draft(Kind.DONE, 2, TIME_MS, ended(3, 0)[0], time_ms=TIME_MS + 4),
        draft(Kind.TOKENS, 0, 64, time_ms=TIME_MS + 5),
    )
    return headers_of(bytes(one.data), records)


def rows(
    *columns: tuple[str, str], limits: RowLimits = NO_LIMITS, split: Split = SPLIT
) -> list[dict[str, Any]] | None:
    batch = Rows(split, select("events", columns), limits).batch(headers())
    if batch is None:
        return None
    batch.validate(full=True)
    return batch.to_pylist()


def lsns(limits: RowLimits = NO_LIMITS, split: Split = SPLIT) -> list[int]:
    return [row["lsn"] for row in rows(("lsn", "bigint"), limits=limits, split=split) or []]


def column(name: str, word: str) -> list[Any]:
    return [row[name] for row in rows((name, word)) or []]


def test_there_is_a_maker_for_every_column() -> None:
    events = {each.name for each in (*DEFAULT["events"], *EXTRA["events"])}
    items = {each.name for each in (*DEFAULT["items"], *EXTRA["items"])}
    assert events <= set(EVENT_COLUMNS)
    assert items <= set(ITEM_COLUMNS)


def test_a_batch_has_the_columns_as_they_were_selected() -> None:
    found = rows(("lsn", "bigint"), ("queue", "string"), ("op", "string"))
    assert found is not None
    assert list(found[0].items()) == [("lsn", 1), ("queue", "jobs"), ("op", "put")]
    assert [row["op"] for row in found[3:]] == ["return", "confirm", "tokens"]


def test_values_are_null_where_a_record_has_none() -> None:
    assert column("value", "binary") == [b"one", b"", b"later", None, None, None]
    assert column("attempts", "int") == [0, 0, 0, 2, 2, None]
    assert column("reason", "string") == [None, None, None, "abort", None, None]
    assert column("item", "bigint") == [1, 2, 3, 1, 2, None]
    assert column("flags", "bigint") == [5, 0, 0, None, None, None]
    assert [t is not None for t in column("expires", "timestamp")] == [True] + [False] * 5
    assert [t is not None for t in column("opened", "timestamp")] == [False] * 3 + [True] * 2 + [
        False
    ]


def test_a_split_says_whose_records_they_are() -> None:
    found = rows(("server", "string"), ("generation", "bigint"), ("segment", "bigint"),
                 ("journal", "string"))  # fmt: skip
    assert found is not None
    assert found[0] == {"server": "server-1", "generation": 7, "segment": 9, "journal": "0102"}


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (NO_LIMITS, [1, 2, 3, 4, 5, 6]),
        (RowLimits(from_ms=TIME_MS + 2), [3, 4, 5, 6]),
        (RowLimits(before_ms=TIME_MS + 2), [1, 2]),
        (RowLimits(marker_after=1), [2, 5]),
        (RowLimits(marker_upto=1), [1, 4]),
        (RowLimits(marker_after=0, marker_upto=9), [1, 2, 4, 5]),
    ],
)
def test_rows_outside_the_limits_are_left_out(limits: RowLimits, expected: list[int]) -> None:
    assert lsns(limits) == expected


def test_records_that_another_split_has_are_left_out() -> None:
    assert lsns(split=replace(SPLIT, skip=((1, 2), (5, 5)))) == [3, 4, 6]


def test_no_wanted_row_is_no_batch() -> None:
    assert rows(("lsn", "bigint"), split=SPLIT.only(7, 9)) is None
    assert rows(("lsn", "bigint"), limits=RowLimits(from_ms=TIME_MS + 99)) is None


def test_a_plan_does_not_wait_for_pandas() -> None:
    program = (
        "import sys, kestrelpy.spark.files, kestrelpy.spark.streaming, kestrelpy.spark.live\n"
        "assert 'pyarrow' in sys.modules\n"
        "assert 'pandas' not in sys.modules"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
