"""Completion, in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.cli.command import SECONDS, Command
from tests.process.cli.terminal import Terminal
from tests.support.daemon import DaemonProcess

SOURCE = Path(__file__).parents[3]


@pytest.fixture
def environment(tmp_path: Path, kestrelpy: Command) -> dict[str, str]:
    """With `kestrelpy` on the path, and the server of these tests."""
    command = tmp_path / "bin" / "kestrelpy"
    command.parent.mkdir()
    start = f'PYTHONPATH="{SOURCE}" exec "{sys.executable}" -m kestrelpy "$@"'
    command.write_text(f"#!/bin/sh\n{start}\n")
    command.chmod(0o755)
    return {
        "PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path),
        "KESTRELPY_SERVER": kestrelpy.server, "TERM": "dumb", "LANG": "C.UTF-8",
    }  # fmt: skip


def run(shell: str, script: str, environment: dict[str, str]) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    flags = ["--norc"] if shell == "bash" else []
    done = subprocess.run(
        [shell, *flags, "-c", script], env=environment, capture_output=True, text=True,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")


def in_bash(words: str, environment: dict[str, str]) -> list[str]:
    count = len(words.split(" ")) - 1
    script = (
        f'eval "$(kestrelpy completion bash)"; COMP_WORDS=({words}); COMP_CWORD={count}; '
        '_kestrelpy_completion kestrelpy; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return [line for line in run("bash", script, environment) if line]


def test_bash_completes_commands_options_and_queues(
    environment: dict[str, str], daemon: DaemonProcess
) -> None:
    daemon.client().set("completed-1", b"x")
    daemon.client().set("completed-2", b"x")

    assert in_bash("kestrelpy stat", environment) == ["status"]
    assert in_bash("kestrelpy queues pa", environment) == ["pause"]
    assert in_bash("kestrelpy put q --de", environment) == ["--delay"]
    assert in_bash("kestrelpy completion z", environment) == ["zsh"]
    assert in_bash("kestrelpy get completed-", environment) == ["completed-1", "completed-2"]


def test_a_server_that_is_away_has_no_queues_to_propose(environment: dict[str, str]) -> None:
    away = {**environment, "KESTRELPY_SERVER": "127.0.0.1:1"}

    assert in_bash("kestrelpy get completed-", away) == []


def test_fish_completes_commands_and_queues(
    environment: dict[str, str], daemon: DaemonProcess
) -> None:
    daemon.client().set("completed-1", b"x")
    begin = "kestrelpy completion fish | source; "

    [status] = filter(None, run("fish", begin + 'complete -C "kestrelpy stat"', environment))
    queues = run("fish", begin + 'complete -C "kestrelpy queues show completed-1"', environment)

    assert status.startswith("status\tShow a server's mode")
    assert queues[0] == "completed-1"


def test_zsh_completes_at_its_prompt(environment: dict[str, str], daemon: DaemonProcess) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    daemon.client().set("zsh-completed-1", b"x")

    with Terminal(["zsh", "-f", "-i"], Path(environment["HOME"]), environment) as zsh:
        zsh.press("PS1='>'; autoload -Uz compinit; compinit -u; echo in''it\n")
        zsh.until("init\r?\n")
        zsh.press('eval "$(kestrelpy completion zsh)"; echo ev""al\n')
        zsh.until("eval\r?\n")
        zsh.press("echo kestrelpy; kestrelpy queues pau\t")
        zsh.until("queues pause")
        zsh.press("\x15kestrelpy peek zsh-comp\t")
        zsh.until("zsh-completed-1")


def test_the_script_installs_itself(environment: dict[str, str], tmp_path: Path) -> None:
    script = "kestrelpy --install-completion >/dev/null; cat ~/.bashrc"

    lines = run("bash", script, environment)

    assert any("kestrelpy" in line for line in lines), lines
