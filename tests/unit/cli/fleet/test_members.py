"""`kestrelpy fleet members`, `owners` and `drain`: what an operator reads of the shares."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from journal.engine import Facts, Member, Owner, Seat, Takeover
from kestrelpy.cli.errors import CommandError
from kestrelpy.cli.fleet import members
from kestrelpy.cli.fleet.fleet import EngineAt

A, B, C = (Member(each, f"10.0.0.{at}:22133") for at, each in enumerate("abc", 1))
AT = EngineAt("postgresql://kestrel:sekret@db1/kestrel", False, 3.0)
SEATS = [Seat(A, 3.0, 0.2), Seat(B, 3.0, 1.0, is_drained=True), Seat(C, 3.0, 9.0)]


TAKEOVERS = [
    Takeover(3, 7, A, "b", "silent", 3.1, 0.25, 60.0),
    Takeover(3, 6, B, "", "first", 0.0, 0.1, 90.0),
]


def owned_by(member: Member) -> Owner:
    return Owner(member, 1, 5, 0.1, False)


def facts(owners: dict[int, Owner], seats: list[Seat], slices: int = 4) -> Facts:
    return Facts("18.6", 3, owners, seats, [], {}, slices, TAKEOVERS)


def looking(monkeypatch: pytest.MonkeyPatch, *found: Facts) -> None:
    """Let each look see the next of these, and the last one from then on."""
    rest = list(found)
    monkeypatch.setattr(members, "look", lambda at: rest.pop(0) if len(rest) > 1 else rest[0])


def test_members_are_shown_with_what_they_own_and_wait_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looking(monkeypatch, facts(dict.fromkeys((1, 2, 4), owned_by(A)) | {3: owned_by(B)}, SEATS))
    members.members(AT, False, None)

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["a", "10.0.0.1:22133", "up", "200ms", "ago", "1-2", "4", "3"]
    assert lines[2] == ["b", "10.0.0.2:22133", "drained", "1s", "ago", "3"]
    assert lines[3] == ["c", "10.0.0.3:22133", "gone", "9s", "ago"]
    members.members(AT, True, None)
    assert json.loads(capsys.readouterr().out)[0] == {
        "member": "a", "address": "10.0.0.1:22133", "state": "up", "age_ms": 200,
        "owns": [1, 2, 4], "waits_for": [3], "beat_age_ms": 100,
    }  # fmt: skip


def test_owners_are_those_that_answer_now(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = Owner(B, 1, 5, 60.0, False)
    looking(monkeypatch, facts({1: owned_by(A), 2: silent, 3: Owner(C, 1, 5, 0.1, True)}, SEATS))
    members.owners(AT, True)

    assert json.loads(capsys.readouterr().out) == {
        "slices": 4, "owners": {"1": {"member": "a", "address": "10.0.0.1:22133"}},
    }  # fmt: skip
    members.owners(AT, False)
    assert capsys.readouterr().out.splitlines()[1].split() == ["1", "a", "10.0.0.1:22133"]


def test_takeovers_are_shown_with_what_clients_felt_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looking(monkeypatch, facts({}, SEATS))
    members.takeovers(AT, False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == ["1m", "ago", "3", "b", "a", "silent", "3.1s", "250ms"]
    members.takeovers(AT, True)
    assert json.loads(capsys.readouterr().out)[1] == {
        "slice": 3, "epoch": 6, "from": None, "to": "b", "address": "10.0.0.2:22133",
        "why": "first", "idle_ms": 0, "took_ms": 100, "age_ms": 90000,
    }  # fmt: skip


class Drains:
    """The part of the engine's package that `drain` asks; it knows the member b."""

    def __init__(self) -> None:
        self.said: list[tuple[str, bool]] = []

    def drain(self, address: str, name: str, is_drained: bool) -> list[str]:
        self.said.append((name, is_drained))
        return ["10.0.0.2:22133"] if name == "b" else []


@pytest.fixture
def drains(monkeypatch: pytest.MonkeyPatch) -> Iterator[Drains]:
    made = Drains()
    monkeypatch.setattr(members, "tools_of", lambda address: made)
    monkeypatch.setattr(members, "_LOOK_SECONDS", 0)
    yield made


def test_a_drain_waits_until_the_member_owns_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], drains: Drains
) -> None:
    both, one = {1: owned_by(B), 2: owned_by(B)}, {1: owned_by(A), 2: owned_by(B)}
    looking(monkeypatch, *(facts(each, SEATS) for each in (both, both, one, {})))
    members.drain(AT, "b", False, "1m")

    assert capsys.readouterr().out.splitlines() == [
        "b owns 2 slices", "b owns 1 slice",
        "b owns no slice; `kestrelpy fleet drain b --undo` lets it take some again",
    ]  # fmt: skip
    members.drain(AT, "b", True, "1m")
    assert drains.said == [("b", True), ("b", False)]


@pytest.mark.parametrize(
    ("name", "seats", "says"),
    [
        ("x", SEATS, "x: no member has this name"),
        ("b", SEATS[1:], "b: no other member is there to take 1 slice; nothing was changed"),
        ("b", SEATS, "b still owns 1 slice after 0s"),
    ],
)
def test_a_drain_that_cannot_be_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, drains: Drains, name: str, seats: list[Seat], says: str
) -> None:
    looking(monkeypatch, facts({1: owned_by(B)}, seats))
    with pytest.raises(CommandError, match=says):
        members.drain(AT, name, False, "0s")
    assert not (drains.said and "nothing was changed" in says)
