"""`schedules ls`, and the reports of `check-config` and `serve` on an invalid schedule."""

from __future__ import annotations

import json
from pathlib import Path

from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess

CONFIG = """
[schedules.nightly]
cron = "30 2 * * *"
queue = "jobs"
timezone = "Europe/Berlin"
catch_up = "all"
[schedules."a_catch_up"]
cron = "0 0 1 1 *"
queue = "mail"
"""


def test_schedules_are_listed_for_people_and_for_programs(
    kestrelpy: Command, tmp_path: Path
) -> None:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as daemon:
        server = ["--server", f"127.0.0.1:{daemon.port}"]
        found = {
            each["name"]: each
            for each in json.loads(kestrelpy("schedules", "ls", "--json", *server).out)
        }
        head, *rows = kestrelpy("schedules", "ls", *server).out.decode().splitlines()

    assert found.keys() == {"nightly", "a_catch_up"}
    nightly = found["nightly"]
    assert (nightly["cron"], nightly["timezone"]) == ("30 2 * * *", "Europe/Berlin")
    assert (nightly["queue"], nightly["catch_up"]) == ("jobs", "all")
    assert nightly["next_ms"] > nightly["last_ms"] > 1_700_000_000_000
    assert (nightly["waiting"], nightly["state"]) == (0, "ok")
    assert head.split()[:3] == ["schedule", "queue", "cron"]
    assert [row.split()[0] for row in rows] == ["a_catch_up", "nightly"]
    assert "-01-01 00:00:00Z" in rows[0]


def test_a_server_without_schedules_says_so(kestrelpy: Command) -> None:
    ended = kestrelpy("schedules", "ls")

    assert (ended.code, ended.out) == (0, b"")
    assert ended.err.startswith("no schedules on 127.0.0.1:")
    assert json.loads(kestrelpy("schedules", "ls", "--json").out) == []


def test_a_bad_cron_line_is_reported_with_its_place_before_a_start(
    kestrelpy: Command, tmp_path: Path
) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[schedules.nightly]\ncron = "30 26 * * *"\nqueue = "jobs"\n')

    for words in (["check-config"], ["serve"]):
        ended = kestrelpy(*words, "--config", str(file))
        assert ended.is_sentence(2), ended
        assert "[schedules.nightly] cron = " in ended.err
        assert "field 2 of 5, the hour, must be 0 to 23, or several" in ended.err
