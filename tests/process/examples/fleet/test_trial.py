"""The fleet to try, as its user meets it: real servers, real kills, nothing lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

SECONDS = 120.0


@pytest.fixture
def trial() -> Iterator[Shown]:
    shown = Shown("--takeover", "1s")
    yield shown
    shown.end()


class Shown:
    """The command, and what it has printed."""

    def __init__(self, *words: str) -> None:
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kestrelpy.examples.fleet", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, process_group=0,
        )  # fmt: skip
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(self.process.stdout)

    def until(self, pattern: str, count: int = 1) -> re.Match[str]:
        """Wait for `count` matches; return the last one."""
        deadline = time.monotonic() + SECONDS
        while len(found := list(re.finditer(pattern, "".join(self.lines)))) < count:
            assert self.process.poll() is None and time.monotonic() < deadline, "".join(self.lines)
            time.sleep(0.05)
        return found[-1]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(SECONDS)


def test_nothing_is_lost_whatever_its_user_kills(trial: Shown) -> None:
    owner = int(trial.until(r"kill -9 (\d+) +the owner")[1])
    primary = int(trial.until(r"kill -9 (\d+) +the primary")[1])
    folder = os.readlink(f"/proc/{primary}/cwd")
    trial.until(r"[1-9]\d* stored, [1-9]\d* handled")

    os.kill(owner, signal.SIGKILL)
    trial.until("member b owns the data, in epoch 2")
    os.kill(primary, signal.SIGKILL)
    trial.until("n2 is the primary now")
    again = int(trial.until(r"member a is started again: pid (\d+)")[1])
    os.kill(again, signal.SIGSTOP)  # a standby: no client notices
    os.kill(again, signal.SIGCONT)
    trial.until(r"[1-9]\d* handled", count=len(re.findall("handled", "".join(trial.lines))) + 1)

    trial.process.send_signal(signal.SIGINT)
    assert trial.process.wait(SECONDS) == 0, "".join(trial.lines)
    assert "0 lost" in "".join(trial.lines)
    assert "Traceback" not in "".join(trial.lines)
    assert not os.path.exists(folder), "no folder is left, and no server"


def test_the_page_of_the_standby_links_to_the_page_of_the_owner(trial: Shown) -> None:
    owner, standby = (trial.until(rf"member {name} .* (http://\S+/)")[1] for name in ("a", "b"))
    trial.until("Try this")

    with pytest.raises(HTTPError) as refused:
        urlopen(standby, timeout=SECONDS)
    page = refused.value.read().decode()
    refused.value.close()

    assert re.findall(r'href="(http:[^"]+)"', page) == [owner]
    assert f"standby of a at {urlsplit(owner).hostname}" in page
    with urlopen(owner, timeout=SECONDS) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("words", "victims"),
    [
        ((), ("primary", "owner")),
        (("--slices", "4", "--members", "3"), ("primary", "member")),
    ],
)
def test_the_main_job_holds_on_a_fleet(words: tuple[str, ...], victims: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "kestrelpy.examples.fleet.lines", "--lines", "4000"]
    done = subprocess.run(
        [*command, "--seed", "1", *words], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4,000 of 4,000 lines handled, 0 lost" in done.stdout
    assert all(f"kill -9 the {each}" in done.stdout for each in victims)
    assert ("drain" in done.stdout) == bool(words)


def test_members_share_slices_and_one_that_is_killed_loses_nothing() -> None:
    shown = Shown("--takeover", "1s", "--slices", "4", "--members", "3")
    try:
        victim = int(shown.until(r"kill -9 (\d+) +member a")[1])
        shown.until(r"a owns \d.*, b owns \d.*, c owns \d")
        shown.until(r"[1-9]\d* stored, [1-9]\d* handled")
        os.killpg(victim, signal.SIGKILL)
        shown.until("member a has died")
        shown.until("member a is started again")
        count = len(re.findall("handled", "".join(shown.lines)))
        shown.until(r"[1-9]\d* handled", count=count + 1)
        shown.process.send_signal(signal.SIGINT)
        assert shown.process.wait(SECONDS) == 0, "".join(shown.lines)
        assert " 0 lost" in "".join(shown.lines)
    finally:
        shown.end()
