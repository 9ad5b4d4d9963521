"""docs/command-line.md: every command has an example, and every example is run.

Dates, numbers and blanks may differ from the page; a line `...` stands for any lines, and `...`
within a line for any text. Those of Spark run in `tests/unit/spark/test_command_line_page.py`, and
those of a fleet in `tests/process/fleet/test_page.py`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.cli.test_app import ALL
from tests.support.daemon import DaemonProcess
from tests.support.guarded import PASSWORD, Guarded

SOURCE = Path(__file__).parents[3]
PAGE = (SOURCE / "docs/command-line.md").read_text()
SECONDS = 280
GUARDED = "Users and TLS"
# A file of completion is made by each shell's own; groups have commands below them.
GROUPS = {"", "queues", "items", "item", "schedules", "dead", "journal", "fleet", "spark"}


def examples(page: str) -> list[tuple[str, str, str]]:
    """Section, command and output of each example, in their order."""
    found = []
    for section in re.findall(r"(?ms)^## (.*?)(?=^## |\Z)", page):
        title = section.partition("\n")[0]
        for block in re.findall(r"(?ms)^```console\n(.*?)^```", section):
            for each in re.findall(r"(?ms)^\$ (.*?)(?=^\$ |\Z)", block):
                command, _, output = each.partition("\n")
                found.append((title, command, output))
    return found


EXAMPLES = examples(PAGE)


def pattern(output: str) -> re.Pattern[str]:
    """Return the pattern that the output must match."""
    lines = []
    for line in output.splitlines():
        if line == "...":
            lines.append(r"(?:.*\n)*?")
        else:
            shape = re.escape(shape_of(line)).replace(re.escape("..."), ".*")
            lines.append(shape + r"\n")
    return re.compile("".join(lines))


def shape_of(line: str) -> str:
    """Return a line without the parts that differ from run to run."""
    line = re.sub(r"/\S*/", "/", line)
    line = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", "DATE", line)
    line = re.sub(r"\d+(\.\d+)?(ms|[dhms](\d+[hms])?|[KMG]iB|B)?\b", "0", line)
    return re.sub(r"\s+", " ", line).strip()


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of a user whose daemon runs, in the folder of its data."""
    folder = tmp_path_factory.mktemp("docs")
    with DaemonProcess(folder / "data") as daemon:
        yield environment_of(daemon, folder)


def environment_of(daemon: DaemonProcess, folder: Path) -> dict[str, str]:
    command = folder / "bin" / "kestrelpy"
    command.parent.mkdir()
    start = f'PYTHONPATH="{SOURCE}" exec "{sys.executable}" -m kestrelpy "$@"'
    command.write_text(f"#!/bin/sh\n{start}\n")
    command.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}
    return {
        **clean, "PATH": f"{command.parent}:{os.environ['PATH']}", "PWD": str(folder),
        "KESTRELPY_SERVER": f"127.0.0.1:{daemon.port}",
    }  # fmt: skip


def run(command: str, environment: dict[str, str]) -> str:
    process = subprocess.Popen(
        ["bash", "--norc", "-c", f"exec 2>&1\n{command}"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, env=environment, cwd=environment["PWD"], text=True,
    )  # fmt: skip
    assert process.stdout is not None
    out = ""
    if " serve " in command:
        while "ready" not in out:
            line = process.stdout.readline()
            assert line, out
            out += line
        ready, out = out, ""
        os.kill(process.pid, signal.SIGTERM)  # bash has become it: it is its last command
        process.communicate(timeout=SECONDS)
        return ready
    out, _ = process.communicate(timeout=SECONDS)
    return out


def check(section: str, command: str, output: str, environment: dict[str, str]) -> None:
    out = "".join(shape_of(line) + "\n" for line in run(command, environment).splitlines())

    assert "Traceback" not in out
    assert pattern(output).fullmatch(out), f"{section}: $ {command}\n{out}"


def test_each_example_prints_what_the_page_shows(shell: dict[str, str]) -> None:
    for section, command, output in EXAMPLES:
        if section not in ("Spark", "A fleet", GUARDED):
            check(section, command, output, shell)


def test_each_example_with_users_and_tls_prints_what_the_page_shows(tmp_path: Path) -> None:
    found = [(command, output) for section, command, output in EXAMPLES if section == GUARDED]
    assert len(found) >= 7
    made = Guarded(tmp_path, "both")
    (tmp_path / "anna.secret").write_text(PASSWORD + "\n")
    (tmp_path / "old.secret").write_text("letmeout\n")
    with made.daemon as daemon:
        environment = environment_of(daemon, tmp_path)
        for command, output in found:
            check(GUARDED, command, output, environment)


def test_each_command_has_an_example() -> None:
    shown = [command for _, command, _ in EXAMPLES]

    missing = [
        path for path, _ in ALL
        if path not in GROUPS
        and not any(re.search(rf"\bkestrelpy {path}\b", command) for command in shown)
    ]  # fmt: skip

    assert missing == []
