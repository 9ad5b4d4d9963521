"""The table of the verbs: which one executes which class of command.

    Delete ──▶ delete        Touch ──▶ touch        Plain ──▶ answer_plain, by its word

One rule: a verb raises Refused before it changes anything, or returns what is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

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
from kestrelpy.protocol.verbs.admin import answer_plain
from kestrelpy.protocol.verbs.bad import answer_bad
from kestrelpy.protocol.verbs.children import ack_up_to
from kestrelpy.protocol.verbs.delete import delete, remove, withdraw
from kestrelpy.protocol.verbs.monitor import confirm, monitor
from kestrelpy.protocol.verbs.touch import touch

_Kind = TypeVar("_Kind", bound=Command)
# `Any` is the class of the row: `row` checks that the verb takes it.
Verb = Callable[[Talk, Any, int], Steps]
Verbs = Mapping[type[Command], Verb]


def row(kind: type[_Kind], verb: Callable[[Talk, _Kind, int], Steps]) -> tuple[type[Command], Verb]:
    """Return a row of a table of verbs."""
    return kind, verb


def _store(talk: Talk, command: Store, now_ms: int) -> Steps:
    return talk.store(command, now_ms)


def _fetch(talk: Talk, command: Fetch, now_ms: int) -> Steps:
    return talk.fetch(command, now_ms)


def _answer_formed(talk: Talk, command: Formed, now_ms: int) -> Steps:
    """Execute a request of another verb, and answer it in a form of its own."""
    form = talk.replies.form = command.form
    form.unix_ms = now_ms + talk.broker.clock.offset_ms
    return VERBS[type(command.command)](talk, command.command, now_ms)


# The verbs of the memcache wire. Another wire adds rows for commands of its own.
VERBS: Final[Verbs] = dict([
    row(Store, _store),
    row(Fetch, _fetch),
    row(Delete, delete),
    row(Remove, remove),
    row(Withdraw, withdraw),
    row(Upto, ack_up_to),
    row(Touch, touch),
    row(Monitor, monitor),
    row(Confirm, confirm),
    row(Plain, answer_plain),
    row(Formed, _answer_formed),
    row(Bad, answer_bad),
])  # fmt: skip
