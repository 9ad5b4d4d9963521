"""The options of the sink."""

from __future__ import annotations

import pytest

from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.offsets import Address, FleetAddress
from kestrelpy.spark.write.write_options import parse_write_options


def refused(streams: bool = False, **given: str) -> str:
    with pytest.raises(KestrelError) as caught:
        parse_write_options({"servers": "a:1", **given}, streams=streams)
    return str(caught.value)


def test_the_options_are_parsed_whatever_the_letters() -> None:
    options = parse_write_options(
        {"SERVERS": "a:1, b:2", "queue": "jobs", "writetimeout": "7s", "newfleet": "TRUE"},
        streams=True,
    )

    assert options.servers == (Address("a", 1), Address("b", 2))
    assert (options.queue, options.ids, options.scope, options.epoch) == (
        "jobs",
        "column",
        "",
        None,
    )
    assert options.write_timeout_ms == 7_000
    assert options.new_fleet


def test_what_spark_adds_is_let_through() -> None:
    parse_write_options(
        {"servers": "a:1", "checkpointlocation": "/tmp/x", "queryname": "q"}, streams=True
    )


def test_a_wrong_option_is_one_sentence_with_the_nearest() -> None:
    assert refused(queues="jobs") == "There is no option queues. Did you mean queue?"
    assert refused(path="/tmp").startswith("The sink writes to servers, not to a path.")
    assert refused(queue="a b").startswith('Option queue: "a b" is not the name of a queue')
    assert refused(ids="rows").startswith('Option ids: "rows" is not a source of ids')
    assert refused(writeTimeout="5").startswith('Option writeTimeout: "5" is not a duration')
    assert refused(scope="a/b", epoch="1").startswith('Option scope: "a/b" is not a scope')
    with pytest.raises(KestrelError, match="nowhere to write to"):
        parse_write_options({"queue": "jobs"}, streams=False)


def test_options_that_contradict_each_other_are_refused() -> None:
    assert refused(scope="s").startswith("Option scope needs epoch in a batch write.")
    assert refused(epoch="1").startswith("Option epoch needs scope in a batch write.")
    assert refused(streams=True, scope="s", epoch="1").startswith("Option epoch does not go with")
    assert refused(scope="s", epoch="1", ids="none").startswith("Options ids=none and scope")
    assert (
        parse_write_options({"servers": "a:1", "scope": "s", "epoch": "0"}, streams=False).epoch
        == 0
    )


def test_rows_go_to_the_servers_of_a_fleet_or_to_named_ones() -> None:
    engine = "postgresql://k:sekret@db/kestrel"
    options = parse_write_options({"fleet": engine, "queue": "jobs"}, streams=True)

    assert options.servers == (FleetAddress.of(engine),)
    assert "sekret" not in f"{options}"
    assert refused(fleet=engine).startswith("Options fleet and servers contradict each other")
