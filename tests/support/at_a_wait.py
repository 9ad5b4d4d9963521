"""Something happens at the nth wait of a coroutine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any


class AtAWait:
    """A coroutine; when it is suspended for the nth time, the action follows, and if that waits
    itself, the coroutine goes on only when it is over."""

    def __init__(
        self, steps: Awaitable[None], nth: int, action: Callable[[], Awaitable[None] | None]
    ) -> None:
        self.count = 0
        self._steps = steps
        self._nth = nth
        self._action = action

    def __await__(self) -> Generator[Any, Any, None]:
        steps, said = self._steps.__await__(), None
        while True:
            try:
                waits_for = next(steps) if said is None else steps.throw(said)
            except StopIteration:
                return
            self.count += 1
            said = None
            try:
                if self.count == self._nth and (more := self._action()) is not None:
                    # The task must not take the wait of the action for that of the steps.
                    blocking = getattr(waits_for, "_asyncio_future_blocking", None)
                    yield from more.__await__()
                    if blocking is not None:
                        waits_for._asyncio_future_blocking = blocking
                yield waits_for
            except BaseException as error:
                said = error
