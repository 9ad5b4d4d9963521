"""The query of `pipeline` makes the messages that `messages` means, from lines."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from kestrelpy.examples.messages import QUEUES, Message, messages
from kestrelpy.examples.parser import parsed
from kestrelpy.spark.session import session, what_is_missing

pytestmark = pytest.mark.slow
PLAIN = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}


def test_each_line_becomes_its_message_in_the_queue_of_its_level() -> None:
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    made = [
        *messages(300), Message(300, "odd", "ERROR", 'raise "ä\t\\ \u2028" here'),
        Message(301, "odd", "WARNING", "it WARNS"),
    ]  # fmt: skip
    assert {each.level for each in made} == set(QUEUES)
    spark = session("kestrelpy tests", "local[1]", PLAIN)
    now = datetime.now(UTC)
    lines = [("s", "lines", each.number + 1, now, each.line().encode()[:-1]) for each in made]
    columns = "server string, queue string, marker bigint, timestamp timestamp, value binary"

    rows = parsed(spark.createDataFrame(lines, columns)).collect()

    assert [row.queue for row in rows] == [each.queue for each in made]
    assert [row.id for row in rows] == [f"s|lines|{each.number + 1}" for each in made]
    for row, message in zip(rows, made, strict=True):
        said = json.loads(row.value)
        assert (said["number"], said["service"]) == (message.number, message.service)
        assert (said["message"], said["level"]) == (message.text, message.level)
        assert abs((datetime.fromisoformat(said["timestamp"]) - now).total_seconds()) < 0.001
