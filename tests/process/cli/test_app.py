"""The words of the command line: mistakes in them, and the help."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from kestrelpy.cli.app import app
from kestrelpy.cli.queues.commands import items, queues, schedules
from tests.process.cli.command import Command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "no such command 'nosuch' (kestrelpy -h shows what it takes)"),
        (["queus", "ls"], "no such command 'queus', did you mean 'queues'? (kestrelpy -h shows"),
        (["queues", "lst"], "did you mean 'ls'? (kestrelpy queues -h shows what it takes)"),
        (["put", "q", "x", "--lin"], "no such option: --lin, did you mean --lines? (kestrelpy put"),
        (["put", "q", "x", "--nosuch"], "no such option: --nosuch (kestrelpy put -h shows what"),
        (["put"], "missing argument 'QUEUE' (kestrelpy put -h shows what it takes)"),
        (["put", "q", "--id"], "option '--id' requires an argument (kestrelpy"),
        (["put", "a", "b", "c"], "(kestrelpy put -h shows what it takes)"),
        (["serve", "--port", "abc"], '--port: "abc" must be a whole number from 0 to 65535'),
        (["item", "show", "q", "0"], 'NUMBER: "0" must be a whole number of at least 1'),
        (["dead", "purge", "q", "7", "x"], 'NUMBER: "x" must be a whole number of at least 1'),
        (["queues", "create", "jobs/foo=1"], "\"jobs/foo=1\" is not a queue's name"),
        (["queues", "create", "j", "--set", "jobs/foo=1"], "must be key=value"),
        (["get", "jobs/foo=1"], "unknown option foo, docs/protocol.md lists all of them"),
        (["get", "jobs/opne"], "unknown option opne, did you mean open?"),
        (["completion", "tcsh"], "there is no completion for 'tcsh', but for bash, zsh, fish"),
    ],
)
def test_a_mistake_is_one_sentence(kestrelpy: Command, words: list[str], said: str) -> None:
    ended = kestrelpy(*words)

    assert ended.is_sentence(2), ended
    assert said in ended.err
    assert ended.out == b""


def commands(group: Any, path: str = "") -> list[tuple[str, str]]:
    """Every command with its help."""
    found = [(path, group.help or "")]
    for name, each in getattr(group, "commands", {}).items():
        found += commands(each, f"{path} {name}".strip())
    return found


ALL = commands(typer.main.get_command(app))


@pytest.mark.parametrize(("path", "text"), ALL, ids=[path or "kestrelpy" for path, _ in ALL])
def test_each_command_says_in_one_sentence_what_it_does(path: str, text: str) -> None:
    first, _, _ = text.partition("\n\n")

    assert first[:1].isupper() and first.endswith("."), first
    assert first.count(". ") == 0, first
    assert len(first) <= 66, "it is cut off in the list of commands"
    assert first.split()[0] not in ("What", "The", "Whether", "Was")


def options_of(group: Any, path: str = "") -> dict[str, set[str]]:
    """The options of every command."""
    found = {path: {option for each in group.params for option in each.opts}}
    for name, each in getattr(group, "commands", {}).items():
        found |= options_of(each, f"{path} {name}".strip())
    return found


def test_each_command_with_a_server_has_a_timeout_too() -> None:
    found = options_of(typer.main.get_command(app))

    with_server = {path for path, options in found.items() if "--server" in options}
    without = {path for path in with_server if "--timeout" not in found[path]}

    assert {"status", "top", "put", "move", "dead ls", "item show"} <= with_server
    assert without == {"work"}  # it waits for its server
    for group in (queues, items, schedules):
        ours = options_of(typer.main.get_command(group))
        assert all("--timeout" in options for path, options in ours.items() if path), ours


@pytest.mark.parametrize("words", [[], ["put"], ["queues"], ["queues", "show"], ["spark", "audit"]])
def test_h_is_help(kestrelpy: Command, words: list[str]) -> None:
    short, long = kestrelpy(*words, "-h"), kestrelpy(*words, "--help")

    assert (short.code, short.err) == (0, "")
    assert short.out == long.out
    assert short.out.startswith(b"Usage: kestrelpy")


def test_a_group_without_a_command_prints_its_help(kestrelpy: Command) -> None:
    ended = kestrelpy("queues")

    assert ended.code == 2
    assert ended.out.startswith(b"Usage: kestrelpy queues ")
    assert ended.err == ""
