"""`kestrelpy top` says first whether all is well, as the page does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kestrelpy.access import hash_secret
from tests.process.cli.command import Command, eventually
from tests.process.cli.terminal import on_terminal
from tests.support.daemon import DaemonProcess


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", http_port="0") as running:
        yield running


def test_top_says_that_all_is_well_then_the_worst_first(
    daemon: DaemonProcess, kestrelpy: Command
) -> None:
    daemon.client().set("jobs", b"x")
    first, second, *_ = kestrelpy("top", "--once").out.decode().splitlines()
    assert first == "all well"
    assert second.startswith("stored ")
    assert " delivered " in second
    assert " free" in second

    assert kestrelpy("status", "--set", "readonly").code == 0
    assert kestrelpy("queues", "pause", "jobs").code == 0
    told = b"warn: the server is read-only: nothing new is stored"
    eventually(lambda: kestrelpy("top", "--once").out.startswith(told))  # it looks each second
    assert b"all well" not in kestrelpy("top", "--json").out


def test_the_live_screen_has_the_verdict_above_the_table(
    daemon: DaemonProcess, kestrelpy: Command
) -> None:
    daemon.client().set("jobs", b"x")
    with on_terminal(kestrelpy, "top", "--interval", "100ms") as terminal:
        terminal.until(r"all well(?s:.*)by items(?s:.*)jobs")
        kestrelpy("status", "--set", "readonly")
        terminal.until(r"warn: the server is read-only")
        terminal.press("q")
        assert terminal.end() == 0


def test_a_user_who_may_read_all_is_answered_over_http_as_well(tmp_path: Path) -> None:
    users = f'[auth.anna]\nsecret = "{hash_secret(b"letmein")}"\nrole = "read"\nqueues = ["*"]\n'
    with DaemonProcess(tmp_path / "users", http_port="0", config=users) as daemon:
        kestrelpy = Command(daemon.port, tmp_path)
        seen = kestrelpy("top", "--once", "--user", "anna", KESTRELPY_PASSWORD="letmein")
        assert seen.out.decode().splitlines()[0] == "all well", seen


def test_without_http_there_is_no_verdict(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "off") as daemon:
        kestrelpy = Command(daemon.port, tmp_path)
        daemon.client().set("jobs", b"x")
        assert kestrelpy("top", "--once").out.decode().split()[0] == "queue"
        with on_terminal(kestrelpy, "top", "--interval", "100ms") as terminal:
            terminal.until(r"no verdict: HTTP is off on this server")
            terminal.press("q")
            assert terminal.end() == 0
