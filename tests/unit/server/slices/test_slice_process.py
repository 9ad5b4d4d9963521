"""The process of a slice, with a program of the test in its place."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from kestrelpy.config import FleetConfig
from kestrelpy.server.slices.slice_process import SliceProcess

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
