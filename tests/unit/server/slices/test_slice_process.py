"""The process of a slice, with a program of the test in its place."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from journal.engine import Member, Owner
from kestrelpy.config import FleetConfig
from kestrelpy.fleet.member import Standby
from kestrelpy.server.slices import slice_process
from kestrelpy.server.slices.slice_process import SILENT_SECONDS, SliceProcess

FLEET = FleetConfig(
    engine="postgresql://k@db1/queues", single=True, name="a", address="db1:22133", slices=4,
    takeover="7s",
)  # fmt: skip


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that writes its variables into a file, `said`, and ends."""
    made = tmp_path / "program"
    made.write_text(f"#!/bin/sh\nenv > {tmp_path}/said\n")
    made.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(made))
    return made


@pytest.fixture
def waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that runs until it is told to end."""
    made = tmp_path / "waiting"
    made.write_text("#!/bin/sh\nexec sleep 600\n")
    made.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(made))
    return made


async def ended(folder: Path) -> tuple[SliceProcess, asyncio.Task[None]]:
    """Return one whose process has ended, and which is about to start it again."""
    has_ended = asyncio.Event()
    process = SliceProcess(1, FLEET, folder, folder, None, has_ended.set, is_in_fleet=True)
    run = asyncio.create_task(process.run())
    await has_ended.wait()
    return process, run


async def test_a_process_that_was_stopped_between_two_starts_leaves_its_place(
    tmp_path: Path, program: Path
) -> None:
    first, run = await ended(tmp_path)
    await first.stop()
    second, _ = await ended(tmp_path)
    assert run.done()
    await second.stop()


async def test_a_process_is_of_the_engine_and_member_of_the_start_whatever_the_file_says_now(
    tmp_path: Path, program: Path
) -> None:
    process, _ = await ended(tmp_path)
    await process.stop()
    said = dict(each.partition("=")[::2] for each in (tmp_path / "said").read_text().splitlines())
    assert {key: said.get(f"KESTRELPY_FLEET_{key}") for key in (
        "ENGINE", "SINGLE", "NAME", "ADDRESS", "TAKEOVER", "SLICES", "SLICE",
    )} == {
        "ENGINE": FLEET.engine, "SINGLE": "true", "NAME": "a", "ADDRESS": "db1:22133",
        "TAKEOVER": "7000ms", "SLICES": "4", "SLICE": "1",
    }  # fmt: skip


async def test_a_process_that_is_told_to_end_has_not_failed_and_is_not_started_again(
    tmp_path: Path, waiting: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for is_in_fleet in (False, True):
        process = SliceProcess(1, FLEET, tmp_path, tmp_path, None, lambda: None, is_in_fleet)
        run = asyncio.create_task(process.run())
        while process._process is None:
            await asyncio.sleep(0)
        await process.stop()
        await run
        assert (process.has_failed, caplog.messages) == (False, [])


async def test_a_process_that_is_told_to_end_while_it_is_made_ends(
    tmp_path: Path, waiting: Path
) -> None:
    process = SliceProcess(1, FLEET, tmp_path, tmp_path, None, lambda: None)
    run = asyncio.create_task(process.run())
    await asyncio.sleep(0)
    assert process._process is None
    await process.stop()
    await run
    assert process.status == "ended with code -15"


async def test_a_process_that_never_served_is_started_again_in_a_fleet_alone(
    tmp_path: Path, program: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process, _ = await ended(tmp_path)
    assert not process.has_failed
    await process.stop()
    assert len(caplog.messages) == 1
    alone = SliceProcess(1, FLEET, tmp_path, tmp_path, None, lambda: None)
    await alone.run()
    assert (alone.has_failed, len(caplog.messages)) == (True, 1)


async def test_a_process_that_has_served_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "serving"
    made.write_text(
        f"#!{sys.executable} -S\nimport os, socket\n"
        "socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(\n"
        "    b'READY=1', os.environ['NOTIFY_SOCKET'])\n"
    )
    made.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(made))
    monkeypatch.setattr(slice_process, "PAUSE_SECONDS", 0)
    serves = asyncio.Queue[bool]()
    process = SliceProcess(
        1, FLEET, tmp_path, tmp_path, None, lambda: serves.put_nowait(process.is_serving)
    )
    run = asyncio.create_task(process.run())
    assert [await serves.get() for _ in range(4)] == [True, False, True, False]
    await process.stop()
    await run
    assert not process.has_failed
    first = process.restarts[0]
    assert (first.number, first.why) == (1, "ended with code 0")
    assert process.restarts_total == len(process.restarts) == 1


class Told:
    """Stands for a process that runs; `signals` are those that it got."""

    def __init__(self, code: int | None = None) -> None:
        self.returncode = code
        self.signals = list[int]()

    def send_signal(self, number: int) -> None:
        self.signals.append(number)


class Hearing:
    """A slice whose process says what the test has it say."""

    def __init__(self, folder: Path, told: Told | None) -> None:
        self.notes = 0
        self.process = SliceProcess(1, FLEET, folder, folder, None, self._note)
        self.process._process = cast(Any, told)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._path = str(folder / "1.notes")

    def say(self, note: bytes) -> None:
        self._socket.sendto(note, self._path)
        self.process._hear()

    def _note(self) -> None:
        self.notes += 1


READY, STOPPING = b"READY=1", b"STOPPING=1"


@pytest.mark.parametrize(
    ("told", "said", "is_serving", "notes"),
    [
        (Told(), [READY], True, 1), (Told(), [READY, READY], True, 1),
        (Told(), [b"STATUS=reads"], False, 0), (Told(), [READY, b"STATUS=serves"], True, 1),
        (None, [READY], False, 0), (Told(1), [READY], False, 0),  # of the one before
        (Told(), [READY, STOPPING], False, 2), (Told(), [READY, STOPPING, STOPPING], False, 2),
        (Told(), [STOPPING], False, 0), (Told(), [READY, STOPPING, READY], True, 3),
    ],
)  # fmt: skip
async def test_each_change_of_what_it_does_is_noted_once(
    tmp_path: Path, told: Told | None, said: list[bytes], is_serving: bool, notes: int
) -> None:
    slice_ = Hearing(tmp_path, told)
    for each in said:
        slice_.say(each)
    assert (slice_.process.is_serving, slice_.notes) == (is_serving, notes)


async def test_what_keeps_a_standby_from_its_slice_is_in_the_log_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slice_ = Hearing(tmp_path, Told())
    away = Standby(None, "too many clients already").sentence
    cache = Standby(None, "", "its cache cannot be used: it is full").sentence
    waits = Standby(Owner(Member("b"), 1, 1, 0.0, False), "").sentence
    for each in (waits, away, away, waits, cache, away):
        slice_.say(b"STATUS=" + each.encode())
    assert caplog.messages == [f"slice 1: {each}" for each in (away, cache, away)]


async def test_a_process_reloads_once_for_each_time_that_it_is_told_to(tmp_path: Path) -> None:
    told = Told()
    slice_ = Hearing(tmp_path, told)
    slice_.process.reload()
    slice_.process.reload()
    assert told.signals == []
    slice_.say(READY)
    assert told.signals == [signal.SIGHUP]
    slice_.process.reload()
    assert told.signals == [signal.SIGHUP] * 2
    slice_.say(STOPPING)
    slice_.say(READY)
    told.returncode = 0
    slice_.process.reload()
    slice_.process._process = None
    slice_.process.reload()
    assert told.signals == [signal.SIGHUP] * 2


async def test_a_process_that_starts_needs_no_reload(tmp_path: Path, waiting: Path) -> None:
    process = SliceProcess(1, FLEET, tmp_path, tmp_path, None, lambda: None)
    process.reload()
    run = asyncio.create_task(process.run())
    while process._process is None:
        await asyncio.sleep(0)
    assert not process._is_reload_due
    await process.stop()
    await run


async def test_a_process_of_a_local_fleet_takes_no_member_from_the_file(tmp_path: Path) -> None:
    process = SliceProcess(1, FleetConfig(slices=4), tmp_path, tmp_path, None, lambda: None, True)
    said = process._environment({"KESTRELPY_FLEET_NAME": "a"})
    assert {said[f"KESTRELPY_FLEET_{key}"] for key in ("ENGINE", "NAME", "ADDRESS")} == {"none"}


async def test_a_standby_is_ready_while_it_says_now_and_then_that_it_is_there(
    tmp_path: Path,
) -> None:
    process = SliceProcess(1, FLEET, tmp_path, tmp_path, None, lambda: None, is_in_fleet=True)
    now_s = asyncio.get_running_loop().time()
    assert not process.is_ready(now_s)
    process.status = "standby of b: it owns the data, ask there"
    assert process.is_ready(now_s)
    looks = [process.is_ready(now_s + at) for at in range(1, int(SILENT_SECONDS) + 1)]
    assert looks == [True] * (len(looks) - 1) + [False]

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"WATCHDOG=1", str(tmp_path / "1.notes"))
    process._hear()

    assert process.is_ready(asyncio.get_running_loop().time())
