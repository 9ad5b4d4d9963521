"""A command that the fork server starts is a process as one that a user starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest

import kestrelpy
from tests.process.cli.command import eventually
from tests.support import fork_server
from tests.support.daemon import DaemonProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is forked")
OWN = {k: v for k, v in os.environ.items() if not k.startswith(("KESTRELPY_", "PYTHONUNBUFFERED"))}


def a_real_one(words: list[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a daemon as a user does, not by the fork server."""
    environment = options.pop("env", OWN) | {"PYTHONPATH": str(fork_server.ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", "kestrelpy", *words], env=environment, **options
    )


@pytest.mark.parametrize("words", [
    ["--version"], ["put", "--help"], ["nonsense"], [], ["peek", "q", "--server", "127.0.0.1:1"],
    ["check-config", "--config", "absent.toml"], ["hash-secret"], ["completion", "bash"],
    ["journal", "verify", "data"],
], ids=" ".join)  # fmt: skip
def test_it_ends_and_says_as_a_real_one_does(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "data").mkdir()
    told = []
    for start in (fork_server.start, a_real_one):
        process = start(words, cwd=tmp_path, env=OWN, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        out, err = process.communicate(b"a secret that is long enough\n", 60)
        # each hash has a salt of its own
        told.append((process.returncode, len(out) if words == ["hash-secret"] else out, err))

    assert told[0] == told[1]


def test_it_was_forked_and_has_no_file_or_thread_of_another(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data") as one, DaemonProcess(tmp_path / "other") as two:
        for daemon in (one, two):
            command = Path(f"/proc/{daemon.pid}/cmdline").read_bytes()
            assert b"fork_server" in command, "the fork server started it"
        files = [
            {os.readlink(f"/proc/{each.pid}/fd/{n}") for n in os.listdir(f"/proc/{each.pid}/fd")}
            for each in (one, two)
        ]
        shared = {each for each in files[0] & files[1] if not each.startswith("anon_inode")}
        assert shared <= {"/dev/null"}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_the_end_is_reported(tmp_path: Path, number: signal.Signals) -> None:
    with DaemonProcess(tmp_path / "data") as daemon:
        process = daemon._process
        assert process is not None and process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        code = process.wait(60)
        assert code == (-number if number == signal.SIGKILL else 0)
        assert (process.poll(), process.wait()) == (code, code)
        eventually(lambda: not Path(f"/proc/{process.pid}").exists())


@pytest.mark.parametrize("environment", [
    {"PYTHONOPTIMIZE": "1"}, {"PYTHONPATH": "elsewhere"}, {"LC_ALL": "C"}, {"TZ": "Asia/Tokyo"},
    {"MALLOC_ARENA_MAX": "1"},
], ids=str)  # fmt: skip
def test_what_an_interpreter_reads_at_its_start_makes_one_start(
    environment: dict[str, str],
) -> None:
    words, options = ["--version"], {"stdout": PIPE, "stderr": DEVNULL}
    for more, is_forked in (({}, True), (environment, False)):
        with fork_server.start(words, env=OWN | more, **options) as process:
            assert isinstance(process, fork_server._Forked) == is_forked
            if "PYTHONPATH" not in more:
                assert kestrelpy.__version__ in process.communicate()[0].decode()


def test_what_a_thread_hands_down_makes_a_process_of_its_own() -> None:
    before = os.umask(0o027)
    try:
        with fork_server.start(["--version"], env=OWN, stdout=PIPE) as process:
            assert not isinstance(process, fork_server._Forked)
            process.communicate()
    finally:
        os.umask(before)
    with fork_server.start(["--version"], env=OWN, stdout=PIPE) as process:
        assert isinstance(process, fork_server._Forked)
        process.communicate()
