"""The door of a member: closed while it does not own the data, or does not know."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from journal.engine import EngineFiles, Member
from journal.files import Disk
from kestrelpy.fleet.member import FleetMember
from kestrelpy.fleet.membership import Membership
from tests.support.memory_engine import MemoryEngine, SilentEngine, claimed

TAKEOVER_S = 0.5
SECONDS = 30.0


class Stage:
    """A member on an engine in memory, and what its server was told."""

    def __init__(self, tmp_path: Path, engine: MemoryEngine | None = None) -> None:
        self.engine = engine or MemoryEngine()
        files = EngineFiles(self.engine, "memory", str(tmp_path / "cache"), 1 << 20, Disk())
        self.member = FleetMember(self.engine, files, Member("a"), TAKEOVER_S)
        self.gates: list[str] = ["standby"]
        self.said: list[str] = []
        self.ended: list[str] = []
        self.sent_to = ""
        self.membership = Membership(self.member, self.close, self.said.append, self.ended.append)

    def close(self, why: str, owner_address: str) -> None:
        self.gates.append(why)
        self.sent_to = owner_address


async def until(true: object) -> None:
    assert callable(true)
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.01)


async def test_without_a_fleet_every_port_serves() -> None:
    told = list[str]()
    membership = Membership(None, lambda why, _: told.append(why), told.append, told.append)

    assert await membership.stand_by(asyncio.Event())
    await membership.watch()
    await membership.release()
    assert membership.may_answer()
    assert not membership.is_fleet
    assert not told


async def test_a_member_that_claims_serves_when_its_data_is_recovered(
    tmp_path: Path,
) -> None:
    stage = Stage(tmp_path)

    assert await stage.membership.stand_by(asyncio.Event())
    assert stage.gates == ["standby"]
    stage.membership.open()

    assert stage.gates[-1] == ""
    await stage.membership.release()
    assert stage.engine.owners()[1].has_released


async def test_a_standby_says_once_whose_it_is_and_ends_when_asked(tmp_path: Path) -> None:
    stage, ending = Stage(tmp_path), asyncio.Event()
    claimed(stage.engine, "b")
    standing = asyncio.create_task(stage.membership.stand_by(ending))
    await until(lambda: len(stage.gates) > 2)
    ending.set()

    assert not await standing
    (said,) = stage.said
    assert re.fullmatch("standby of b since [-0-9]+T[:0-9]+Z: it owns the data, ask there", said)
    assert set(stage.gates[1:]) == set(stage.said)


async def test_a_standby_ends_when_asked_though_the_engine_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kestrelpy.fleet.membership.RELEASE_SECONDS", 0.01)
    engine, ending = SilentEngine(), asyncio.Event()
    stage = Stage(tmp_path, engine)
    standing = asyncio.create_task(stage.membership.stand_by(ending))
    await until(engine.asked.is_set)
    ending.set()

    async with asyncio.timeout(SECONDS):
        assert not await standing
    engine.wakes.set()


async def test_a_standby_knows_where_the_owner_answers_until_it_is_the_owner(
    tmp_path: Path,
) -> None:
    stage, ending = Stage(tmp_path), asyncio.Event()
    at = stage.engine.claim(1, Member("b", "10.0.0.1:22133"), 0)
    standing = asyncio.create_task(stage.membership.stand_by(ending))
    await until(lambda: stage.sent_to == "10.0.0.1:22133")
    stage.engine.release(at)

    assert await standing
    stage.membership.open()
    assert stage.sent_to == ""
    await stage.membership.release()


async def test_no_port_serves_while_the_engine_is_silent(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.membership.stand_by(asyncio.Event())
    stage.membership.open()
    watching = asyncio.create_task(stage.membership.watch())
    stage.engine.is_away = True
    await until(lambda: not stage.membership.may_answer())
    await until(lambda: stage.gates[-1] == "the engine does not answer: it does not answer")
    stage.engine.is_away = False
    await until(lambda: stage.gates[-1] == "")

    assert stage.membership.may_answer()
    assert not stage.ended
    watching.cancel()
    await stage.membership.release()


async def test_a_member_whose_data_was_claimed_stops_serving_and_ends(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.membership.stand_by(asyncio.Event())
    stage.membership.open()
    claimed(stage.engine, "b")

    await asyncio.wait_for(stage.membership.watch(), SECONDS)

    assert stage.ended == ["b claimed the slice"]
    assert stage.gates[-1] == "b claimed the slice"
    assert stage.membership.is_fenced
    assert not stage.membership.may_answer()


async def test_an_owner_ends_its_life_when_it_is_asked_to_release(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    await stage.membership.stand_by(asyncio.Event())
    watching = asyncio.create_task(stage.membership.watch())
    stage.engine.ask_release(1)
    await until(lambda: stage.ended)
    watching.cancel()

    assert stage.ended == ["asked to release the data"]
    assert stage.membership.begins_again and not stage.membership.is_fenced
    stage.membership.must_end = True
    assert not stage.membership.begins_again
    await stage.membership.release()
