"""libmemcached's tools: memcp, memcat, memcrm, memcping, memcstat."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import kestrelpy
from tests.process.clients import page
from tests.process.clients.conftest import require
from tests.process.clients.libraries import LIBRARIES
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

TOOLS = next(library for library in LIBRARIES if library.name == "libmemcached-tools")


@pytest.fixture(autouse=True)
def installed(results: page.Results) -> None:
    require(TOOLS)
    results.setdefault(TOOLS.name, {})


def run(daemon: DaemonProcess, folder: Path, tool: str, *words: str) -> tuple[int, bytes]:
    """Run a tool by its own name or by Debian's; return its exit code and what it printed."""
    program = shutil.which(tool) or shutil.which(tool.replace("memc", "memcc", 1))
    assert program is not None
    done = subprocess.run(
        [program, f"--servers=127.0.0.1:{daemon.port}", *words], cwd=folder, timeout=60,
        capture_output=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def test_memcp_stores_a_file_in_the_queue_of_its_name_and_memcat_takes_it(
    daemon: DaemonProcess, queue: str, tmp_path: Path
) -> None:
    body = bytes(range(256)) + b"\r\nEND\r\n"
    (tmp_path / queue).write_bytes(body)

    assert run(daemon, tmp_path, "memcp", "--flag=7", queue) == (0, b"")
    assert run(daemon, tmp_path, "memcat", f"{queue}/peek") == (0, body + b"\n")
    assert run(daemon, tmp_path, "memcat", "--flags", queue) == (0, b"7\n" + body + b"\n")
    assert run(daemon, tmp_path, "memcat", queue) == (1, b"")


def test_memcat_of_an_open_gives_the_item_back_when_it_ends(
    daemon: DaemonProcess, queue: str, tmp_path: Path, raws: list[Raw]
) -> None:
    raws[0].ask(b"set %s 0 0 3\r\none\r\n" % queue.encode(), b"STORED\r\n")

    assert run(daemon, tmp_path, "memcat", f"{queue}/open") == (0, b"one\n")

    key = f"{queue}/open/t=20s".encode()
    assert [body for _, body in raws[0].values(key)] == [b"one"]


def test_memcrm_deletes_the_queue(daemon: DaemonProcess, queue: str, tmp_path: Path) -> None:
    (tmp_path / queue).write_bytes(b"one")
    run(daemon, tmp_path, "memcp", queue)

    assert run(daemon, tmp_path, "memcrm", queue) == (0, b"")
    assert run(daemon, tmp_path, "memcrm", queue) == (1, b"")
    assert run(daemon, tmp_path, "memcat", queue) == (1, b"")


def test_memcping_and_memcstat_understand_the_version(
    daemon: DaemonProcess, tmp_path: Path
) -> None:
    assert run(daemon, tmp_path, "memcping") == (0, b"")
    code, said = run(daemon, tmp_path, "memcstat")
    assert code == 0
    assert f"version: {kestrelpy.__version__}".encode() in said
    assert int(kestrelpy.__version__.split(".")[0]) >= 1
