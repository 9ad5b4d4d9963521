"""The table of the verbs: which one executes which class of command, and the right it needs.

    Delete ──▶ delete        Touch ──▶ touch        Plain ──▶ answer_plain, by its word

One rule: a verb raises Refused before it changes anything, or returns what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from kestrelpy.access import Need
from kestrelpy.protocol import rights
from kestrelpy.protocol.parse import (
    Bad,
    Command,
    Confirm,
    Delete,
    Fetch,
    Formed,
    Monitor,
    Plain,
    Remove,
    Store,
    Touch,
    Upto,
    Withdraw,
)
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps
from kestrelpy.protocol.verbs.admin import answer_plain, right_of_plain
from kestrelpy.protocol.verbs.bad import answer_bad
from kestrelpy.protocol.verbs.children import ack_up_to
from kestrelpy.protocol.verbs.delete import delete, remove, withdraw
from kestrelpy.protocol.verbs.monitor import confirm, monitor
from kestrelpy.protocol.verbs.touch import touch

_Kind = TypeVar("_Kind", bound=Command)


class Row(NamedTuple):
    """How a class of command is executed, and which rights one of them needs."""

    # `Any` is the class of the row: `row` checks that both take it.
    execute: Callable[[Talk, Any, int], Steps]
    right: rights.Right


Verbs = Mapping[type[Command], Row]


def row(
    kind: type[_Kind], verb: Callable[[Talk, _Kind, int], Steps],
    right: Callable[[_Kind, rights.Aliases], list[Need]],
) -> tuple[type[Command], Row]:  # fmt: skip
    """Return a row of a table of verbs."""
    return kind, Row(verb, right)


def needs(verbs: Verbs, command: Command, aliases: rights.Aliases) -> list[Need]:
    """Return what a command needs; one without a row needs everything."""
    found = verbs.get(type(command))
    right = found.right if found is not None else rights.everything
    return right(command, aliases)


def _store(talk: Talk, command: Store, now_ms: int) -> Steps:
    return talk.store(command, now_ms)


def _fetch(talk: Talk, command: Fetch, now_ms: int) -> Steps:
    return talk.fetch(command, now_ms)


def _answer_formed(talk: Talk, command: Formed, now_ms: int) -> Steps:
    """Execute a request of another verb, and answer it in a form of its own."""
    form = talk.replies.form = command.form
    form.unix_ms = now_ms + talk.broker.clock.offset_ms
    return VERBS[type(command.command)].execute(talk, command.command, now_ms)


def _right_of_formed(command: Formed, aliases: rights.Aliases) -> list[Need]:
    return needs(VERBS, command.command, aliases)


# The verbs of the memcache wire. Another wire adds rows for commands of its own.
VERBS: Final[Verbs] = dict([
    row(Store, _store, rights.store),
    row(Fetch, _fetch, rights.fetch),
    row(Delete, delete, rights.delete),
    row(Remove, remove, rights.remove),
    row(Withdraw, withdraw, rights.write),
    row(Upto, ack_up_to, rights.upto),
    row(Touch, touch, rights.write),
    row(Monitor, monitor, rights.write),
    row(Confirm, confirm, rights.write),
    row(Plain, answer_plain, right_of_plain),
    row(Formed, _answer_formed, _right_of_formed),
    row(Bad, answer_bad, rights.nothing),
])  # fmt: skip
