"""Sliced queues, which are in all slices: where an item is put, and where one is looked for first.

    with a key, else an id      the slice of its hash
    without                     the slice of the producer's connection: one of this member
    a fetch                     the slices of this member in turn, then those of others, then those
                                that are away; one fetch in FOREIGN_FIRST asks a slice of another
                                member first

One rule: what is put is found by every fetch, wherever it is; the order only says who waits longer.
"""

from __future__ import annotations

from itertools import count
from typing import Final, Protocol

from kestrelpy.core import KeySettings
from kestrelpy.placement import Placement

FOREIGN_FIRST: Final = 8
_QUEUES_MAX: Final = 4096  # whose turns are remembered


class SlicedQueuesPort(Protocol):
    """The router, as it knows its sliced queues and its slices."""

    placement: Placement

    def keys_of(self, name: bytes) -> KeySettings | None:
        """Return how the items of a sliced queue get their keys; None: the queue is in one slice.
        """

    @property
    def has_sliced(self) -> bool:
        """True if some queue may be sliced."""

    def own_slices(self) -> list[int]:
        """Return the slices that this member serves now."""

    def foreign_slices(self) -> list[int]:
        """Return the slices that other members serve, as far as is known."""

    def member_of(self, number: int) -> str | None:
        """Return the name of the member that owns a slice; None: nobody, or there is no fleet."""

    @property
    def open_reads_max(self) -> int:
        """How many items a connection may hold open."""


class SlicedQueues:
    """The sliced queues of one router."""

    __slots__ = ("_port", "_producers", "_turns", "placement")

    def __init__(self, port: SlicedQueuesPort) -> None:
        self._port = port
        self.placement = port.placement
        self._producers = count()
        self._turns: dict[tuple[bytes, bool], int] = {}

    @property
    def has_any(self) -> bool:
        """True if some queue may be in all slices."""
        return self._port.has_sliced

    def has(self, name: bytes) -> bool:
        """True if the queue is in all slices."""
        return self._port.keys_of(name) is not None

    def reads_bodies(self, name: bytes) -> bool:
        """True if the body of an item of a sliced queue may say its key."""
        keys = self._port.keys_of(name)
        return keys is not None and keys.rule is not None

    @property
    def open_reads_max(self) -> int:
        """How many items a connection may hold open."""
        return self._port.open_reads_max

    @property
    def slices(self) -> range:
        """The numbers of all slices."""
        return range(1, self.placement.slices + 1)

    def place_of(self, name: bytes) -> dict[bytes, bytes]:
        """Return where a queue is, as figures of `stats`: its slice, and in a fleet the member;
        nothing if there is one slice."""
        if self.placement.slices == 1:
            return {}
        if self.has_any and self.has(name):
            return {b"slice": b"all"}
        number = self.placement.slice_of(name)
        member = self._port.member_of(number)
        found = {b"slice": b"%d" % number}
        return found if member is None else found | {b"member": member.encode()}

    def slice_of(
        self, name: bytes, key: tuple[bytes, ...], body: bytes, id_: bytes, of_producer: int
    ) -> int:
        """Return the slice of an item; `of_producer` is the one of its connection. Raise
        ClientError for a body without its key."""
        keys = self._port.keys_of(name)
        assert keys is not None, "the queue is in one slice"
        word = keys.key_of(name, key, body) if key or keys.rule is not None else b""
        word = word or id_
        return self.placement.slice_of_item(name, word) if word else of_producer

    def slice_of_producer(self, last: int) -> int:
        """Return the slice where a connection puts what has neither key nor id: the last one while
        this member has it."""
        own = self._port.own_slices() or [*self.slices]
        return last if last in own else own[next(self._producers) % len(own)]

    def order(self, name: bytes, is_peek: bool = False) -> list[int]:
        """Return all slices in the order in which a fetch asks them. Each fetch has one order of
        its own; a peek takes no turn of those that take an item."""
        key = name, is_peek
        turn = self._turns.pop(key, 0)
        if len(self._turns) >= _QUEUES_MAX:
            self._turns.clear()
        self._turns[key] = turn + 1
        own, others = self._port.own_slices(), self._port.foreign_slices()
        away = [each for each in self.slices if each not in own and each not in others]
        rounds, place = divmod(turn, FOREIGN_FIRST)
        own, others = _from(own, turn), _from(others, rounds)
        if others and place == FOREIGN_FIRST - 1:
            return [others[0], *own, *others[1:], *away]
        return own + others + away


def _from(numbers: list[int], start: int) -> list[int]:
    """Return the numbers from this place on, and then those before it."""
    at = start % len(numbers) if numbers else 0
    return numbers[at:] + numbers[:at]
