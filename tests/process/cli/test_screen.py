"""Output on a terminal: colours, `--watch`, and `top`."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path

import pytest

from tests.process.cli.command import Command
from tests.process.cli.terminal import on_terminal
from tests.support.daemon import DaemonProcess

YELLOW_PAUSED = r"\x1b\[33mpaused\x1b\[0m"


@pytest.fixture
def paused(kestrelpy: Command) -> str:
    kestrelpy("put", "paused-1", "x")
    kestrelpy("queues", "pause", "paused-1")
    return "paused-1"


def test_a_bad_state_has_a_colour_on_a_terminal(kestrelpy: Command, paused: str) -> None:
    with on_terminal(kestrelpy, "queues", "ls") as terminal:
        assert terminal.end() == 0

    assert re.search(YELLOW_PAUSED, terminal.text), terminal.text


def test_no_color_means_none_on_a_terminal(kestrelpy: Command, paused: str) -> None:
    with on_terminal(kestrelpy, "queues", "ls", NO_COLOR="1") as terminal:
        assert terminal.end() == 0

    assert "paused" in terminal.text
    assert not re.search(r"\x1b\[\d*3\d", terminal.text), terminal.text


@pytest.mark.parametrize("words", [["queues", "ls"], ["status"], ["top"]])
def test_a_pipe_gets_plain_text(kestrelpy: Command, paused: str, words: list[str]) -> None:
    ended = kestrelpy(*words, FORCE_COLOR="1")

    assert ended.code == 0
    assert b"\x1b" not in ended.out


def test_status_and_queues_have_units_and_totals(kestrelpy: Command, tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as other:
        server = ["--server", f"127.0.0.1:{other.port}"]
        for _ in range(3):
            other.client().set("one", b"x" * 1024)
        other.client().set("two/delay=1h", b"x")
        status = kestrelpy("status", *server).out.decode()
        listed = kestrelpy("queues", "ls", *server).out.decode().splitlines()
        shown = kestrelpy("queues", "show", "one", *server).out.decode()

    assert re.search(r"\nuptime +\d+m?s\n", status), status
    assert re.search(r"\nbytes +3.0KiB\n", status), status
    assert re.search(
        r"\ntotal +2 queues, 4 items: 3 ready \(3\.0KiB\), 1 delayed, 0 leased, 0 dead; 128KiB on",
        status,
    )
    assert listed[-1].split()[:6] == ["total", "(2", "queues)", "3", "3.0KiB", "0"]
    assert "total                  3 items: 3 ready (3.0KiB), 0 delayed, 0 leased" in shown


def test_watch_prints_again_until_ctrl_c(kestrelpy: Command) -> None:
    with on_terminal(kestrelpy, "status", "--watch", "100ms") as terminal:
        terminal.until(r"health +ok[^$]*\x1b\[H\x1b\[2J[^$]*health +ok")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.end() == 0

    assert "Traceback" not in terminal.text


def test_watch_in_a_pipe_prints_lines_for_programs(kestrelpy: Command) -> None:
    process = kestrelpy.start("status", "--json", "--watch", "100ms")
    assert process.stdout is not None
    found = [json.loads(process.stdout.readline()) for _ in range(3)]
    process.send_signal(signal.SIGINT)
    ended = kestrelpy.finish(process)

    assert [each["status"] for each in found] == ["up"] * 3
    assert (ended.code, ended.err) == (0, "")


def test_top_is_live_and_a_key_sorts_it(kestrelpy: Command, daemon: DaemonProcess) -> None:
    for _ in range(5):
        daemon.client().set("top-many", b"x")
    daemon.client().set("top-large", b"x" * 100_000)

    with on_terminal(kestrelpy, "top", "--interval", "100ms") as terminal:
        terminal.until(r"by items.*(?s:.*)in/s")
        daemon.client().set("top-many", b"x")
        terminal.until(r"top-many +6 ")
        terminal.press("b")
        terminal.until(r"by bytes(?s:.*)top-large(?s:.*)top-many")
        terminal.press("q")
        assert terminal.end() == 0


def test_top_prints_once_in_a_pipe(kestrelpy: Command, daemon: DaemonProcess) -> None:
    daemon.client().set("top-once", b"x" * 200_000)

    head, first, *_ = kestrelpy("top", "--sort", "bytes", "--once").out.decode().splitlines()
    rows = json.loads(kestrelpy("top", "--sort", "bytes", "--count", "1", "--json").out)
    wrong = kestrelpy("top", "--sort", "size")

    assert head.split()[:3] == ["queue", "items", "bytes"]
    assert first.split()[:3] == ["top-once", "1", "195KiB"]
    assert [(row["name"], row["bytes"]) for row in rows] == [("top-once", 200_000)]
    assert wrong.is_sentence(2), wrong
    assert "--sort: 'size' is not a column, known are name, items" in wrong.err
