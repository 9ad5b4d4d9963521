"""`Worker` for asyncio: up to N items at a time, each leased by token and renewed.

    worker = AsyncWorker("jobs", items=20)
    await worker.run(handle)         `async def handle(item)`; its end confirms the item

    async for item in worker:        one at a time; the end of the body confirms the item
        await handle(item.body)

Two connections serve any number of items: a fetch waits on one, everything else is pipelined over
the other, so that a confirm never waits for the next item.

One rule: as with `Worker`, an item is confirmed with the token of its lease, so every item is
handled at least once, and twice if its worker or the server dies at a bad moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from kestrelpy.client.connection import (
    ANSWER_SECONDS,
    CONNECT_SECONDS,
    DEFAULT_SERVER,
    max_attempts_in,
    reason,
)
from kestrelpy.client.end_attempts import EndAttempts
from kestrelpy.client.item import (
    INSISTENT,
    ItemState,
    LeasedItem,
    LeaseLost,
    delay_word,
)
from kestrelpy.client.lease_times import TOO_LONG, WENT_BACK, LeaseTimes, Step
from kestrelpy.client.retry import (
    BACKOFF_SECONDS_MAX,
    BACKOFF_SECONDS_MIN,
    FAILURE_PAUSE_SECONDS_MAX,
    FAILURE_PAUSE_SECONDS_MIN,
    Backoff,
)
from kestrelpy.client.settings import (
    DEFAULT_LEASE,
    DEFAULT_RETRY_DELAY,
    DEFAULT_WAIT,
    Duration,
    parse_settings,
)
from kestrelpy.wire.answers import ReceivedItem
from kestrelpy.wire.async_connection import AsyncConnection
from kestrelpy.wire.dial import Access, Address, access_of
from kestrelpy.wire.refusals import ServerRefusal

log = logging.getLogger("kestrelpy.client")

_CLOSE_SECONDS: Final = 5.0

End = Callable[["AsyncItem", ItemState, str], Awaitable[None]]


class AsyncItem(LeasedItem):
    """One leased item of an `AsyncWorker`: a `WorkerItem` whose ends are awaited."""

    __slots__ = ("_end", "_find_number", "_number")

    def __init__(
        self, queue: str, found: ReceivedItem, end: End,
        find_number: Callable[[AsyncItem], Awaitable[int]],
    ) -> None:  # fmt: skip
        """`end` sends the request that ends the item."""
        super().__init__(queue, found)
        self._end: Final = end
        self._find_number: Final = find_number
        self._number = 0

    @property
    def number(self) -> Awaitable[int]:
        """The item's number in its queue: `await item.number`. Raises LeaseLost or OSError."""
        return self._find()

    async def confirm(self) -> None:
        """End the item as done; return when the server has recorded it. Raises LeaseLost."""
        await self._end(self, ItemState.CONFIRMED, "close")

    async def abort(self, delay: Duration = "") -> None:
        """Give the item back for another try; this delivery counts as an attempt."""
        await self._end(self, ItemState.ABORTED, "abort" + delay_word(delay))

    async def defer(self, delay: Duration = "") -> None:
        """Give the item back without counting an attempt; with a delay, it comes after that."""
        await self._end(self, ItemState.DEFERRED, "defer" + delay_word(delay))

    async def bury(self, reason: str) -> None:
        """Make the item a dead letter: no worker can handle it. Raises LeaseLost."""
        await self._end(self, ItemState.BURIED, self._bury_words(reason))

    async def _find(self) -> int:
        if not self._number:
            self._number = await self._find_number(self)
        return self._number


class AsyncWorker:
    """Takes items from one queue, up to `items` at a time. A worker is for one event loop.

    The other settings are those of `Worker`. The calls of `when_stop` come in the event loop.
    """

    def __init__(
        self, queue: str, server: Address = DEFAULT_SERVER, *, items: int = 1,
        wait: Duration = DEFAULT_WAIT, lease: Duration = DEFAULT_LEASE,
        work_limit: Duration | None = None, retry_delay: Duration = DEFAULT_RETRY_DELAY,
        max_attempts: int | None = None, access: Access | None = None,
    ) -> None:  # fmt: skip
        """Connect to nothing yet. Raises ValueError with one sentence about a wrong setting."""
        access = access_of() if access is None else access
        settings = parse_settings(queue, wait, lease, work_limit, retry_delay, max_attempts)
        if items < 1:
            raise ValueError("items must be at least 1")
        self.queue: Final = queue
        self._settings: Final = settings
        self._slots: Final = items
        self._times: Final = LeaseTimes(settings.lease_seconds, settings.limit_seconds)
        patience = settings.wait_ms / 1000 + ANSWER_SECONDS
        self._fetching: Final = AsyncConnection(server, patience, CONNECT_SECONDS, access)
        patience = min(settings.lease_seconds / 4, ANSWER_SECONDS)
        self._ending: Final = AsyncConnection(
            server, patience, min(patience, CONNECT_SECONDS), access
        )
        self._items: Final[set[AsyncItem]] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._stopping: Final = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[AsyncItem]:
        """Yield items until `stop`, one at a time. `close` gives back an item that has no end."""
        pause = Backoff(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        try:
            while not self._stopping.is_set():
                item = await self._fetch_or_pause(pause)
                if item is None:
                    continue
                yield item
                if item._state is ItemState.LEASED:
                    await self._confirm(item)
        finally:
            await self.close()

    async def run(
        self, handle: Callable[[AsyncItem], Awaitable[object]], *,
        bury: tuple[type[Exception], ...] = (),
    ) -> None:  # fmt: skip
        """Await `handle` with each item, up to `items` at a time, until `stop`.

        As with `Worker.run`, the item is confirmed when `handle` returns, an exception named in
        `bury` makes it a dead letter, and any other gives it back, to be tried again after
        `retry_delay`. After `stop`, `run` returns when all running items have ended.
        """
        slots, running = asyncio.Semaphore(self._slots), set()
        pause = Backoff(BACKOFF_SECONDS_MIN, BACKOFF_SECONDS_MAX)
        failures = Backoff(FAILURE_PAUSE_SECONDS_MIN, FAILURE_PAUSE_SECONDS_MAX)

        async def handle_one(item: AsyncItem) -> None:
            try:
                if await self._handle(item, handle, bury):
                    failures.reset()
                else:
                    await self._sleep(failures.next_seconds())
            finally:
                slots.release()

        try:
            while not self._stopping.is_set():
                await slots.acquire()
                item = await self._fetch_or_pause(pause)
                if item is None:
                    slots.release()
                    continue
                task = asyncio.create_task(handle_one(item))
                running.add(task)
                task.add_done_callback(running.discard)
            if running:
                await asyncio.wait(running)
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self.close()

    async def fetch(self) -> AsyncItem | None:
        """Fetch an item; return None if none came within `wait`, or after `stop`.

        Raises OSError if the server cannot be reached, ServerRefusal if it refuses.
        """
        try:
            await self._fetching.connect()  # first, so that `stop` finds a wait that it can end
            if self._stopping.is_set():
                return None
            opened_at = time.monotonic()
            answer = await self._fetching.ask(f"gets {self._settings.open_key()}")
        except OSError:
            if self._stopping.is_set():
                return None
            raise
        finally:
            if self._stopping.is_set():
                self._fetching.close()  # it may be half closed
        found = answer.found()
        if found is None:
            return None
        item = AsyncItem(self.queue, found, self._end, self._find_number)
        # A lease begins with the answer, at the earliest when the request was sent.
        self._times.begin(item, max(opened_at, time.monotonic() - self._settings.lease_seconds / 8))
        self._items.add(item)
        if self._stopping.is_set():
            await item.defer()
            return None
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew_all())
        return item

    async def fail(self, item: AsyncItem, error: str) -> ItemState:
        """End an item that failed, as `run` does after an exception; return how it ended."""
        if self._settings.retry.is_last(item.attempts):
            await item.bury(error)
        else:
            words = self._settings.retry.words(item.attempts, random.random())
            await self._end(item, ItemState.ABORTED, words)
            await self._note_death(item)
        return item._state

    def stop(self) -> None:
        """Fetch no more items; in the event loop's thread, or its signal handlers."""
        self._stopping.set()
        self._fetching.end_wait()

    async def close(self) -> None:
        """Give back all leased items, and close the connections. The next fetch connects again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):  # else they come back with their leases
                for item in list(self._items):
                    if item._state is ItemState.LEASED:
                        with contextlib.suppress(OSError, ServerRefusal):
                            await item.abort()
        self._items.clear()
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        self._fetching.close()
        self._ending.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # -- fetching and handling --------------------------------------------------------------

    async def _fetch_or_pause(self, pause: Backoff) -> AsyncItem | None:
        """Fetch; after a failure that may pass, wait a moment and return None."""
        try:
            item = await self.fetch()
        except (OSError, ServerRefusal) as error:
            if isinstance(error, ServerRefusal) and not error.may_pass:
                raise
            log.warning("%s: %s; trying again", self.queue, reason(error))
            await self._sleep(pause.next_seconds())
            return None
        pause.reset()
        return item

    async def _handle(
        self, item: AsyncItem, handle: Callable[[AsyncItem], Awaitable[object]],
        bury: tuple[type[Exception], ...],
    ) -> bool:  # fmt: skip
        """Return True if the item was handled."""
        try:
            await handle(item)
        except Exception as error:  # every exception ends only this item
            text = str(error) or type(error).__name__
            with contextlib.suppress(LeaseLost):  # then it comes again
                if item._state is ItemState.LEASED:
                    await (item.bury(text) if isinstance(error, bury) else self.fail(item, text))
            log.warning("%s: %s: %s", self.queue, item._state.value, text)
            return False
        if item._state is ItemState.LEASED:
            await self._confirm(item)
        return True

    async def _confirm(self, item: AsyncItem) -> None:
        try:
            await item.confirm()
        except LeaseLost as error:
            log.warning("%s: the leased item may be handled again: %s", self.queue, error)

    async def _note_death(self, item: AsyncItem) -> None:
        """Note it if the queue's own `max_attempts` made the failed item a dead letter."""
        if item._state is not ItemState.ABORTED:
            return
        with contextlib.suppress(OSError, ServerRefusal):  # it is only a word in the log
            answer = await self._ending.ask(f"stats {self.queue}/settings")
            most = max_attempts_in(answer.check().facts, self.queue)
            if most is not None and item.attempts + 1 >= most:
                item._state = ItemState.BURIED

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    # -- leases -----------------------------------------------------------------------------

    async def _renew_all(self) -> None:
        while self._items:
            await asyncio.sleep(self._times.nap_seconds)
            now = time.monotonic()
            due = [each for each in self._items if self._times.due(each) <= now]
            acts = (self._act(each, now) for each in due)
            for error in await asyncio.gather(*acts, return_exceptions=True):
                if error is not None:  # raised by a call that was registered with `when_stop`
                    said = {"message": f"{self.queue}: a call of when_stop", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(said)

    async def _act(self, item: AsyncItem, now: float) -> None:
        step = self._times.step(item, now)
        if step is Step.FORGET:
            self._items.discard(item)
        elif step is Step.DEFER:
            self._lose(item, TOO_LONG)
            with contextlib.suppress(OSError):  # else its lease ends by itself
                await self._ending.ask(f"get {self.queue}/defer/token={item.token}")
        else:
            await self._renew(item, now)
            if step is Step.RENEW_AND_ASK_TO_STOP:
                item._ask_to_stop()

    async def _renew(self, item: AsyncItem, now: float) -> None:
        key = f"{self.queue}/token={item.token}"
        try:
            answer = await self._ending.ask(f"touch {key} {self._settings.lease_seconds}")
            if answer.check().line == b"TOUCHED":
                self._times.renewed(item, now)
            else:
                self._lose(item, WENT_BACK)
        except (OSError, ServerRefusal) as error:
            if not self._times.may_try_again(item, now):
                self._lose(item, f"its lease could not be renewed: {reason(error)}")

    def _lose(self, item: AsyncItem, why: str) -> None:
        self._items.discard(item)
        if item._end_once(ItemState.LOST):
            log.warning("%s: the leased item may be handled again: %s", self.queue, why)

    async def _end(self, item: AsyncItem, state: ItemState, words: str) -> None:
        self._items.discard(item)
        if not item._end_once(state):
            item._refuse_second_end(state)
            return  # it went back already, as intended
        try:
            await self._send_end(item, words, insistent=state in INSISTENT)
        except BaseException as error:
            item._state = ItemState.LOST
            if state in INSISTENT or not isinstance(error, LeaseLost):
                raise

    async def _send_end(self, item: AsyncItem, words: str, insistent: bool) -> None:
        """End the item's lease. Raises LeaseLost if it is over, or no answer comes in time."""
        attempts = EndAttempts(item, insistent)
        while True:
            try:
                answer = await self._ending.ask(f"get {self.queue}/{words}/token={item.token}")
                answer.check()
                return
            except (OSError, ServerRefusal) as error:
                refusal = error if isinstance(error, ServerRefusal) else None
                seconds = attempts.pause_after(
                    error, time.monotonic(), may_pass=refusal is None or refusal.may_pass,
                    is_lease_over=refusal is not None and refusal.is_lease_over,
                )  # fmt: skip
            if seconds:
                await asyncio.sleep(seconds)

    async def _find_number(self, item: AsyncItem) -> int:
        answer = await self._ending.ask(f"stats {self.queue}/token={item.token}")
        number = int(answer.check().facts.get(b"id", b"0"))
        if not number:
            raise LeaseLost(f"{self.queue}: the lease of this item is over, it went back")
        return number
