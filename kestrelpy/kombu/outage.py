"""One line for a daemon that is away, however many connections notice it.

    works ── the first error ──▶ away: a warning       ── more errors ──▶ away: no line
      ▲                                                                     │
      └───────────── the first answer: how long it was away ◀───────────────┘

One rule: a line says that something has changed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

log = logging.getLogger("kestrelpy.kombu")


class Outage:
    """What the connections of this process to one server notice; any thread may call it."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._since: float | None = None

    @classmethod
    def of(cls, server: str) -> Outage:
        """Return the one of a server: a worker of Celery has several transports."""
        return _KNOWN.setdefault(server, cls(server))

    def broke(self, error: Exception) -> None:
        """Note that a connection has failed."""
        with self._lock:
            is_first = self._since is None
            if self._since is None:
                self._since = time.monotonic()
        if is_first:
            log.warning("%s: %s; trying again until it is back", self._server, error)
        else:
            log.debug("%s: %s", self._server, error)

    def works(self) -> None:
        """Note that the daemon has answered."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            log.warning("%s is back after %.1f s", self._server, time.monotonic() - since)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()


_KNOWN: Final[dict[str, Outage]] = {}  # by server: as many as a process talks to


def _after_fork() -> None:
    """In a copy of this process no thread lets go of a lock that was held."""
    for each in _KNOWN.values():
        each._renew_lock()


os.register_at_fork(after_in_child=_after_fork)
