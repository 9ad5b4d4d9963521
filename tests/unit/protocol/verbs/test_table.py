"""Each command that a parser makes has its verb and its right."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.parse import commands
from kestrelpy.protocol.parse.commands import Command
from kestrelpy.protocol.parse.parser import _PLAIN
from kestrelpy.protocol.text import requests
from kestrelpy.protocol.text.requests import TEXT_VERBS
from kestrelpy.protocol.verbs import VERBS, Verbs
from kestrelpy.protocol.verbs.admin import _VERBS

_COMMANDS = [each for each in Command.__subclasses__() if each.__module__ == commands.__name__]
_OF_THE_TEXT_PORT = [each for each in Command.__subclasses__() if each not in _COMMANDS]


@pytest.mark.parametrize(
    ("table", "classes"), [(VERBS, _COMMANDS), (TEXT_VERBS, Command.__subclasses__())]
)
def test_each_class_of_command_has_a_verb(table: Verbs, classes: list[type[Command]]) -> None:
    assert set(table) == set(classes)
    assert all(callable(row.execute) and callable(row.right) for row in table.values())


def test_each_other_word_that_the_parser_knows_has_a_verb_and_a_right() -> None:
    assert set(_VERBS) == _PLAIN


def test_the_commands_are_all_of_the_two_wires() -> None:
    assert len(_COMMANDS) == 12
    assert {each.__module__ for each in _OF_THE_TEXT_PORT} == {requests.__name__}
