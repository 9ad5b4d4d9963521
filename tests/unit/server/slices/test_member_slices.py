"""The slices of a fleet as one of its members sees them, on an engine in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from journal.engine import Member, Seat
from kestrelpy.config import Config
from kestrelpy.placement import Placement
from kestrelpy.server.daemon import StartError
from kestrelpy.server.slices import member_slices
from kestrelpy.server.slices.doors import Key
from kestrelpy.server.slices.member_slices import MemberSlices
from tests.support.memory_engine import MemoryEngine, SilentEngine

SLICES = 4
SECONDS = 30.0
ME = Member("a", "127.0.0.1:22133")


class Stage:
    """A member that owns nothing."""

    def __init__(self, folder: Path, engine: MemoryEngine) -> None:
        config = Config.model_validate({
            "server": {"data_dir": folder, "http_port": "off"},
            "fleet": {
                "engine": "postgresql://k@db1/queues", "single": True, "name": ME.name,
                "address": ME.address, "slices": SLICES, "takeover": "1s",
            },
        })  # fmt: skip
        self.said: list[str] = []
        self.ended: list[str] = []
        self.moved: list[tuple[int, Member]] = []
        self.slices = MemberSlices(
            config, None, folder, self.ended.append, engine, ME,
            Key(Placement(SLICES).layout, ""), None, self.said.append,
            lambda number, owner: self.moved.append((number, owner)),
        )  # fmt: skip


class OlderSeats(MemoryEngine):
    """At each look a member has said so long ago that it is there; the last age stays."""

    def __init__(self, member: Member, ages_s: tuple[float, ...]) -> None:
        super().__init__()
        self._member, self._ages_s = member, list(ages_s)

    def members(self) -> list[Seat]:
        age_s = self._ages_s[0]
        del self._ages_s[: len(self._ages_s) > 1]
        return [Seat(self._member, 1.0, age_s)]


async def until_asked(engine: SilentEngine) -> None:
    async with asyncio.timeout(SECONDS):
        while not engine.asked.is_set():
            await asyncio.sleep(0.01)


async def test_a_start_that_waits_for_a_silent_engine_ends_when_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_slices, "ENGINE_SECONDS", 0.01)
    engine = SilentEngine()
    slices = Stage(tmp_path, engine).slices
    starting = asyncio.create_task(slices.start())
    await until_asked(engine)
    slices.interrupt()

    async with asyncio.timeout(SECONDS):
        with pytest.raises(StartError, match="told to end"):
            await starting
        await slices.stop()
    engine.wakes.set()


async def test_a_member_ends_though_its_engine_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_slices, "ENGINE_SECONDS", 0.01)
    engine = SilentEngine()
    engine.wakes.set()
    stage = Stage(tmp_path, engine)
    monkeypatch.setattr(stage.slices, "_follow_plan", lambda: None)  # no processes
    await stage.slices.start()
    engine.wakes.clear()
    engine.asked.clear()
    await until_asked(engine)

    async with asyncio.timeout(SECONDS):
        await stage.slices.stop()
    engine.wakes.set()
    assert not stage.ended


async def test_a_member_with_the_name_and_address_of_one_that_runs_is_refused(
    tmp_path: Path,
) -> None:
    engine = OlderSeats(ME, (0.4, 0.5, 0.1))
    stage = Stage(tmp_path, engine)
    with pytest.raises(StartError, match="another member is a at 127"):
        await stage.slices.start()
    assert ME not in engine.seats  # it has said nothing
    await stage.slices.stop()


async def test_a_member_that_was_killed_just_now_begins_when_it_has_been_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = OlderSeats(ME, (0.8, 0.9, 1.0))
    stage = Stage(tmp_path, engine)
    monkeypatch.setattr(stage.slices, "_follow_plan", lambda: None)  # no processes
    await stage.slices.start()
    assert ME in engine.seats
    await stage.slices.stop()
