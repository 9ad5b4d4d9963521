"""Transfers on request: ready items to another queue, and dead letters.

    check ──▶ a `TransferRequest`, which the broker carries out in turns ──▶ `outcome`

One rule: an item that is refused, or cannot be read, stays in its queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from kestrelpy.core import AnyQueue, Broker, TransferRequest
from kestrelpy.errors import ClientError, ServerError
from kestrelpy.operations.modes import check_changes
from kestrelpy.operations.ports import Site

# A request moves at most this many; a client with more to move asks again, and knows its progress.
MOVED_MAX: Final = 10_000


class Moving:
    """The transfers between the queues of one server."""

    __slots__ = ("_broker", "_site")

    def __init__(self, broker: Broker, site: Site) -> None:
        self._broker = broker
        self._site = site

    def source(self, name: bytes, target: bytes, *, is_child: bool) -> AnyQueue | None:
        """Return the queue that items leave, if they may go to `target`; None: there is none.

        `is_child`: the target's name is that of a fan-out child. Raise Refused.
        """
        word = target.decode("ascii")
        if is_child and target != name:
            raise ClientError("items are moved to a queue, and this is a fan-out child of one")
        if target in self._broker.aliases:
            raise ClientError(f"items are moved to a queue, and {word} is an alias")
        check_changes(self._site.mode, "moves")
        queue = self._broker.queues.get(name)
        if queue is not None and queue.log.failure is not None:
            queue.raise_failed()
        return queue

    def move(self, queue: AnyQueue, target: bytes, count: int, owner: object) -> TransferRequest:
        """Begin to move the next `count` ready items; `owner` is woken when it is over."""
        return self._begin(TransferRequest(queue, target, None, count, owner=owner))

    def redrive(
        self, queue: AnyQueue, target: bytes, ids: Iterable[int], owner: object
    ) -> TransferRequest:
        """Begin to move these dead letters to another queue; `owner` is woken when it is over."""
        return self._begin(TransferRequest(queue, target, deque(ids), owner=owner))

    def _begin(self, request: TransferRequest) -> TransferRequest:
        self._broker.moves.request(request)
        return request

    @staticmethod
    def outcome(request: TransferRequest) -> int:
        """Return the number of items that a request which is over has moved: they are on disk on
        both sides. Raise Refused if the first was refused."""
        assert request.is_over
        if request.refusal and not request.moved:
            raise request.refused or ServerError(request.refusal)
        return request.moved
