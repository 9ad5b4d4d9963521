"""Leases of a sliced queue for a client of HTTP: of any of its slices.

    each slice in turn ──▶ enough, or some and no more ──▶ the answer
          └── nothing, and time left: a wait in all slices ──▶ the first item ends the other waits
                                                                and what they give nevertheless is
                                                                in the answer, or goes back

One rule: a taking has the answer of each slice that it asked before it is over, and gives back
every lease that its client does not receive.

(KNOWN FLAWS: an answer for which no room comes in time is not read to its end, and its leases last
until their time; so do those that cannot be given back because their slice is away.)
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from kestrelpy.errors import SliceAway
from kestrelpy.http.checks import Rejected
from kestrelpy.http.slices.asked import Asked, SliceAnswer
from kestrelpy.http.slices.links import SliceEnded, SliceLink
from kestrelpy.http.slices.merging import in_json, read
from kestrelpy.operations import PAGE_BYTES_MAX

_TOKEN: Final = b"lease-token"
_NO_LEASE: Final = frozenset({200, 204})
_Why = SliceAway | SliceEnded | Rejected


class Whole(Protocol):
    """How a slice is asked for a whole answer to a request of this client."""

    def __call__(
        self, number: int, target: bytes, body: bytes = b"", method: str = "",
        is_patient: bool = True, begun: Callable[[SliceLink], None] | None = None,
    ) -> Coroutine[Any, Any, SliceAnswer]:  # fmt: skip
        """Return it; raise SliceAway, SliceEnded, Rejected. `begun` is called with the connection
        once the request is on its way."""


class TakenLeases(NamedTuple):
    """What a slice gave: its answer, and the tokens in it."""

    slice: int
    said: SliceAnswer
    tokens: list[int]


class _Asking:
    """A request for leases to one slice. It is never cancelled after it was sent."""

    __slots__ = ("_is_hurried", "_link", "number", "task")

    def __init__(self, number: int, target: bytes, whole: Whole) -> None:
        self.number = number
        self._link: SliceLink | None = None
        self._is_hurried = False
        self.task = asyncio.create_task(whole(number, target, begun=self._note))

    def _note(self, link: SliceLink) -> None:
        self._link = link
        if self._is_hurried:
            link.hurry()

    def hurry(self) -> None:
        """End its wait."""
        if self._is_hurried or self.task.done():
            return
        self._is_hurried = True
        if self._link is not None:
            self._link.hurry()
        else:
            self.task.cancel()  # nothing was sent


class SlicedTaking:
    """Takes up to `count` leases for one client, from the slices in their `order`."""

    __slots__ = (
        "_asked", "_count", "_free", "_is_gone", "_none", "_order", "_taken", "_under_way",
        "_wait_ms", "_whole", "_why",
    )  # fmt: skip

    def __init__(
        self, asked: Asked, order: list[int], whole: Whole, count: int, wait_ms: int,
        free: Callable[[], None],
    ) -> None:  # fmt: skip
        """`wait_ms` is how long to wait for the first; `free` frees the memory of a connection that
        is gone."""
        self._asked, self._order, self._whole = asked, order, whole
        self._count, self._wait_ms, self._free = count, wait_ms, free
        self._is_gone = False
        self._under_way: list[_Asking] = []
        self._taken: list[TakenLeases] = []
        self._none = in_json(200, {"leases": []})  # as a slice says that there is nothing
        self._why: SliceAnswer | _Why | None = None  # nothing came of the first slice that said so

    def leave(self) -> None:
        """The client is gone: what comes goes back."""
        self._is_gone = True
        for each in self._under_way:
            each.hurry()

    async def run(self) -> SliceAnswer:
        """Return the answer; raise SliceAway, SliceEnded, Rejected."""
        await self._ask_in_turn()
        if not self._taken and self._wait_ms and not self._is_refused and not self._is_gone:
            self._why = None
            await self._wait()
        await self._give_back_surplus()
        if self._is_gone:
            await self.give_back()
            self._free()
        return self._answer()

    @property
    def _left(self) -> int:
        """How many leases are missing; 0: no more fit into an answer."""
        if sum(len(each.said.body) for each in self._taken) >= PAGE_BYTES_MAX:
            return 0
        return self._count - sum(len(each.tokens) for each in self._taken)

    @property
    def _is_refused(self) -> bool:
        """True if all slices would refuse the request."""
        return isinstance(self._why, SliceAnswer) and 400 <= self._why.status < 500

    async def _ask_in_turn(self) -> None:
        for number in self._order:
            if self._left <= 0 or self._is_refused or self._is_gone:
                return
            target = self._asked.with_query(count=self._left, wait="0")
            await self._hear([_Asking(number, target, self._whole)])

    async def _wait(self) -> None:
        """Wait in all slices until one has an item, or refuses."""
        target = self._asked.with_query(count=1)
        await self._hear([_Asking(each, target, self._whole) for each in self._order])

    async def _hear(self, asking: list[_Asking]) -> None:
        """Note the answers of all; the first that has leases, or refuses, ends the others' waits.
        """
        self._under_way, left = asking, {each.task: each for each in asking}
        if self._is_gone:
            self.leave()
        while left:
            done, _ = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._note(left.pop(task).number, task)
            if self._taken or self._why is not None:
                for each in left.values():
                    each.hurry()
        self._under_way = []

    def _note(self, number: int, task: asyncio.Task[SliceAnswer]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            said = task.result()
            if tokens := [*_tokens(said)]:
                self._taken.append(TakenLeases(number, said, tokens))
            elif said.status in _NO_LEASE:
                self._none = said
            else:
                self._why = self._why or said
        elif isinstance(error, _Why):
            self._why = self._why or error
        else:
            raise error

    async def give_back(self) -> None:
        """Give every lease back: its item goes to its place, and no attempt counts."""
        for each in self._taken:
            await self._give_back(each.slice, each.tokens)
        self._taken = []

    async def _give_back_surplus(self) -> None:
        """Give back what came from several slices at once, and is more than was asked for."""
        while sum(len(each.tokens) for each in self._taken) > self._count:
            last = self._taken.pop()  # each of them gave one
            await self._give_back(last.slice, last.tokens)

    async def _give_back(self, number: int, tokens: list[int]) -> None:
        queue = quote(self._asked.parts["queue"])
        for token in tokens:
            target = b"/queues/%b/leases/%d?delay=0" % (queue.encode(), token)
            with contextlib.suppress(SliceAway, SliceEnded, Rejected):  # it ends at its time
                await self._whole(number, target, b"", "PATCH")

    def _answer(self) -> SliceAnswer:
        if not self._taken:
            if isinstance(self._why, SliceAnswer | None):
                return self._why or self._none
            raise self._why
        first = self._taken[0].said
        if len(self._taken) == 1:
            return first
        rows = [row for each in self._taken for row in read(each.said)["leases"]]
        return in_json(200, {"leases": rows})._replace(headers=first.headers)


def _tokens(said: SliceAnswer) -> Iterator[int]:
    """Yield the tokens of the leases in an answer."""
    if said.status != 200:
        return
    token = _raw_token(said)
    if token:
        yield token
        return
    for row in read(said).get("leases", ()):
        yield row["token"]


def _raw_token(said: SliceAnswer) -> int:
    """Return the token of an answer that is the body of one item; 0: it is JSON."""
    return next((int(value) for name, value in said.headers if name == _TOKEN), 0)
