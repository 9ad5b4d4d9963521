"""What a member does for its slices, with an engine and processes of the test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from journal.engine import EngineAway, Member, Owner, Seat, Takeover
from kestrelpy.config import Config
from kestrelpy.server.daemon import StartError
from kestrelpy.server.directory import layout_of
from kestrelpy.server.slices import member_slices
from kestrelpy.server.slices.doors import NotThere, WantedSlice
from kestrelpy.server.slices.member_slices import MemberSlices, Seen

HERE, OTHER, NOWHERE = Member("a", "a:1"), Member("b", "b:2"), Member("c", "nowhere")
CONFIG = Config.model_validate({"server": {"http_port": "off"}, "fleet": {
    "engine": "postgresql://k@db1/queues", "single": True, "name": "a", "address": "a:1",
    "slices": 4, "takeover": "1s",
}})  # fmt: skip


class Engine:
    """Its layout, its owners, and how often it does not answer first."""

    def __init__(self, slices: int = 4, away: int = 0) -> None:
        self.layout = layout_of(CONFIG)._replace(slices=slices)
        self.away = away

    def agree(self, layout: object) -> object:
        if self.away:
            self.away -= 1
            raise EngineAway(1, "it is away")
        return self.layout


    reads = 0  # of takeovers

    def takeovers(self) -> list[Takeover]:
        self.reads += 1
        if self.away:
            raise EngineAway("it", "it is away")
        return [Takeover(1, 7, HERE, "b", "silent", 3.0, 0.2, 60.0)]


class Process:
    """A process of a slice."""

    def __init__(self, folder: Path, is_serving: bool, began_s: float = 0.0) -> None:
        self.is_serving, self.began_s, self.socket_path = is_serving, began_s, folder / "socket"


class Slices(MemberSlices):
    """The slices of a member that tells nobody; processes begin and end at once."""

    ran: list[int]
    ended: list[int]

    def _run(self, number: int, folder: Path, is_in_fleet: bool = False) -> Any:
        self.ran.append(number)
        self.processes[number] = cast(Any, Process(folder, False))

    def _let_end(self, number: int, why: str) -> None:
        self.ended.append(number)


def slices_of(folder: Path, engine: Engine | None = None) -> Slices:
    said: Any = list[str]()
    made = Slices(
        CONFIG, None, folder, cast(Any, said.append), cast(Any, engine or Engine()), HERE,
        cast(Any, SimpleNamespace(line=lambda number: b"line")), None, said.append,
        lambda number, owner: None,
    )  # fmt: skip
    made.ran, made.ended = [], []
    return made


async def test_a_member_of_another_layout_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="the data is in 5 slices"):
        await slices_of(tmp_path, Engine(slices=5)).start()


async def test_an_engine_that_is_away_at_the_start_is_said_once_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = list[str]()
    slices = slices_of(tmp_path, Engine(slices=5, away=3))
    slices._say = said.append

    async def pause() -> None:
        pass

    monkeypatch.setattr(slices, "_pause", pause)
    with pytest.raises(StartError, match="the data is in 5 slices"):
        await slices.start()
    assert said == ["the engine does not answer: it is away"]


async def test_a_start_that_is_interrupted_says_why(tmp_path: Path) -> None:
    slices = slices_of(tmp_path)
    slices._why = "told to end"
    with pytest.raises(StartError, match="told to end"):
        await slices.start()


@pytest.mark.parametrize(
    ("owner", "process", "why"),
    [
        (None, None, "nobody owns it now"), (HERE, None, "a owns it and does not serve it now"),
        (HERE, False, "a owns it and does not serve it now"),
        (NOWHERE, None, "c owns it and does not serve it now"),
        (OTHER, None, "b: it said no"),
    ],
)  # fmt: skip
async def test_a_slice_that_is_not_reached_says_where_it_is(
    owner: Member | None, process: bool | None, why: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def reach(*asked: object) -> None:
        raise NotThere("it said no")

    monkeypatch.setattr(member_slices, "reach", reach)
    slices = slices_of(tmp_path)
    slices._seen = Seen({} if owner is None else {1: owner}, [], set())
    if process is not None:
        slices.processes[1] = cast(Any, Process(tmp_path, process))
    with pytest.raises(NotThere) as refused:
        await slices._connect_once(WantedSlice(1), cast(Any, None))
    assert str(refused.value) == why


@pytest.mark.parametrize("owner", [None, HERE, OTHER])
async def test_a_connection_leads_to_the_owner(
    owner: Member | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that serves here has the slice, unless another member is its owner since."""
    reached = list[object]()

    async def reach(*asked: object) -> None:
        reached.append(asked[0])

    monkeypatch.setattr(member_slices, "reach", reach)
    server = await asyncio.start_unix_server(lambda *_: None, tmp_path / "socket")
    slices = slices_of(tmp_path)
    slices._seen = Seen({} if owner is None else {1: owner}, [], set())
    slices._looked_s = 5.0
    slices.processes[1] = cast(Any, Process(tmp_path, True, began_s=4.0))
    assert await slices._connect_once(WantedSlice(1), asyncio.Protocol) == (owner or HERE)
    assert reached == ([("b", 2)] if owner is OTHER else [])
    server.close()


@pytest.mark.parametrize(
    ("is_serving", "began_s", "owner"),
    [(True, 6.0, HERE), (True, 5.0, HERE), (True, 4.0, OTHER), (False, 6.0, OTHER)],
)
async def test_a_process_that_began_since_the_last_look_has_its_slice(
    is_serving: bool, began_s: float, owner: Member, tmp_path: Path
) -> None:
    slices = slices_of(tmp_path)
    slices._seen, slices._looked_s = Seen({1: OTHER}, [], set()), 5.0
    assert slices._owner_of(1) == OTHER
    slices.processes[1] = cast(Any, Process(tmp_path, is_serving, began_s))
    assert slices._owner_of(1) == owner


class Clock:
    """The loop, with a clock that the test sets."""

    now_s = 100.0

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[set[int], float], Slices]:
    """Follows a plan in which these slices are of this member, at this time."""
    made: list[Slices] = []

    def follow(wanted: set[int], now_s: float) -> Slices:
        if not made:
            made.append(slices_of(tmp_path))
            made[0]._loop = cast(Any, Clock())
            made[0]._seen = Seen({}, [Seat(HERE, 1.0, 0.0)], set())
        cast(Any, made[0]._loop).now_s = now_s
        monkeypatch.setattr(member_slices, "attended", lambda *_: wanted)
        made[0]._follow_plan()
        return made[0]

    return follow


async def test_a_process_that_is_not_needed_ends_after_a_time_without_a_need(
    planned: Callable[[set[int], float], Slices],
) -> None:
    slices = planned({1, 2}, 100.0)
    assert sorted(slices.ran) == [1, 2]
    planned({1}, 101.0)
    planned({1}, 101.9)
    planned({1, 2}, 101.95)  # it is needed again: the time begins anew
    planned({1}, 102.5)
    planned({1}, 103.4)
    assert (slices.ended, sorted(slices.ran)) == ([], [1, 2])
    planned({1}, 103.5)
    assert slices.ended == [2]


@pytest.mark.parametrize("ages", [[0.5, 0.2], [0.5, 0.6, 0.1]])
async def test_a_member_whose_namesake_says_that_it_is_there_does_not_start(
    ages: list[float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = slices_of(tmp_path)
    found = iter([[Seat(HERE, 1.0, age_s)] for age_s in ages])

    async def pause() -> None:
        pass

    monkeypatch.setattr(slices, "_pause", pause)
    cast(Any, slices._engine).members = lambda: next(found)
    with pytest.raises(StartError, match="another member is a at a:1"):
        await slices._refuse_namesake()


async def test_a_member_starts_without_a_namesake_and_after_one_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices, paused = slices_of(tmp_path), list[int]()

    async def pause() -> None:
        paused.append(1)

    monkeypatch.setattr(slices, "_pause", pause)
    found = iter([[Seat(HERE, 1.0, 0.5)], [Seat(HERE, 1.0, 0.7)], [Seat(OTHER, 1.0, 0.1)]])
    cast(Any, slices._engine).members = lambda: next(found)
    await slices._refuse_namesake()
    assert len(paused) == 2


async def test_what_troubled_the_engine_is_said_once_and_forgotten_when_it_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    slices = slices_of(tmp_path)
    away, seen = EngineAway(1, "it is away"), Seen({1: OTHER}, [], set())
    answers = iter([seen, away, away, seen, seen])

    def ask() -> Seen:
        answer = next(answers)
        if isinstance(answer, Seen):
            return answer
        raise answer

    cast(Any, slices)._ask = ask
    await slices._look()
    assert not caplog.records
    await slices._look()
    assert slices._trouble == "the engine does not answer: it is away"
    for _ in range(3):
        await slices._look()
    assert (slices._trouble, slices._seen.owners) == ("", {1: OTHER})
    assert caplog.messages == [
        "the engine does not answer: it is away", "the engine answers again"
    ]  # fmt: skip


async def test_no_plan_is_followed_once_the_member_is_told_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = slices_of(tmp_path)
    slices._blind_s = -1000.0

    async def look() -> None:
        slices._why = "told to end"

    monkeypatch.setattr(slices, "_look", look)
    monkeypatch.setattr(slices, "_follow_plan", lambda: pytest.fail("a plan was followed"))
    await slices._attend()


@pytest.mark.parametrize("is_replaced", [False, True])
async def test_a_process_that_has_ended_is_forgotten_unless_another_has_its_place(
    is_replaced: bool, tmp_path: Path
) -> None:
    slices, other = slices_of(tmp_path), Process(tmp_path, True)

    async def stop() -> None:
        if is_replaced:
            slices.processes[1] = cast(Any, other)

    process: Any = SimpleNamespace(number=1, stop=stop)
    slices.processes[1], slices._idle_s[1] = process, 5.0
    await slices._end_one(process)
    assert (1 in slices.processes, 1 in slices._idle_s) == (is_replaced, is_replaced)


async def test_a_member_tells_the_fleet_and_reads_takeovers_now_and_then(tmp_path: Path) -> None:
    engine = Engine()
    slices = slices_of(tmp_path, engine)
    slices._trouble = ""
    slices._looked_s = slices._loop.time()
    claims = {1: Owner(HERE, 7, 1, 0.1, False), 2: Owner(OTHER, 3, 1, 0.1, False)}
    slices._seen = Seen({1: HERE, 2: OTHER}, [Seat(HERE, 1.0, 0.1)], {3, 4}, claims)

    for _ in range(2):
        found = await slices.fleet()

    assert engine.reads == 1
    assert [(each.slice, each.member, each.why) for each in found.slices] == [
        (1, "a", "a owns it and does not serve it now"), (2, "b", None),
        (3, None, "nobody owns it now"), (4, None, "nobody owns it now"),
    ]  # fmt: skip
    assert [(each.member, each.owns) for each in found.members] == [("a", [1])]
    assert [(each.slice, each.epoch, each.why) for each in found.takeovers] == [(1, 7, "silent")]
    assert (found.takeovers_total, found.trouble) == (10, None)
    assert (slices.member_of(2), slices.member_of(3)) == ("b", None)


async def test_a_fleet_whose_engine_is_away_is_told_as_it_was(tmp_path: Path) -> None:
    engine = Engine()
    slices = slices_of(tmp_path, engine)
    slices._trouble = ""
    await slices.fleet()
    engine.away, slices._takeovers_s = 1, 0.0
    assert len((await slices.fleet()).takeovers) == 1
    slices._trouble = "the engine does not answer"
    found = await slices.fleet()
    assert (found.trouble, len(found.takeovers), engine.reads) == (slices._trouble, 1, 2)
