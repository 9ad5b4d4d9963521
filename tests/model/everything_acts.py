"""The acts of a machine and their weights: for hypothesis, and for walks of a seed.

    @act(name=LINE, size=(0, 5))     a rule for hypothesis, and a step of a walk
    walk(machine, seed, steps)       this many steps, each drawn by its weight

Hypothesis shrinks what it finds; a walk meets ten times as much in the same time.

One rule: a walk follows from its seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import rule

Act = TypeVar("Act", bound=Callable[..., None])
_DOMAINS: Final[dict[str, dict[str, Sequence[Any]]]] = {}
# The acts that are drawn more often than the others, or less often.
_WEIGHTS: Final = {
    "put": 12, "fetch": 14, "end": 12, "pass_time": 6, "put_behind": 3, "end_by_token": 4,
    "hand_off": 4, "touch": 1, "open_dead": 5, "flush": 0.6, "delete": 0.3, "forget_child": 1.5,
    "a_copy_says_the_same": 1.4, "look": 0.6, "reload": 1, "reload_empty": 0.5, "pause": 1,
    "reload_full": 0.5, "come_back": 1.2, "keep_house": 3, "wait": 6, "purge": 4, "redrive": 4,
    "retry": 4, "mention_from": 6,
}  # fmt: skip
_WEIGHT: Final = 1.5


class Walker(Protocol):
    """A machine that begins by itself; its steps are looked up by name."""

    def begin(self, **beginning: Any) -> None:
        """Begin, in a state that these say."""

    def teardown(self) -> None:
        """Look at all once more, and end."""


def act(**domains: Sequence[Any]) -> Callable[[Act], Act]:
    """Make a method a rule whose arguments are drawn from these."""

    def made(method: Act) -> Act:
        _DOMAINS[method.__name__] = domains
        strategies = {name: st.sampled_from(values) for name, values in domains.items()}
        ruled: Act = rule(**strategies)(method)
        return ruled

    return made


def walk(
    machine: Walker, seed: str, steps: int, often: Sequence[str] = (), **beginning: Any
) -> None:
    """Take `steps` steps as this seed draws them, the rules `often` four times as often; raise the
    error of a step."""
    random = Random(seed)
    names = list(_DOMAINS)
    weights = [_WEIGHTS.get(name, _WEIGHT) * (4 if name in often else 1) for name in names]
    try:
        try:
            machine.begin(**beginning)
            for name in random.choices(names, weights, k=steps):
                drawn = {key: random.choice(values) for key, values in _DOMAINS[name].items()}
                getattr(machine, name)(**drawn)
        finally:
            machine.teardown()
    except Exception as error:
        error.add_note(f"in the walk of seed {seed!r}")
        raise
