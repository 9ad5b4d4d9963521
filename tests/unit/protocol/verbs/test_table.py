"""Each command that a parser makes has its verb and its right."""

from __future__ import annotations

import pytest

from kestrelpy.protocol.parse import commands
from kestrelpy.protocol.parse.commands import Command, Mail
from kestrelpy.protocol.parse.parser import _PLAIN
from kestrelpy.protocol.text import requests
from kestrelpy.protocol.text.requests import TEXT_VERBS
from kestrelpy.protocol.text.routed import WholePut
from kestrelpy.protocol.verbs import VERBS, Verbs
from kestrelpy.protocol.verbs.admin import _VERBS
from kestrelpy.protocol.wire import ROUTED
from tests.support.server_harness import ServerHarness

_COMMANDS = [each for each in Command.__subclasses__() if each.__module__ == commands.__name__]
_OF_CLIENTS = [each for each in _COMMANDS if each is not Mail]
_OTHERS = [each for each in Command.__subclasses__() if each not in _COMMANDS]
_OF_THE_TEXT_PORT = [each for each in _OTHERS if each is not WholePut]  # the router has that


@pytest.mark.parametrize(
    ("table", "classes"),
    [(VERBS, _OF_CLIENTS), (TEXT_VERBS, [*_OF_CLIENTS, *_OF_THE_TEXT_PORT]),
     (ROUTED.verbs, _COMMANDS)],
)  # fmt: skip
def test_each_class_of_command_has_a_verb(table: Verbs, classes: list[type[Command]]) -> None:
    assert set(table) == set(classes)
    assert all(callable(row.execute) and callable(row.right) for row in table.values())


def test_each_other_word_that_the_parser_knows_has_a_verb_and_a_right() -> None:
    assert set(_VERBS) == _PLAIN


def test_the_commands_are_all_of_the_two_wires() -> None:
    assert len(_OF_CLIENTS) == 12
    assert {each.__module__ for each in _OF_THE_TEXT_PORT} == {requests.__name__}


@pytest.mark.parametrize("wait", [b"", b"/t=5m"])
def test_a_meta_request_counts_its_seconds_from_the_answer(wait: bytes) -> None:
    stage = ServerHarness()
    stage.set_queue()
    if not wait:
        stage.say("a", b"set jobs 0 60 1", b"x")
    stage.send("b", b"mg jobs/open%b t v l\r\n" % wait)
    answer = stage.client("b").take()
    if wait:
        assert answer == b""
        stage.pass_time(10_000)
        stage.say("a", b"set jobs 0 60 1", b"x")
        answer = stage.client("b").take()
    assert answer == b"VA 1 t60 l0\r\nx\r\n"
