"""The rights: which roles a request needs, and in which queues.

    row(Touch, touch, write)          touch q 30           write in q
    row(Fetch, _fetch, fetch)         get q/peek q/open    read in q, write in q
    b"reload": (_reload, everything)  reload               admin in all queues

One rule: each row of a table of verbs has the right that its requests need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kestrelpy.access import ALL, Need, Role
from kestrelpy.protocol.parse import (
    Confirm,
    Delete,
    Fetch,
    Monitor,
    Plain,
    Remove,
    Store,
    Target,
    Touch,
    Upto,
    Withdraw,
)

Aliases = Mapping[bytes, tuple[bytes, ...]]
# `Any` is the class of the row.
Right = Callable[[Any, Aliases], list[Need]]
_LISTS_OF_ALL: Final = frozenset({b"markers", b"schedules"})


def nothing(command: object, aliases: Aliases) -> list[Need]:
    """Return nothing: every user may do it."""
    return []


def everything(command: object, aliases: Aliases) -> list[Need]:
    """Return the role admin in all queues."""
    return [Need(Role.ADMIN, ALL)]


def read_all(command: object, aliases: Aliases) -> list[Need]:
    """Return the role read in all queues."""
    return [Need(Role.READ, ALL)]


def write(command: Withdraw | Touch | Monitor | Confirm, aliases: Aliases) -> list[Need]:
    """Return the role write in the queue."""
    return [Need(Role.WRITE, command.name)]


def store(command: Store, aliases: Aliases) -> list[Need]:
    """Return what a set, a declaration or a hand-off needs: of an alias also each of its queues."""
    line = command.line
    name, role = line.target.name, Role.ADMIN if line.declares else Role.WRITE
    needed = [Need(role, each) for each in (name, *aliases.get(name, ()))]
    if line.handoff is not None and line.handoff.queue:
        needed.append(Need(Role.WRITE, line.handoff.queue))
    return needed


def fetch(command: Fetch, aliases: Aliases) -> list[Need]:
    """Return what each key needs."""
    return [_of_key(target) for target in command.targets]


def _of_key(target: Target) -> Need:
    is_read = target.peeks and not target.parent and target.ending is None
    return Need(Role.READ if is_read else Role.WRITE, target.name)


def delete(command: Delete, aliases: Aliases) -> list[Need]:
    """Return what the end of a lease needs, or the end of the queue."""
    return [Need(Role.WRITE if command.token else Role.ADMIN, command.name)]


def remove(command: Remove, aliases: Aliases) -> list[Need]:
    """Return what the end of a waiting item needs, or of a dead letter."""
    return [Need(Role.ADMIN if command.dead else Role.WRITE, command.name)]


def upto(command: Upto, aliases: Aliases) -> list[Need]:
    """Return the role write in the queue or child."""
    return [Need(Role.WRITE, command.target.name)]


# -- of the other verbs, by their words -------------------------------------------------------


def one_queue(command: Plain, aliases: Aliases) -> list[Need]:
    """Return the role admin in the queue of the first word; without one, in all queues."""
    return [Need(Role.ADMIN, _queue(command.words))]


def stats(command: Plain, aliases: Aliases) -> list[Need]:
    """Return the role read in the queue of the first word; without one, and for what all queues
    have, in all queues."""
    words = command.words
    return [Need(Role.READ, ALL if words and words[0] in _LISTS_OF_ALL else _queue(words))]


def _queue(words: list[bytes]) -> bytes:
    return words[0].partition(b"/")[0] if words else ALL
