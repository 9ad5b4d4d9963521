"""Each block of commands in docs/operations.md runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "operations.md"
NOT_RUN = "# not run by the tests\n"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_commands_of_the_page_run_in_sequence(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kestrelpy").write_text(
        f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m kestrelpy "$@"\n'
    )
    (tools / "kestrelpy").chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KESTRELPY_")}
    blocks = [block for block in BLOCK.findall(PAGE.read_text()) if not block.startswith(NOT_RUN)]
    folder = tmp_path / "empty"
    folder.mkdir()
    with DaemonProcess(folder / "data") as daemon:
        environment = clean | {
            "PATH": f"{tools}:{clean['PATH']}", "KESTRELPY_SERVER": f"127.0.0.1:{daemon.port}"
        }  # fmt: skip
        for block in blocks:
            done = subprocess.run(
                ["bash", "-e", "-c", block], cwd=folder, env=environment, capture_output=True,
                text=True, timeout=120, check=False,
            )  # fmt: skip
            assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
    assert len(blocks) >= 8


def test_links_within_the_page_lead_somewhere() -> None:
    text = PAGE.read_text()
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles}

    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors


def test_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"packaging/[a-z/.-]+[a-z]", PAGE.read_text()))

    assert named
    assert all((ROOT / path).exists() for path in named)
