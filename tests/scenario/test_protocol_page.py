"""docs/protocol.md: each example is a transcript, and no verb, option or flag is missing.

    > set jobs 0 0 1      client a sends a line
    < STORED              client a is answered, exactly; the lines of one answer stand together
    b> ... b< ...         another client
    ~ 30s   = queue ...   as in a transcript
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path
from typing import Final

import pytest

from kestrelpy.protocol.parse import meta, options, parser
from tests.support.transcript import WAYS, Scene, act

PAGE: Final = Path(__file__).parents[2] / "docs" / "protocol.md"
_LINE: Final = re.compile(r"([a-z]?)([<>])(?: (.*))?")
_BLOCK: Final = re.compile(r"^```transcript\n(.*?)^```$", re.M | re.S)


def scenes() -> list[Scene]:
    """Return each example of the page as a scene of a transcript."""
    text, found = PAGE.read_text("utf-8"), []
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start()) + 2
        found.append(Scene("protocol", f"line {first}", _steps(block[1], first)))
    return found


def _steps(block: str, first: int) -> list[tuple[int, str]]:
    steps: list[tuple[int, str]] = []
    numbered = [
        (number, line, _LINE.fullmatch(line))
        for number, line in enumerate(block.splitlines(), first)
    ]
    for speaks, group in groupby(numbered, lambda each: each[2] and each[2].group(1, 2)):
        some = list(group)
        if not speaks:
            steps += [(number, line) for number, line, _ in some]
            continue
        said = " | ".join(found[3] or "(empty)" for _, _, found in some if found)
        steps.append((some[0][0], f"{speaks[0] or 'a'}{speaks[1]} {said}"))
    return steps


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("scene", scenes(), ids=str)
def test_each_example_of_the_page_is_what_happens(scene: Scene, way: str) -> None:
    act(scene, way, scene.seed)


def test_every_fenced_block_of_the_page_is_an_example() -> None:
    assert len(scenes()) == PAGE.read_text("utf-8").count("```") // 2 > 15


def test_the_page_names_every_verb_option_and_flag() -> None:
    text = PAGE.read_text("utf-8")
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`\n]+)`", text))))
    verbs = {verb.decode() for verb in parser._STORING | parser._PLAIN | meta.META}
    verbs |= {"get", "gets", "delete", "touch", "incr", "decr", "monitor", "confirm", "ms"}
    assert verbs - words == set()
    assert {*options._KNOWN, "item"} - words == set()
    flags = {chr(letter) for known in meta._FLAGS.values() for letter in known}
    table = text.partition("| flag | of |")[2].partition("\n\n")[0]
    assert flags - set(re.findall(r"`([A-Za-z])", table)) == set()
