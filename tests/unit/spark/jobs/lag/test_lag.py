"""The lag of each consumer: rates between two looks, the time to drain, and the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kestrelpy.spark.jobs.common.fleet import FleetFigures, ServerFigures
from kestrelpy.spark.jobs.lag import Lag, lag_of, main, outcome
from kestrelpy.spark.offsets import Address
from tests.support.daemon import DaemonProcess


def server(*queues: FleetFigures) -> ServerFigures:
    return ServerFigures(Address("a", 1), "5f2c", {each.queue: each for each in queues})


def figures(items: int, total: int, at: float, *, leased: int = 0, age: int = 0) -> FleetFigures:
    return FleetFigures("jobs+audit", items, 10 * items, total, age, leased, 0, 0, at)


def lag(before: FleetFigures | None, now: FleetFigures, **most: int) -> Lag:
    seen = server(before) if before is not None else None
    return lag_of(server(now), now, seen, most.get("items"), most.get("age_ms"))


def test_the_time_to_drain_follows_from_both_rates() -> None:
    found = lag(figures(100, 1000, 5.0, leased=20), figures(70, 1040, 15.0, leased=10))

    assert (found.queue, found.consumer) == ("jobs", "audit")
    assert (found.in_per_second, found.out_per_second) == (4.0, 8.0)
    assert found.drain_seconds == 20.0  # 80 unfinished, four fewer each second


def test_a_backlog_that_does_not_shrink_has_no_time_to_drain() -> None:
    grows = lag(figures(100, 1000, 0.0), figures(110, 1020, 10.0))
    stands = lag(figures(100, 1000, 0.0), figures(100, 1000, 10.0))
    empty = lag(figures(0, 1000, 0.0), figures(0, 1000, 10.0))

    assert (grows.out_per_second, grows.drain_seconds) == (1.0, None)
    assert (stands.out_per_second, stands.drain_seconds) == (0.0, None)
    assert empty.drain_seconds == 0.0


def test_without_a_first_look_or_after_a_start_there_are_no_rates() -> None:
    new = lag(None, figures(5, 5, 10.0))
    started = lag(figures(100, 1000, 0.0), figures(5, 5, 10.0))

    for found in (new, started):
        assert (found.in_per_second, found.out_per_second, found.drain_seconds) == (None,) * 3


def test_too_many_items_or_too_old_ones_are_exit_code_1() -> None:
    now = figures(5, 5, 1.0, leased=1, age=2000)

    assert lag(None, now, items=6, age_ms=2000).is_too_much is False
    assert lag(None, now, items=5).is_too_much is True
    assert lag(None, now, age_ms=1999).is_too_much is True
    told = outcome([lag(None, now, items=5), lag(None, now)])
    assert told.code == 1
    assert "1 consumer too far behind" in told.text
    assert "jobs+audit!" in told.text


@pytest.mark.slow
def test_it_runs_over_servers_and_says_one_line_of_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with DaemonProcess(tmp_path / "a") as one, DaemonProcess(tmp_path / "b") as other:
        for number, daemon in enumerate((one, other)):
            client = daemon.client()
            client.get("jobs+audit/peek")
            for _ in range(3 + number):
                client.set("jobs", b"hello")
            client.get("jobs")
            client.close()
        servers = f"127.0.0.1:{one.port},127.0.0.1:{other.port}"

        code = main(["--servers", servers, "--interval", "20ms", "--json"])
        late = main(["--servers", servers, "--interval", "20ms", "--most-items", "3"])

    told, _, table = capsys.readouterr().out.partition("\n")
    facts = json.loads(told)
    assert code == 0
    assert facts["job"] == "lag"
    assert facts["unfinished"] == 3 + 4 + 2 + 3
    consumers = [(each["consumer"], each["items"]) for each in facts["consumers"]]
    assert sorted(consumers, key=str) == [("audit", 3), ("audit", 4), (None, 2), (None, 3)]
    assert consumers[0] == ("audit", 4)
    assert all(each["in_per_second"] == 0 for each in facts["consumers"])
    assert late == 1
    assert "4 consumers on 2 servers: 12 items unfinished; 1 consumer too far behind" in table


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--interval", "soon"], "--interval: 'soon' is not a duration"),
        (["--interval", "0s"], "--interval 0s is no time between two looks"),
        (["--most-age", "5"], "--most-age: '5' is not a duration"),
        (["--queues", ""], "Option queues: it names no queue"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    code = main(["--servers", "127.0.0.1:1", *words])

    told = capsys.readouterr()
    assert code == 2
    assert told.out == ""
    assert said in told.err.replace('"', "'")
    assert told.err.count("\n") == 1
