"""The thread that renews the lease of a worker's item.

`lease_times` says when, and what.

One rule: the thread has a connection of its own, so that it never waits for another answer. There
is no thread and no connection while work takes less than half a lease.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from typing import Final

from pymemcache.exceptions import MemcacheError

from kestrelpy.client.connection import ANSWER_SECONDS, CONNECT_SECONDS, BlockingConnection, reason
from kestrelpy.client.item import ItemState, WorkerItem
from kestrelpy.client.lease_times import TOO_LONG, WENT_BACK, LeaseTimes, Step
from kestrelpy.wire.dial import NOBODY, Access, Address

log = logging.getLogger("kestrelpy.client")

_FAILURES: Final = (OSError, MemcacheError)


class Renewal:
    """Renews the lease of one worker's item."""

    def __init__(
        self, queue: str, server: Address, lease_seconds: int, limit_seconds: float | None,
        access: Access = NOBODY,
    ) -> None:  # fmt: skip
        self._queue = queue
        self._lease_seconds = lease_seconds
        self._times = LeaseTimes(lease_seconds, limit_seconds)
        # After this long without an answer the request is sent again on another connection.
        patience = lease_seconds / 4
        self._connection = BlockingConnection(
            server, min(patience, ANSWER_SECONDS), min(patience, CONNECT_SECONDS), access
        )
        self._item: WorkerItem | None = None
        self._running = False
        self._lock = threading.Lock()

    def watch(self, item: WorkerItem, opened_at: float) -> None:
        """Renew the lease of this item from now on; `opened_at` on the monotonic clock."""
        self._times.begin(item, opened_at)
        with self._lock:
            self._item = item
            if not self._running:
                self._running = True
                name = f"lease {self._queue}"
                threading.Thread(target=self._run, name=name, daemon=True).start()

    def unwatch(self) -> None:
        """Renew no lease: the worker has no item."""
        self._item = None

    def _run(self) -> None:
        try:
            self._watch()
        except BaseException:  # raised by a call that was registered with `when_stop`
            with self._lock:
                self._running = False
                self._connection.close()  # before another thread may begin
            raise

    def _watch(self) -> None:
        # It sleeps first: while work is quick the thread seldom wakes, and lives on over items.
        left = self._times.nap_seconds
        while True:
            time.sleep(min(left, self._times.nap_seconds))
            item = self._next()
            if item is None:
                return
            now = time.monotonic()
            left = self._times.due(item) - now
            if left <= 0:
                self._act(item, now)
                left = 0.0

    def _next(self) -> WorkerItem | None:
        with self._lock:
            if self._item is None:
                self._running = False
                self._connection.close()
            return self._item

    def _act(self, item: WorkerItem, now: float) -> None:
        step = self._times.step(item, now)
        if step is Step.FORGET:
            self._forget(item)
        elif step is Step.DEFER:
            self._defer(item)
        else:
            self._renew(item, now)
            if step is Step.RENEW_AND_ASK_TO_STOP:
                item._ask_to_stop()

    def _renew(self, item: WorkerItem, now: float) -> None:
        why = WENT_BACK
        try:
            touched = self._connection.touch(
                f"{self._queue}/token={item.token}", self._lease_seconds
            )
        except _FAILURES as error:
            why = f"its lease could not be renewed: {reason(error)}"
            if self._times.may_try_again(item, now):
                return
            touched = False
        if touched:
            self._times.renewed(item, now)
        else:
            self._lose(item, why)

    def _defer(self, item: WorkerItem) -> None:
        """Give back an item that was asked to stop, before its lease ends."""
        self._lose(item, TOO_LONG)
        with contextlib.suppress(*_FAILURES):  # else its lease ends by itself
            self._connection.get(f"{self._queue}/defer/token={item.token}")

    def _lose(self, item: WorkerItem, why: str) -> None:
        self._forget(item)
        if item._end_once(ItemState.LOST):
            log.warning("%s: the leased item may be handled again: %s", self._queue, why)

    def _forget(self, item: WorkerItem) -> None:
        with self._lock:
            if self._item is item:
                self._item = None
