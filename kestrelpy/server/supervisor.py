"""The process that started the daemon, such as systemd: its sockets and its notifications.

    NOTIFY_SOCKET   datagrams: READY=1, RELOADING=1, STOPPING=1, STATUS=...; longer time at start
    WATCHDOG_USEC   WATCHDOG=1 twice in this time, from the loop that serves the clients
    LISTEN_FDS      listening sockets, from descriptor 3 on: they outlive the daemon, so that
                    connections wait through a restart; LISTEN_FDNAMES: their names
    SLICE_HTTP      the Unix socket where the router of this slice speaks HTTP
    SLICE_CHANNELS  the one where its clients are channels of one connection

One rule: without these variables nothing happens, and no failure to notify stops the daemon.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import MutableMapping
from typing import Final

log = logging.getLogger("kestrelpy")

FIRST_DESCRIPTOR: Final = 3
SLICE_HTTP: Final = "SLICE_HTTP"
SLICE_CHANNELS: Final = "SLICE_CHANNELS"
# Each note of a start asks for this much time; the next note comes in half of it.
START_USEC: Final = 60_000_000


class BadInheritance(Exception):
    """A descriptor that was handed over is no listening socket; the text is one sentence."""


class Supervisor:
    """Takes its variables out of `environ`, so that no child process takes them for its own."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        path = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        watchdog = environ.pop("WATCHDOG_USEC", "")
        meant = environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._watchdog_usec = int(watchdog) if meant and watchdog.isdecimal() else 0
        meant = environ.pop("LISTEN_PID", "") == str(os.getpid())
        count = environ.pop("LISTEN_FDS", "")
        self.slice_http = environ.pop(SLICE_HTTP, "")
        self.slice_channels = environ.pop(SLICE_CHANNELS, "")
        self._names = environ.pop("LISTEN_FDNAMES", "").split(":")
        self._inherited = int(count) if meant and count.isdecimal() else 0
        self._handed: list[tuple[str, socket.socket]] = []
        self._has_failed = False

    def sockets(self) -> list[tuple[str, socket.socket]]:
        """Return copies of the sockets that were handed over, each with its name; raise
        BadInheritance. An owner that becomes a standby listens on them again."""
        last, self._inherited = FIRST_DESCRIPTOR + self._inherited, 0
        self._handed += [
            (self._name(descriptor), self._socket(descriptor))
            for descriptor in range(FIRST_DESCRIPTOR, last)
        ]
        return [(name, each.dup()) for name, each in self._handed]

    def ready(self, status: str) -> None:
        """The daemon serves, after a start or a reload."""
        self._tell("READY=1", f"STATUS={status}")

    def waits(self, status: str) -> None:
        """The daemon is a standby: it is there, and does not serve."""
        self._tell(f"STATUS={status}")

    def reloading(self) -> None:
        """A reload has begun; `ready` ends it."""
        usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._tell("RELOADING=1", f"MONOTONIC_USEC={usec}")

    def stopping(self) -> None:
        """The daemon ends."""
        self._tell("STOPPING=1", "STATUS=stopping")

    async def prolong_start(self) -> None:
        """Ask for more time while the start goes on, until cancelled."""
        while self._address:
            self._tell(f"EXTEND_TIMEOUT_USEC={START_USEC}", "STATUS=starting")
            await asyncio.sleep(START_USEC / 2_000_000)

    async def keep_alive(self) -> None:
        """Tell the watchdog that the loop turns, until cancelled."""
        while self._address and self._watchdog_usec:
            self._tell("WATCHDOG=1")
            await asyncio.sleep(self._watchdog_usec / 2_000_000)

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), self._address)
        except (OSError, ValueError) as error:
            if not self._has_failed:
                self._has_failed = True
                log.warning("NOTIFY_SOCKET %s: %s", self._address.replace("\0", "@"), error)
        else:
            self._has_failed = False

    def _name(self, descriptor: int) -> str:
        number = descriptor - FIRST_DESCRIPTOR
        return self._names[number] if number < len(self._names) else ""

    def _socket(self, descriptor: int) -> socket.socket:
        name = self._name(descriptor)
        shown = f"LISTEN_FDS: descriptor {descriptor}{f' ({name})' if name else ''}"
        try:
            os.set_inheritable(descriptor, False)
            handed = socket.socket(fileno=descriptor)
        except OSError as error:
            raise BadInheritance(f"{shown}: {error.strerror}") from None
        if handed.type != socket.SOCK_STREAM or not _listens(handed):
            handed.detach()
            raise BadInheritance(
                f"{shown}: not a listening stream socket; a socket unit has ListenStream= and "
                "Accept=no"
            )
        return handed


def _listens(handed: socket.socket) -> bool:
    try:
        return bool(handed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False
