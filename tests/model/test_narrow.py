"""A narrow machine says what it has not met, and how to take a walk that failed again."""

from __future__ import annotations

from typing import ClassVar

import pytest

from tests.model.narrow import Narrow, bodies, measure, walk


class Coin(Narrow):
    """A machine with one draw and one effect."""

    draws: ClassVar = {"side": ("head", "tail")}
    effects: ClassVar = ("landed", "stood")
    weights: ClassVar = {"toss": 1}
    never: ClassVar = {("side=head", "stood"): "it is heavy"}

    def toss(self) -> None:
        self.met.add("landed")


class Broken(Coin):
    """A machine whose step fails."""

    closed = 0

    def toss(self) -> None:
        raise ValueError("broken")

    def close(self) -> None:
        Broken.closed += 1


def test_what_no_walk_has_met_is_an_error() -> None:
    with pytest.raises(
        AssertionError, match=r"Coin has not met: ..'side=tail', 'stood'"
    ):
        measure(Coin, walks=9, steps=3)


def test_a_pair_that_cannot_be_and_is_met_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Coin, "effects", ("landed",))
    monkeypatch.setattr(Coin, "never", {("side=head", "landed"): "it never lands"})
    with pytest.raises(AssertionError, match="has met what it says cannot be"):
        measure(Coin, walks=9, steps=3)


def test_a_walk_that_fails_says_how_to_take_it_again_and_leaves_nothing_behind() -> None:
    with pytest.raises(ValueError, match="broken") as caught:
        walk(Broken, 7, 3)
    assert caught.value.__notes__[0].startswith("walk(Broken, 7, 3):\n{'side': ")
    assert Broken.closed == 1


def test_a_walk_follows_from_its_seed() -> None:
    assert {walk(Coin, 7, 3).random.random() for _ in range(3)} == {
        walk(Coin, 7, 3).random.random()
    }


def test_the_bodies_of_an_answer() -> None:
    assert bodies(b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\ny\r\nEND\r\n") == [b"x", b"y"]
    assert bodies(b"END\r\n") == []
