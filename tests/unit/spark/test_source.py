"""`format("kestrel")` in a real Spark, over a stand-in for a server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from kestrelpy.spark.errors import sentence_of
from tests.unit.spark.stand_in import Line, StandIn

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[StandIn]:
    line = Line()
    for number in range(1, 301):
        line.put(b"%d" % number, f"{1_700_000_000_000 + number} - 0 ready k{number} -")
    with StandIn({"jobs": line}) as made:
        yield made


def read(spark: SparkSession, server: StandIn, **options: Any) -> DataFrame:
    return spark.read.format("kestrel").options(servers=str(server.address), **options).load()


def said(frame_or_error: BaseException) -> str:
    """The first line of what Spark says, and nothing of Python's or Java's before our words."""
    return str(frame_or_error).splitlines()[0]


def test_each_item_is_one_row_whatever_the_partitions(spark: SparkSession, server: StandIn) -> None:
    frame = read(spark, server, minPartitions=5)

    rows = frame.select("marker", "key", "value").collect()

    assert frame.rdd.getNumPartitions() == 5
    assert Counter(row.key for row in rows) == Counter(f"k{n}" for n in range(1, 301))
    assert all(row.value == b"%d" % row.marker for row in rows)


def test_a_dataframe_is_planned_once(spark: SparkSession, server: StandIn) -> None:
    frame = read(spark, server)
    assert server.requests == []

    first = {row.marker for row in frame.collect()}
    asked = server.requests.count("stats markers")
    for number in range(301, 311):
        server.queues["jobs"].put(b"%d" % number)
    second = {row.marker for row in frame.where("marker > 0").collect()}

    assert first == second == set(range(1, 301))
    assert asked == 3  # one for the plan, and two of the task that reads
    assert server.requests.count("stats markers") == asked + 2


def test_times_are_the_same_instants_in_any_zone(spark: SparkSession, server: StandIn) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    found = {}
    try:
        for name in ("UTC", "America/New_York", "Asia/Kolkata"):
            spark.conf.set("spark.sql.session.timeZone", name)
            frame = read(spark, server, endingTimestamp="2023-11-14T22:13:20.003Z")
            found[name] = [
                row.ms for row in frame.selectExpr("unix_millis(timestamp) as ms").collect()
            ]
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)

    assert set(map(tuple, found.values())) == {(1_700_000_000_001, 1_700_000_000_002)}
    when = read(spark, server).select("timestamp").first()
    assert when is not None
    assert when.timestamp.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 1000, UTC)


def test_a_narrower_schema_has_its_columns_as_it_lists_them(
    spark: SparkSession, server: StandIn
) -> None:
    reader = spark.read.format("kestrel").schema("flags long, value binary, state string")

    frame = reader.option("servers", str(server.address)).load()

    assert frame.columns == ["flags", "value", "state"]
    assert Counter(tuple(row) for row in frame.collect()) == Counter(
        (0, b"%d" % n, "ready") for n in range(1, 301)
    )


def test_a_schema_that_does_not_fit_is_refused_with_the_nearest(
    spark: SparkSession, server: StandIn
) -> None:
    for ddl, words in (
        ("valu binary", "There is no column 'valu' of items. Did you mean 'value'?"),
        ("value string", "Column 'value' of items is of type binary, and the schema says string."),
    ):
        frame = (
            spark.read.format("kestrel").schema(ddl).option("servers", str(server.address)).load()
        )
        with pytest.raises(Exception, match="KestrelError") as caught:
            frame.collect()
        assert sentence_of(caught.value).startswith(words)


def test_a_wrong_option_is_refused_at_load_in_one_line(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="KestrelError") as caught:
        spark.read.format("kestrel").option("server", "a:1").load()

    assert said(caught.value) == (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to create Python data source instance: "
        "kestrelpy.spark.KestrelError: There is no option server. Did you mean servers?"
    )
    assert sentence_of(caught.value) == "There is no option server. Did you mean servers?"


def test_a_server_out_of_reach_is_one_line(spark: SparkSession, server: StandIn) -> None:
    with StandIn({}) as gone:
        address = str(gone.address)
    options = {"fetchRetries": "0", "servers": f"{address},{server.address}"}
    reader = spark.read.format("kestrel").options(**options)

    with pytest.raises(Exception, match="KestrelError") as caught:
        reader.load().collect()

    assert said(caught.value) == (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to generate Python data source read partitions: "
        f"kestrelpy.spark.KestrelError: The server {address} cannot be reached: Connection "
        "refused. Start it, correct the option servers, or say skipUnreachable=true to read the "
        "others."
    )
    rows = reader.option("skipUnreachable", "true").load().collect()
    assert {row.marker for row in rows} == set(range(1, 301))


def test_what_breaks_in_a_task_is_one_line(spark: SparkSession, server: StandIn) -> None:
    frame = read(spark, server)
    assert frame.rdd.getNumPartitions() == 1
    server.queues["jobs"].generation = 2

    with pytest.raises(Exception, match="KestrelError") as caught:
        frame.collect()

    assert sentence_of(caught.value).startswith(f"The queue jobs of {server.address} was deleted")
    assert "Traceback" not in str(caught.value)


def test_nothing_there_is_no_rows(spark: SparkSession, server: StandIn) -> None:
    assert read(spark, server, queues="x*").collect() == []


def test_comparisons_are_pushed_down_only_when_asked_for(
    spark: SparkSession, server: StandIn
) -> None:
    expected = set(range(101, 200))
    query = "marker > 100 and marker < 200 and queue = 'jobs'"
    plain = read(spark, server)
    assert {row.marker for row in plain.where(query).collect()} == expected
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = read(spark, server, pushdown=True)
        server.requests.clear()
        assert {row.marker for row in frame.where(query).collect()} == expected
        assert [r for r in server.requests if r.startswith("gets")] == [
            "gets jobs/peek/after=100/n=99/full"
        ]
        server.requests.clear()
        assert frame.where("queue = 'mail'").collect() == []
        assert not any(r.startswith("gets") for r in server.requests)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    with pytest.raises(Exception, match=r"spark\.sql\.python\.filterPushdown\.enabled"):
        read(spark, server, pushdown=True).collect()
