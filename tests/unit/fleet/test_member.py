"""When a standby claims, and how long an owner may speak."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from journal.engine import Claim, EngineFiles, Member, Owner
from journal.files import Disk
from kestrelpy.fleet.member import LEAVES, MARGIN, FleetMember, OwnerSeen, Standby, look, may_claim
from tests.support.memory_engine import MemoryEngine

TAKEOVER_S = 3.0
A = Member("host-a", "10.0.0.1")


def owner(epoch: int = 1, seq: int = 0, age_s: float = 0.0, has_released: bool = False) -> Owner:
    return Owner(A, epoch, seq, age_s, has_released)


class Clock:
    """Seconds, as a test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine() -> MemoryEngine:
    return MemoryEngine()


def member_of(
    engine: MemoryEngine, clock: Clock, tmp_path: Path, name: str, takeover_s: float = TAKEOVER_S
) -> FleetMember:
    files = EngineFiles(engine, f"memory/{name}", str(tmp_path / name), 1 << 20, Disk())
    return FleetMember(
        engine, files, Member(name), takeover_s, clock, is_threaded=False, unix_time=clock
    )


# -- when a standby claims ------------------------------------------------------------------------


def test_a_slice_that_nobody_owns_may_be_claimed_at_once() -> None:
    assert may_claim(OwnerSeen(None, 0.0), TAKEOVER_S, 0.0)
    assert may_claim(OwnerSeen(owner(has_released=True), 0.0), TAKEOVER_S, 0.0)


def test_an_owner_that_commits_nothing_for_the_time_of_a_takeover_is_dead() -> None:
    seen = look(None, owner(seq=5), 10.0)
    seen = look(seen, owner(seq=5), 12.9)
    assert not may_claim(seen, TAKEOVER_S, 12.9)
    assert may_claim(look(seen, owner(seq=5), 13.0), TAKEOVER_S, 13.0)


@pytest.mark.parametrize(("own_s", "of_owner_s"), [(1.0, 5.0), (5.0, 1.0), (5.0, 0.0)])
def test_of_two_settings_the_longer_one_says_when_an_owner_is_dead(
    own_s: float, of_owner_s: float
) -> None:
    quiet = owner(seq=5)._replace(takeover_s=of_owner_s)
    seen = look(None, quiet, 10.0)

    assert not may_claim(seen, own_s, 14.9)
    assert may_claim(seen, own_s, 15.0)


@pytest.mark.parametrize("after", [owner(seq=6), owner(epoch=2, seq=5)])
def test_an_owner_that_commits_or_is_another_one_is_alive(after: Owner) -> None:
    seen = look(None, owner(seq=5), 10.0)
    seen = look(seen, after, 12.9)

    assert not may_claim(look(seen, after, 15.8), TAKEOVER_S, 15.8)


@pytest.mark.parametrize("age_s", [-86_400.0, 86_400.0])
def test_the_clock_of_the_engine_says_nothing(age_s: float) -> None:
    seen = look(None, owner(age_s=age_s), 10.0)

    assert not may_claim(seen, TAKEOVER_S, 10.0)
    assert may_claim(look(seen, owner(age_s=age_s), 13.0), TAKEOVER_S, 13.0)


def test_a_standby_names_the_owner_and_where_it_is_reached() -> None:
    assert Standby(owner(), "").sentence == (
        "standby of host-a at 10.0.0.1: it owns the data, ask there"
    )
    assert Standby(Owner(Member("b"), 1, 0, 0, False), "").sentence == (
        "standby of b: it owns the data, ask there"
    )
    assert Standby(owner(), "", since="2026-11-27T08:00:00Z").sentence == (
        "standby of host-a at 10.0.0.1 since 2026-11-27T08:00:00Z: it owns the data, ask there"
    )
    assert "nobody owns" in Standby(None, "").sentence
    assert Standby(None, "no route").sentence.endswith("the engine does not answer: no route")


def test_a_standby_says_since_when_it_sees_this_owner(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    clock.now_s = 100.0
    assert a.try_to_claim() is None
    said = list[str]()
    for _ in range(2):
        standby = b.try_to_claim()
        assert standby is not None
        said.append(standby.sentence)
        clock.now_s += 1.0
    assert said == ["standby of a since 1970-01-01T00:01:40Z: it owns the data, ask there"] * 2


def test_a_standby_with_a_shorter_takeover_waits_for_an_owner_that_may_still_answer(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a", takeover_s=10.0)
    b = member_of(engine, clock, tmp_path, "b", takeover_s=2.0)
    assert a.try_to_claim() is None
    while a.is_sure():
        assert b.try_to_claim() is not None
        clock.now_s += 0.5
    assert b.try_to_claim() is not None
    clock.now_s = 10.0
    assert b.try_to_claim() is None


# -- a takeover -----------------------------------------------------------------------------------


def test_one_of_two_owns_the_slice_and_the_other_takes_over(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    assert a.try_to_claim() is None
    standby = b.try_to_claim()
    assert standby is not None
    assert standby.sentence.startswith("standby of a")

    clock.now_s = 2.0
    assert a.commits is not None
    a.commits.beat()
    clock.now_s = 4.0
    assert b.try_to_claim() is not None, "it has committed since"
    clock.now_s = 7.0
    assert b.try_to_claim() is None

    a.commits.beat()
    assert a.is_fenced and not a.is_sure()
    assert "b claimed the slice" in a.trouble
    assert b.is_sure() and not b.is_fenced


def test_a_standby_claims_nothing_if_the_owner_commits_while_it_looks(
    engine: MemoryEngine, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    a.try_to_claim()
    b.try_to_claim()
    clock.now_s = 5.0
    looked = engine.owners

    def owners() -> dict[int, Owner]:
        found = looked()
        assert a.commits is not None
        a.commits.beat()
        return found

    monkeypatch.setattr(engine, "owners", owners)

    assert b.try_to_claim() is not None
    assert a.is_sure() and not a.is_fenced


def test_an_owner_is_sure_from_the_time_on_at_which_it_asked_to_be_one(
    engine: MemoryEngine, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    claimed_at = engine.claim

    def claim(*of: Any) -> Claim:
        made = claimed_at(*of)
        clock.now_s += TAKEOVER_S  # the answer is late, or the process is stopped
        return made

    monkeypatch.setattr(engine, "claim", claim)

    assert a.try_to_claim() is None
    assert not a.is_sure()


def test_an_owner_is_silent_before_a_standby_may_claim(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    assert a.try_to_claim() is None
    b.try_to_claim()
    heard = False
    for tick in range(1, 400):
        clock.now_s = tick * 0.01
        if b.try_to_claim() is None:
            heard = True
            break
        assert a.is_sure() == (clock.now_s < TAKEOVER_S * (1 - MARGIN))
    assert heard
    assert not a.is_sure()


def test_an_engine_that_falls_silent_is_named_and_answers_again(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    a.try_to_claim()
    assert a.trouble == ""

    clock.now_s = 2.9
    assert a.trouble == "the engine does not answer: it has not answered the last commit"
    assert a.commits is not None
    a.commits.beat()
    assert a.trouble == ""
    a.commits.trouble, a.commits.is_full = "disk full", True  # and beats go on
    assert a.is_sure()
    assert a.trouble == "the engine does not answer: disk full"


def test_a_standby_whose_engine_does_not_answer_says_so_and_claims_later(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    engine.is_away = True
    standby = a.try_to_claim()
    assert standby is not None
    assert "does not answer" in standby.sentence

    engine.is_away = False
    assert a.try_to_claim() is None


def test_a_slice_that_is_released_is_claimed_at_once(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    a.try_to_claim()
    b.try_to_claim()

    a.release()

    assert b.try_to_claim() is None


def test_a_member_says_once_in_a_takeover_that_it_is_there(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    b = member_of(engine, clock, tmp_path, "b")
    b.try_to_claim()
    assert list(engine.seats) == [Member("b")]

    engine.seats.clear()
    clock.now_s = 2.9
    b.try_to_claim()
    assert engine.seats == {}
    clock.now_s = 3.0
    b.is_asked_to_release()
    assert list(engine.seats) == [Member("b")]


# -- what an operator asks for --------------------------------------------------------------------


def test_an_owner_that_was_asked_to_release_leaves_the_slice_to_the_others(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    a.try_to_claim()
    assert not a.is_asked_to_release()
    engine.ask_release(1)
    assert a.is_asked_to_release()
    a.release()

    a = member_of(engine, clock, tmp_path, "a")
    clock.now_s = 20.0
    standby = a.try_to_claim()
    assert standby is not None
    assert standby.sentence == "standby: nobody owns the data: a has released it"
    assert b.try_to_claim() is None
    assert not b.is_asked_to_release(), "another was asked"


def test_without_another_it_takes_the_slice_again_in_the_end(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    a.try_to_claim()
    engine.ask_release(1)
    a.release()

    a = member_of(engine, clock, tmp_path, "a")
    assert a.try_to_claim() is not None
    clock.now_s = LEAVES * TAKEOVER_S - 0.1
    assert a.try_to_claim() is not None
    clock.now_s = LEAVES * TAKEOVER_S
    assert a.try_to_claim() is None


def test_an_engine_that_is_away_asks_for_nothing(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    a.try_to_claim()
    engine.ask_release(1)
    engine.is_away = True

    assert not a.is_asked_to_release()


@pytest.mark.parametrize("has_released", [False, True])
def test_nobody_claims_a_slice_into_which_data_is_being_moved(has_released: bool) -> None:
    moving = Owner(A, 1, 5, 0.0, has_released, is_importing=True)

    assert not may_claim(OwnerSeen(moving, 0.0), TAKEOVER_S, 1e6)
    assert "`kestrelpy fleet import` goes on with it" in Standby(moving, "").sentence
    assert Standby(moving, "").owner_address == "", "no member answers there"


# -- the cache ------------------------------------------------------------------------------------


def test_two_members_with_one_cache_are_warned_and_the_second_claims_when_the_first_is_gone(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a, b = (member_of(engine, clock, tmp_path, "one") for _ in range(2))
    assert a.try_to_claim() is None
    for clock.now_s in (0.0, 2 * TAKEOVER_S):  # the owner says nothing more
        standby = b.try_to_claim()
        assert standby is not None
        assert standby.sentence == (
            f"standby: its cache cannot be used: {tmp_path / 'one'}: another kestrelpy is using "
            "it; give each member its own data_dir"
        )
    assert engine.owners()[1].epoch == 1

    a.release()
    assert b.try_to_claim() is None


def test_a_member_whose_cache_cannot_be_written_claims_nothing_and_says_why(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    a = member_of(engine, clock, tmp_path, "a")
    (tmp_path / "a").write_text("no folder")

    standby = a.try_to_claim()

    assert standby is not None
    says = f"standby: its cache cannot be used: {tmp_path / 'a'}: Not a directory"
    assert standby.sentence == says
    assert not engine.owners()
    (tmp_path / "a").unlink()
    assert a.try_to_claim() is None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_cache_that_cannot_be_emptied_when_its_time_comes_keeps_the_member_a_standby(
    engine: MemoryEngine, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    a, b = (member_of(engine, clock, tmp_path, name) for name in "ab")
    a.try_to_claim()
    b.try_to_claim()
    a.release()

    def no_folder(*_: object, **named: object) -> str:
        raise OSError(error, os.strerror(error), str(tmp_path / "b"))

    with monkeypatch.context() as context:
        context.setattr(tempfile, "mkdtemp", no_folder)
        standby = b.try_to_claim()

    assert standby is not None
    assert standby.sentence.endswith(f"{tmp_path / 'b'}: {os.strerror(error)}")
    assert engine.owners()[1].epoch == 1
    assert b.try_to_claim() is None


# -- what operators are told ----------------------------------------------------------------------


def test_each_claim_that_comes_to_serve_is_told_with_its_reason_and_its_times(
    engine: MemoryEngine, clock: Clock, tmp_path: Path
) -> None:
    engine.clock = clock
    a, b, c = (member_of(engine, clock, tmp_path, name) for name in "abc")
    assert a.try_to_claim() is None
    clock.now_s += 0.5
    a.tell_takeover()
    a.tell_takeover()  # once

    assert b.try_to_claim() is not None
    clock.now_s += TAKEOVER_S + 1
    assert b.try_to_claim() is None
    clock.now_s += 0.25
    b.tell_takeover()

    b.release()
    assert c.try_to_claim() is None
    engine.is_away = True
    c.tell_takeover()  # the engine is away: it is lost, and nothing else
    engine.is_away = False
    found = [
        (each.epoch, each.member.name, each.before, each.why, each.idle_s, each.took_s)
        for each in engine.takeovers()
    ]
    assert found == [
        (2, "b", "a", "silent", TAKEOVER_S + 1.5, 0.25), (1, "a", "", "first", 0.0, 0.5)
    ]
    a.files.close()
    c.release()
