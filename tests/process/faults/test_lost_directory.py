"""The data directory changes under a running daemon: nothing false is said, and nothing is lost.

Promise directory-lost: each of these on real folders, links and mounts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.faults import skip, small_disk

_PATIENCE_SECONDS = 10.0


def ask(server: DaemonProcess, line: bytes) -> bytes:
    """Send one request on a connection of its own; return its whole answer."""
    with server.socket() as sock:
        sock.sendall(line)
        sock.settimeout(5)
        return sock.recv(1 << 16)


def is_refused(server: DaemonProcess) -> bool:
    """True if a put into `jobs` is answered with an error of the server."""
    return ask(server, b"set jobs 0 0 1\r\nb\r\n").startswith(b"SERVER_ERROR")


def http(server: DaemonProcess, path: str) -> tuple[int, dict[str, object]]:
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}{path}", timeout=5)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())
    return answer.status, json.loads(answer.read())


def wait_for(is_true: Callable[[], bool]) -> None:
    """Poll: when the daemon notices is not ours to say, only that it does."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline, "the daemon did not notice"
        time.sleep(0.02)


def renamed(data: Path) -> None:
    data.rename(data.with_name("elsewhere"))


def replaced(data: Path) -> None:
    renamed(data)
    shutil.copytree(data.with_name("elsewhere"), data)


def replaced_by_an_empty_one(data: Path) -> None:
    renamed(data)
    data.mkdir()


def removed(data: Path) -> None:
    shutil.rmtree(data)


def below_a_renamed_folder(data: Path) -> None:
    data.parent.rename(data.parent.with_name("moved"))


def behind_another_link(data: Path) -> None:
    (data.parent / "other").mkdir()
    data.unlink()
    data.symlink_to(data.parent / "other")


def no_longer_a_folder(data: Path) -> None:
    renamed(data)
    data.write_bytes(b"")


@pytest.mark.parametrize(
    "change",
    [renamed, replaced, replaced_by_an_empty_one, removed, below_a_renamed_folder,
     behind_another_link, no_longer_a_folder],
)  # fmt: skip
def test_a_data_directory_that_is_gone_fails_everything_at_once(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    (tmp_path / "place").mkdir()
    data = tmp_path / "place" / "data"
    if change is behind_another_link:
        (tmp_path / "place" / "first").mkdir()
        data.symlink_to(tmp_path / "place" / "first")
    server = DaemonProcess(data, http_port="0", config="[queues.mem]\ndurable = false\n")
    with server:
        assert ask(server, b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        assert ask(server, b"set mem 0 0 1\r\na\r\n") == b"STORED\r\n"
        holding, waiting = server.socket(), server.socket()
        holding.sendall(b"get jobs/open\r\n")
        assert holding.recv(100).startswith(b"VALUE jobs")
        waiting.sendall(b"get jobs/t=1m\r\n")
        change(data)

        wait_for(lambda: http(server, "/ready")[0] == 503)
        after = set(tmp_path.rglob("*"))

        assert http(server, "/ready")[1] == {"ready": False, "why": "failed", "warning": None}
        code, health = http(server, "/health")
        assert (code, health["status"]) == (503, "failed")
        sentence = b"removed, renamed, replaced or unmounted"
        for line in (
            b"set jobs 0 0 1\r\nb\r\n", b"set new 0 0 1\r\nb\r\n", b"set mem 0 0 1\r\nb\r\n",
            b"get jobs\r\n", b"get jobs/open\r\n", b"get mem\r\n", b"get absent\r\n",
            b"get absent/t=1m\r\n", b"set jobs+x 0 0 1\r\nb\r\n", b"get jobs+y\r\n",
            b"delete jobs\r\n", b"flush jobs\r\n",
        ):  # fmt: skip
            said = ask(server, line)
            assert said.startswith(b"SERVER_ERROR "), (line, said)
            assert sentence in said, (line, said)
        assert sentence in waiting.recv(1000)
        holding.sendall(b"get jobs/close\r\n")
        assert sentence in holding.recv(1000)
        assert set(tmp_path.rglob("*")) == after, "it made files again"
        assert sum("removed, renamed" in line for line in server.lines) == 1
        assert server.stop() == 0


def test_a_mount_that_vanishes_fails_everything_and_no_item_is_lost(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 16 << 20):
        data = tmp_path / "disk" / "data"
        server = DaemonProcess(data, http_port="0")
        with server:
            assert ask(server, b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
            done = subprocess.run(["umount", "-l", str(tmp_path / "disk")], check=False)
            if done.returncode:
                skip("cannot unmount")
            wait_for(lambda: http(server, "/ready")[0] == 503)

            assert ask(server, b"set jobs 0 0 1\r\nb\r\n").startswith(b"SERVER_ERROR ")
            assert not data.exists()
        subprocess.run(
            ["mount", "-t", "tmpfs", "kestrelpy", str(tmp_path / "disk")], check=True
        )  # the block unmounts something


def test_the_folder_of_one_queue_that_is_gone_fails_that_queue_alone(tmp_path: Path) -> None:
    for number, change in enumerate((renamed, replaced, removed)):
        data = tmp_path / f"data{number}"
        with DaemonProcess(data, http_port="0") as server:
            assert ask(server, b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
            assert ask(server, b"set other 0 0 1\r\na\r\n") == b"STORED\r\n"
            [folder] = data.glob("jobs.*")
            change(folder)

            wait_for(partial(is_refused, server))
            assert b"under the server" in ask(server, b"get jobs\r\n")
            assert http(server, "/health")[1]["unwell"] == ["jobs"]
            assert ask(server, b"set other 0 0 1\r\nb\r\n") == b"STORED\r\n"


def test_a_file_that_is_cut_short_fails_its_queue_alone(tmp_path: Path) -> None:
    for number, size in enumerate((0, 4096)):
        data = tmp_path / f"data{number}"
        with DaemonProcess(data, http_port="0") as server:
            assert ask(server, b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
            assert ask(server, b"set other 0 0 1\r\na\r\n") == b"STORED\r\n"
            [segment] = data.glob("jobs.*/*.segment")
            os.truncate(segment, size)

            wait_for(partial(is_refused, server))
            assert b"cut short under the server" in ask(server, b"get jobs\r\n")
            assert http(server, "/health")[1]["unwell"] == ["jobs"]
            assert ask(server, b"set other 0 0 1\r\nb\r\n") == b"STORED\r\n"


def test_without_the_lock_file_nobody_else_owns_the_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with DaemonProcess(data, http_port="0") as server:
        assert ask(server, b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
        (data / "lock").unlink()
        second = DaemonProcess(data)
        with pytest.raises(AssertionError, match="another kestrelpy is using"):
            second.start()
        wait_for((data / "lock").exists)

        assert ask(server, b"set jobs 0 0 1\r\nb\r\n") == b"STORED\r\n"
        assert http(server, "/ready")[0] == 200
        assert sum("is there again" in line for line in server.lines) == 1
