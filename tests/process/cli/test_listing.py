"""`status` and `queues ls`, for people and with --json."""

from __future__ import annotations

import json
from pathlib import Path

from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess


def test_status_shows_the_facts_of_the_server(kestrelpy: Command, daemon: DaemonProcess) -> None:
    shown = dict(line.split(maxsplit=1) for line in kestrelpy("status").out.decode().splitlines())
    facts = json.loads(kestrelpy("status", "--json").out)

    assert shown["server"] == facts["server"] == f"127.0.0.1:{daemon.port}"
    assert shown["status"] == facts["status"] == "up"
    assert shown["version"] == facts["version"]
    assert facts["curr_connections"] >= 1
    assert facts["queue_creates"] >= 0
    assert not [name for name in facts if name.endswith("_logsize")]


def test_status_can_be_changed(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        server = ["--server", f"127.0.0.1:{other.port}"]
        for mode in ("readonly", "quiescent", "up"):
            facts = json.loads(kestrelpy("status", "--set", mode, "--json", *server).out)
            assert facts["status"] == mode

        ended = kestrelpy("status", "--set", "asleep", *server)

    assert ended.is_sentence(2), ended
    assert "'asleep' is not a mode, known are up, readonly, quiescent" in ended.err


def test_queues_are_listed_with_their_counts(kestrelpy: Command, daemon: DaemonProcess) -> None:
    client = daemon.client()
    for body in (b"12345", b"678"):
        client.set("listed", body)
    client.get("listed/open")

    queues = {each["name"]: each for each in json.loads(kestrelpy("queues", "ls", "--json").out)}
    head, *rows = kestrelpy("queues", "ls").out.decode().splitlines()
    [row] = [each for each in rows if each.startswith("listed ")]

    assert queues["listed"]["items"] == 1
    assert queues["listed"]["bytes"] == 3
    assert queues["listed"]["open_transactions"] == 1
    assert head.split()[:4] == ["queue", "items", "bytes", "leased"]
    assert row.split()[:4] == ["listed", "1", "3B", "1"]


def test_queue_names_that_look_like_counts_are_distinguished(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    client = daemon.client()
    for name, count in (("n", 1), ("n_open", 2), ("n_mem", 3), ("n_logsize", 4), ("[red]", 5)):
        for _ in range(count):
            client.set(name, b"x")

    queues = {each["name"]: each for each in json.loads(kestrelpy("queues", "ls", "--json").out)}
    table = kestrelpy("queues", "ls").out.decode()

    for name, count in (("n", 1), ("n_open", 2), ("n_mem", 3), ("n_logsize", 4), ("[red]", 5)):
        assert queues[name]["items"] == count
        assert queues[name]["open_transactions"] == 0
    assert "\n[red] " in table


def test_no_queues_is_no_error(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        server = ["--server", f"127.0.0.1:{other.port}"]

        assert kestrelpy("queues", "ls", "--json", *server).out == b"[]\n"
        ended = kestrelpy("queues", "ls", *server)

    assert (ended.code, ended.out, ended.err) == (
        0, b"", f"no queues on 127.0.0.1:{other.port}\n",
    )  # fmt: skip


def test_an_output_that_takes_nothing_is_one_sentence(
    kestrelpy: Command, daemon: DaemonProcess
) -> None:
    daemon.client().set("any", b"x")
    for words in (["queues", "ls"], ["queues", "ls", "--json"], ["status"]):
        with open("/dev/full", "wb") as full:
            process = kestrelpy.start(*words, stdout=full)
            ended = kestrelpy.finish(process)

        assert ended.is_sentence(2), ended
        assert "No space left on device" in ended.err
