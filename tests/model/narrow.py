"""Narrow machines: the settings that the machine of everything does not draw, each on a server of
its own beside a model of its own.

    class KeysMachine(Narrow):
        draws = {"key_format": ("json", "msgpack")}    the settings that it draws, and their values
        effects = ("blocked", "refused")               what comes of them; each beside each value
        def begin(self) -> None: ...                   `self.drawn` says which values these are
        def put(self) -> None: ...                     a step, by its name in `weights`

    measure(KeysMachine, walks=60, steps=40)           what no walk has met is an error

One rule: a walk follows from its seed alone, and says which it was when it fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from random import Random
from typing import Any, ClassVar, Final, TypeVar

from tests.support.server_harness import ServerHarness

Choice = TypeVar("Choice")
Pairs = Counter[tuple[str, str]]
_READ_MS_MAX: Final = 100
_TOLD_MAX: Final = 40  # lines of a walk that failed


class Narrow:
    """One walk of a narrow machine."""

    draws: ClassVar[Mapping[str, Sequence[Any]]] = {}
    effects: ClassVar[Sequence[str]] = ()
    weights: ClassVar[Mapping[str, float]] = {}
    # Pairs of a value and an effect that cannot be, by their reason.
    never: ClassVar[Mapping[tuple[str, str], str]] = {}

    def __init__(self, seed: object) -> None:
        self.random = Random(f"{type(self).__name__} {seed}")
        self.drawn = {name: self.random.choice(list(each)) for name, each in self.draws.items()}
        self.met: set[str] = set()
        self.transcript: list[str] = [f"{self.drawn}"]
        self.count = 0
        self.stage = self.make_stage()
        self.begin()

    def make_stage(self) -> ServerHarness:
        return ServerHarness()

    def begin(self) -> None:
        """Put what was drawn in force."""

    def check(self) -> None:
        """Look at everything, after each step."""

    def end(self) -> None:
        """Look at everything once more."""

    def close(self) -> None:
        """Undo what holds for more than this walk."""

    # -- for the steps ----------------------------------------------------------------------

    def pick(self, choices: Sequence[Choice]) -> Choice:
        return self.random.choice(choices)

    def is_drawn(self, name: str, value: object) -> bool:
        return bool(self.drawn[name] == value)

    def body(self) -> bytes:
        """A body that no other item has."""
        self.count += 1
        return b"<%d>" % self.count

    def ask(self, who: str, *lines: bytes) -> bytes:
        said = self.stage.say(who, *lines)
        for _ in range(_READ_MS_MAX):
            if said:
                break
            self.stage.pass_time(1)  # it is read back first
            said = self.stage.client(who).take()
        assert said, f"no answer to {lines!r}"
        self.transcript.append(f"{who}> {b' | '.join(lines)!r}  {who}< {said!r}")
        return said

    def set(self, who: str, key: str, body: bytes, more: str = "", verb: str = "set") -> bytes:
        return self.ask(who, f"{verb} {key} 0 0 {len(body)}{more}".encode(), body)

    def come_back(self, how: str) -> None:
        """Restart, kill or cut_power."""
        self.transcript.append(f"= {how}")
        getattr(self.stage, how)()
        self.stage.work()

    def pass_time(self, ms: int) -> None:
        self.transcript.append(f"~ {ms}ms")
        self.stage.pass_time(ms)


def bodies(answer: bytes) -> list[bytes]:
    """The bodies of one answer that hold no line end."""
    lines = answer.split(b"\r\n")
    return [lines[at + 1] for at, line in enumerate(lines) if line.startswith(b"VALUE ")]


def walk(machine: type[Narrow], seed: object, steps: int) -> Narrow:
    """Take `steps` steps; raise a step's error, with the seed and the end of the transcript."""
    walker = machine(seed)
    names, weights = [*machine.weights], [*machine.weights.values()]
    try:
        for name in walker.random.choices(names, weights, k=steps):
            getattr(walker, name)()
            walker.check()
        walker.end()
    except Exception as error:
        transcript = "\n".join(walker.transcript[:1] + walker.transcript[1:][-_TOLD_MAX:])
        error.add_note(f"walk({machine.__name__}, {seed!r}, {steps}):\n{transcript}")
        raise
    finally:
        walker.close()
    return walker


def measure(machine: type[Narrow], walks: int, steps: int) -> Pairs:
    """Take `walks` walks, and more while a pair is missing, up to four times as many.

    A pair is a value of a setting with an effect; all possible pairs must be met.
    """
    pairs: Pairs = Counter()
    for seed in range(4 * walks):
        missing = [pair for pair in wanted(machine) if not pairs[pair]]
        if seed >= walks and not missing:
            break
        walker = walk(machine, seed, steps)
        for name, value in walker.drawn.items():
            pairs.update((f"{name}={value}", effect) for effect in walker.met)
    assert not missing, f"{machine.__name__} has not met: {missing}"
    never = [pair for pair in machine.never if pairs[pair]]
    assert not never, f"{machine.__name__} has met what it says cannot be: {never}"
    return pairs


def wanted(machine: type[Narrow]) -> Iterator[tuple[str, str]]:
    """Each pair of a value and an effect that has to be met."""
    for name, values in machine.draws.items():
        for value, effect in product(values, machine.effects):
            if (f"{name}={value}", effect) not in machine.never:
                yield f"{name}={value}", effect
