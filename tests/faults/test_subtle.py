"""Each operator makes its mistake, and nothing else; the draw takes the operators in turn."""

from __future__ import annotations

import textwrap
from itertools import islice

import pytest

from tests.faults import subtle
from tests.faults.mutants import EQUIVALENTS, SUBTLE_ROOMS, equivalents, sample, sources
from tests.faults.mutation import difference

GUARD = '''
async def close(self, name):
    """Close it."""
    if self.is_shut:
        return
    await self.room.end()
    if self.room.is_over:
        return
    self.room.tell(name)
'''
LOOP = """
def moved(self):
    for each in self.batches:
        if self.is_read_only:
            break
        yield each
"""


def made(operator: str, text: str) -> list[tuple[str, str]]:
    """What the operator makes of the text: the lines before and after."""
    found = []
    for each in subtle.mutations("journal/house.py", textwrap.dedent(text)):
        changed = subtle.mutated(textwrap.dedent(text), each)
        if each.operator == operator and changed is not None:
            found.append(difference(textwrap.dedent(text), changed)[1:])
    return found


@pytest.mark.parametrize(
    ("operator", "text", "expected"),
    [
        ("late guard", GUARD, [("if self.room.is_over:", "if False:")]),
        ("late guard", LOOP, [("if self.is_read_only:", "if False:")]),
        ("late guard", GUARD.replace("await ", ""), []),
        (
            "never left",
            "def f(self):\n    self.is_told = False\n    self.left = 2\n    del self.a[1]\n",
            [("self.is_told = False", "pass"), ("del self.a[1]", "pass")],
        ),
        ("never left", "def __init__(self):\n    self.is_told = False\n", []),
        ("never left", "def f(s):\n    s.seen.discard(1)\n", [("s.seen.discard(1)", "pass")]),
        (
            "one variant",
            "def f(a, b):\n    return a or b\n",
            [("return a or b", "return ((b))"), ("return a or b", "return ((a))")],
        ),
        (
            "one variant",
            "def f(a):\n    g(a in (1, 2))\n",
            [("g(a in (1, 2))", "g(a in (2,))"), ("g(a in (1, 2))", "g(a in (1,))")],
        ),
        (
            "one variant",
            "def f(a):\n    return isinstance(a, int | str)\n",
            [
                ("return isinstance(a, int | str)", "return isinstance(a, (str))"),
                ("return isinstance(a, int | str)", "return isinstance(a, (int))"),
            ],
        ),
        (
            "one variant",
            "def f(a):\n    if a:\n        g()\n    elif h():\n        k()\n",
            [("elif h():", "elif False:")],
        ),
        (
            "swapped",
            "def f(file):\n    file.write(b'')\n    file.sync()\n    log.info('')\n",
            [("file.write(b'')\nfile.sync()", "file.sync()\nfile.write(b'')")],
        ),
        (
            "other clock",
            "def f(self, now_ms):\n    return now_ms + self.clock.offset_ms\n",
            [("return now_ms + self.clock.offset_ms", "return (now_ms)")],
        ),
        (
            "other name",
            "def f(self, name: bytes, target: bytes, n: int):\n    self.check(name, n)\n",
            [("self.check(name, n)", "self.check(target, n)")],
        ),
        (
            "left out",
            "def f(h):\n    h['etag'] = 'a'\n    return {'a': 1, 'b': 2}\n",
            [
                ("h['etag'] = 'a'", "pass"),
                ("return {'a': 1, 'b': 2}", "return {'b': 2}"),
                ("return {'a': 1, 'b': 2}", "return {'a': 1}"),
            ],
        ),
    ],
)
def test_an_operator_makes_its_mistake(
    operator: str, text: str, expected: list[tuple[str, str]]
) -> None:
    assert made(operator, text) == expected


def test_a_stale_read_is_made_at_the_begin_and_used_behind_the_wait() -> None:
    found = [after for _, after in made("stale read", GUARD)]
    assert len(found) == 1
    assert found[0].startswith("_early = self.room.is_over\nif self.is_shut:")
    assert found[0].endswith("if _early:")


ROOM = """
class Room:
    def __init__(self, is_live):
        self._is_live = is_live
        self.is_open = self._is_full = False

    def fill(self):
        self._is_full = True

    async def close(self):
        await self.wait()
        if self.{attribute}:
            self.end()
"""


@pytest.mark.parametrize(
    ("attribute", "changes"),
    [("_is_live", 0), ("_is_live.at_all", 1), ("_is_full", 1), ("is_open", 1), ("_is_of_base", 1)],
)
def test_no_stale_read_is_made_of_what_only_the_begin_sets(attribute: str, changes: int) -> None:
    assert len(made("stale read", ROOM.format(attribute=attribute))) == changes


@pytest.mark.parametrize(
    ("read", "changes"),
    [
        ("command.noreply", 0), ("command.noreply.noreply", 0),  # set as they are made
        ("command.is_over", 1), ("command.noreply.is_over", 1),  # of some classes set later
        ("command.readable", 1),  # a property
    ],
)
def test_no_stale_read_is_made_of_what_no_line_of_the_house_sets_later(
    read: str, changes: int
) -> None:
    text = f"def f(command):\n    yield\n    if {read}:\n        g()\n"
    assert len(made("stale read", text)) == changes


def test_columns_are_those_of_characters() -> None:
    text = "def f(a, b):\n    return 'ä', a or b\n"
    assert made("one variant", text)[0] == ("return 'ä', a or b", "return 'ä', ((b))")


def test_the_draw_takes_the_operators_in_turn_and_the_seed_decides() -> None:
    text = GUARD + LOOP + "def f(a, b):\n    h(a or b)\n    g.write(a)\n    g.sync()\n"
    texts = {"journal/house.py": text}
    found = subtle.mutations("journal/house.py", text)
    kinds = {each.operator for each in found}
    first = list(islice(subtle.drawn(found, texts, 1), len(kinds)))
    assert {each.operator for each in first} == kinds
    assert sorted(subtle.drawn(found, texts, 1)) == sorted(found)
    drawn = [sample(texts, 5, seed, {}, subtle) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_each_judgement_has_a_reason_and_a_line_that_is_there() -> None:
    texts = sources(rooms=SUBTLE_ROOMS)
    for (file, old, new), reason in equivalents(EQUIVALENTS.read_text()).items():
        lines = {line.strip() for line in texts[file].splitlines()}
        assert set(old.splitlines()) <= lines, f"{file}: {old}: the line is not there any more"
        assert old != new
        assert reason
