"""Events and items as tables, written down by hand: what a journal would have said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kestrelpy.spark.jobs.report.tables import EVENTS, ITEMS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START_MS = 1_790_000_040_000  # the beginning of a minute


def at(seconds: float) -> datetime:
    """Return the time this many seconds after the start."""
    return datetime.fromtimestamp(START_MS / 1000 + seconds, UTC)


@dataclass(frozen=True)
class Event:
    """One event; times in seconds after the start. Its lsn is its place in the story."""

    op: str
    item: int | None
    seconds: float
    opened: float | None = None
    attempts: int = 0
    reason: str | None = None
    queue: str = "jobs"
    server: str = "s1"
    generation: int = 1
    reader: str | None = None


@dataclass(frozen=True)
class Held:
    """An item that is still there."""

    item: int
    state: str = "ready"
    queue: str = "jobs"
    server: str = "s1"
    generation: int = 1


def events_table(spark: SparkSession, story: Sequence[Event]) -> DataFrame:
    """With the columns that the measures ask for."""
    rows = [
        (
            each.server, each.queue, each.generation, each.item, lsn, each.op, at(each.seconds),
            each.reader, None if each.opened is None else at(each.opened), each.attempts,
            each.reason,
        )
        for lsn, each in enumerate(story, 1)
    ]  # fmt: skip
    return spark.createDataFrame(rows, EVENTS)


def items_table(spark: SparkSession, held: Sequence[Held]) -> DataFrame:
    """With the columns that the measures ask for."""
    rows = [(each.server, each.queue, each.generation, each.item, each.state) for each in held]
    return spark.createDataFrame(rows, ITEMS)
