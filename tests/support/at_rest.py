"""The end of a life: all items are gone, every holder hung up, every wait is over. Find all that is
left.

    left_over(daemon)                        one sentence for each thing that is left
    left_over(broker, directory, ...)        the same for the objects that a test has
    files_left(files, "data", broker)        files that no journal knows

The walk begins at these objects and follows every attribute, container and element to every object
of the packages `journal` and `kestrelpy`. An attribute that counts or collects (a number, a mark, a
text, a container, a timer, an event, a thread, an error) must be 0, false, empty or None. What may
be otherwise stands in `rest_table`, with its reason. The table also has every class: one that stays
(its attributes are checked), one without instances at rest, or one that is only a value.

One rule: nothing is skipped in silence. A new attribute is checked without a row, and
`tests/test_house.py` names a new class until the table has it.
"""

from __future__ import annotations

import asyncio
import threading
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Final, TypeVar

from journal.files import Files
from journal.format.folder import folder_name
from journal.snapshot.snapshot import snapshot_name
from journal.store import LogStore
from kestrelpy.core.broker import Broker
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.policy import Policy
from kestrelpy.core.queue.queue import Queue
from tests.support.compiled import attributes_of
from tests.support.rest_table import (
    AT_MOST,
    MAY_HOLD,
    NONE_LEFT,
    OTHERWISE,
    RELATIONS,
    REMEMBERED,
    RETAINED,
    UNFOLLOWED,
    VALUES,
)

T = TypeVar("T")
Table = Mapping[str, Mapping[str, str]]

_COLLECTIONS: Final = (
    dict, list, set, frozenset, deque, tuple, array, bytes, bytearray, str, MappingProxyType,
)  # fmt: skip
_NUMBERS: Final = (int, float)
_OURS: Final = (
    "journal.", "kestrelpy.client.", "kestrelpy.core.", "kestrelpy.kombu.", "kestrelpy.protocol.",
    "kestrelpy.server.", "kestrelpy.wire.",
)  # fmt: skip
_COMPLAINTS_MAX: Final = 40
# Beside journals in a data directory.
_FILES: Final = ("lock", "running-clock", "server-id", "tokens")
_SET_ASIDE: Final = "set-aside"


def name_of(kind: type) -> str:
    """The name of a class in the table: its module, without the package, and its own."""
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("kestrelpy.")


def is_ours(kind: type) -> bool:
    """True for a class of the packages that run a daemon, or its clients."""
    return f"{kind.__module__}.".startswith(_OURS)


@cache
def known_as(kind: type) -> type | None:
    """The class of ours that this one is, or that a test has made it of; None: it is foreign."""
    return next((each for each in kind.__mro__ if is_ours(each)), None)


def _entry(
    names: tuple[str, ...], attribute: str, table: Mapping[str, Mapping[str, T]]
) -> T | None:
    """Return the entry of a table for an attribute of a class with one of these names."""
    for name in names:
        if name in table and attribute in table[name]:
            return table[name][attribute]
    return None


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(name_of(each) for each in kind.__mro__ if is_ours(each))


@cache
def _slots(kind: type) -> tuple[str, ...]:
    found: list[str] = []
    for each in kind.__mro__:
        if is_ours(each):
            found += attributes_of(each)
    return tuple(found)


class Walk:
    """One walk through all reachable objects. `seen` are the classes and attributes that it met."""

    def __init__(
        self, retains: bool = False, remembers: bool = True, but: Table | None = None
    ) -> None:
        """`retains`: a queue retains done items. `remembers`: ids and versions may be there until
        their window ends. `but`: the exceptions of one test."""
        self.complaints: list[str] = []
        self.classes: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        tables = (MAY_HOLD, retains and RETAINED, remembers and REMEMBERED, but)
        self._may = [table for table in tables if table]
        self._but = but or {}
        self._met: dict[int, object] = {}
        self._next: deque[tuple[str, object]] = deque()

    def run(self, *roots: object) -> None:
        """Follow everything from these on."""
        self._next += [(type(root).__name__, root) for root in roots]
        while self._next:
            where, thing = self._next.popleft()
            self._look(where, thing)

    def _look(self, where: str, thing: object) -> None:
        kind = known_as(type(thing))
        if kind is None or id(thing) in self._met or isinstance(thing, Enum | type):
            return
        self._met[id(thing)] = thing
        names = _names(kind)
        self.classes.update(names)
        if names[0] in NONE_LEFT:
            self.complaints.append(f"{where} is left: {_shown(thing)}")
        elif names[0] not in VALUES:
            for attribute, value in _attributes(thing, kind):
                self.attributes.add((names[0], attribute))
                self._check(where, names, attribute, value)
            for relation in (each for name in names for each in RELATIONS.get(name, ())):
                if names[0] not in self._but and (wrong := relation(thing)):
                    self.complaints.append(f"{where}: {wrong}")

    def _check(self, where: str, names: tuple[str, ...], attribute: str, value: object) -> None:
        path = f"{where}.{attribute}"
        may = next(filter(None, (_entry(names, attribute, table) for table in self._may)), None)
        otherwise = _entry(names, attribute, OTHERWISE)
        most = _entry(names, attribute, AT_MOST)
        if may is None:
            if otherwise is not None:
                if value not in otherwise[0]:
                    self.complaints.append(f"{path} is {_shown(value)}")
            elif most is not None:
                assert isinstance(value, int | list | set | dict | deque | array)
                if (value if isinstance(value, int) else len(value)) > most[0]:
                    self.complaints.append(f"{path} is {_shown(value)}, at most {most[0]}")
            elif not _rests(value):
                self.complaints.append(f"{path} is {_shown(value)}")
        if may not in UNFOLLOWED:
            self._follow(path, value)

    def _follow(self, path: str, value: object) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                self._follow(f"{path}[{_brief(key)}]", key)
                self._follow(f"{path}[{_brief(key)}]", each)
        elif isinstance(value, list | set | frozenset | deque | tuple):
            for at, each in enumerate(value):
                self._follow(f"{path}[{at}]", each)
        elif hasattr(value, "__self__"):
            return  # a bound method: whose it is, is found as itself
        elif known_as(type(value)) is not None:
            self._next.append((path, value))


def _attributes(thing: object, kind: type) -> Iterator[tuple[str, object]]:
    """All of them that our classes have given it."""
    slots = _slots(kind)
    for name in slots:
        if hasattr(thing, name) and name != "__weakref__":
            yield name, getattr(thing, name)
    if kind is type(thing) or not slots:  # else a test's subclass keeps its own there
        yield from getattr(thing, "__dict__", {}).items()


def _rests(value: object) -> bool:
    """True if this counts nothing and holds nothing."""
    if value is None or isinstance(value, Enum):
        return True
    if isinstance(value, tuple):
        return all(_rests(each) for each in value)
    if isinstance(value, _NUMBERS):
        return not value
    if isinstance(value, _COLLECTIONS):
        return len(value) == 0
    if isinstance(value, asyncio.Event | threading.Event):
        return not value.is_set()
    return not isinstance(
        value, BaseException | asyncio.Handle | asyncio.Future | threading.Thread
    )


def _shown(value: object) -> str:
    text = repr(value)
    size = f" ({len(value)} of them)" if isinstance(value, dict | list | set | deque) else ""
    return (text if len(text) < 120 else f"{text[:120]} ...") + size


def _brief(key: object) -> str:
    if isinstance(key, Queue):
        return key.name.decode("latin-1")
    return repr(key)[:40]


# -- files ----------------------------------------------------------------------------------------


def files_left(files: Files, path: str, broker: Broker) -> list[str]:
    """Return the files of a data directory that no journal knows."""
    queues = {folder_name(queue.name, queue.generation): queue for queue in broker.logged}
    complaints = []
    for name in sorted(files.names(path)):
        if name.startswith(_FILES):
            continue
        queue = queues.get(name)
        if queue is None or not isinstance(queue.log, JournalLog):
            complaints.append(f"{path}/{name} is there without a queue")
            continue
        there = {*files.names(f"{path}/{name}")} - {_SET_ASIDE}
        known = {each.rpartition("/")[2] for each in _paths(queue.log.store)}
        complaints += [f"{path}/{name}/{each} is nobody's" for each in sorted(there - known)]
    return complaints


def _paths(store: LogStore) -> Iterator[str]:
    """All files that this journal knows of."""
    journal, maintenance = store.writer, store.maintenance
    yield from (segment.path for segment in journal.segments)
    yield from (segment.path for segment in journal.preallocation.waiting)
    yield from (segment.path for segment in journal.preallocation.passed_over)
    yield from (path for path, _ in journal.preallocation.recycled)
    yield from (snapshot_name(lsn) for lsn in maintenance.snapshots)
    # A chunk goes when no snapshot lists it any more.
    forgotten = (each for each, _ in maintenance._forgotten)
    for chunk in (*maintenance.chunks, *maintenance.lost_chunks, *forgotten):
        yield chunk.name


# -- what is asked --------------------------------------------------------------------------------


def left_over(
    *roots: object, retains: bool | None = None, remembers: bool = True, but: Table | None = None
) -> list[str]:
    """Return a sentence for each thing that these objects still count, hold or wait for."""
    brokers = [getattr(root, "broker", root) for root in roots]
    brokers = [each for each in brokers if isinstance(each, Broker)]
    if retains is None:
        retains = any(_retains(q.policy) for b in brokers for q in (*b.queues.values(), *b.logged))
    walk = Walk(retains, remembers, but)
    walk.run(*roots)
    return walk.complaints


def _retains(policy: Policy) -> bool:
    return policy.retains
