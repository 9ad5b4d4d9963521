"""Where each request goes: to one slice, to several, or nowhere.

    set orders, get orders/open, delete orders+audit     the slice of orders
    get orders mails                                     those of both, one key after the other
    stats, flush_all, dump_stats                         every slice: one answer is made of all
    version, mn, quit                                    answered here

One rule: each verb has a row; a verb that has none goes nowhere, and a test says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kestrelpy.operations import MOVED_MAX
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
from kestrelpy.wire.names import is_name

Names = list[bytes]
_DEAD: Final = re.compile(rb"all|\d+(,\d+)*")  # that a redrive names
_DIGITS_MAX: Final = 10  # more than a count may have


def queues_of(command: Command) -> Names | None:
    """Return the names of the queues that a request concerns; None: all of them, or none."""
    if isinstance(command, Store):
        line = command.line
        found = [line.target.name]
        if line.handoff is not None and line.handoff.queue:
            found.append(line.handoff.queue)
        return found
    if isinstance(command, Fetch):
        return [each.name for each in command.targets]
    if isinstance(command, Delete | Touch | Remove | Withdraw | Monitor | Confirm):
        return [command.name]
    if isinstance(command, Upto):
        return [command.target.name]
    if isinstance(command, Formed):
        return queues_of(command.command)
    if isinstance(command, Plain):
        return PLAIN[command.verb](command.words)
    assert isinstance(command, Bad)
    return None


def _none(words: Names) -> None:
    return None


def _first(words: Names) -> Names | None:
    return [words[0].partition(b"/")[0]] if words else [b""]


def _of_move(words: Names) -> Names | None:
    count = int(words[2][:_DIGITS_MAX]) if len(words) == 3 and words[2].isdigit() else 0
    is_whole = 0 < count <= MOVED_MAX and _are_queues(words[:2])
    return words[:2] if is_whole else _first(words)


def _of_redrive(words: Names) -> Names | None:
    is_whole = len(words) == 3 and _DEAD.fullmatch(words[1]) is not None
    return words[::2] if is_whole and _are_queues(words[::2]) else _first(words)


def _are_queues(names: Names) -> bool:
    return all(is_name(each.decode("latin-1")) and each.count(b"+") < 2 for each in names)


def _first_of_stats(words: Names) -> Names | None:
    return None if not words or words[0] in (b"markers", b"schedules") else _first(words)


# The verbs without a class of their own. A request that is malformed goes to the slice of its first
# word, which says what is wrong with it.
PLAIN: Final[dict[bytes, Callable[[Names], Names | None]]] = {
    b"flush": _first, b"flush_expired": _first, b"pause": _first, b"resume": _first,
    b"retry": _first, b"acknowledge": _first, b"move": _of_move, b"redrive": _of_redrive,
    b"stats": _first_of_stats,
    b"flush_all": _none, b"flush_all_expired": _none, b"dump_stats": _none, b"dump_config": _none,
    b"status": _none, b"reload": _none, b"version": _none, b"mn": _none, b"verbosity": _none,
    b"shutdown": _none, b"quit": _none, b"client": _none, b"mail": _none,
    b"unwait": _none,
}  # fmt: skip
