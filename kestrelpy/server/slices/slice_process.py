"""The process of one slice: started, watched, started again when it ended by itself.

    start ──READY=1──▶ serves ──ends──▶ a pause ──▶ start
                          └── SIGTERM by the router ──▶ ended

It is an ordinary daemon: its folder is in the data directory, it listens on a Unix socket that only
this user can reach, and says by NOTIFY_SOCKET when it serves.

One rule: a slice that does not serve is named with the reason; the others go on.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kestrelpy.config import FleetConfig
from kestrelpy.server.mail import BEAT_SECONDS, Pulse
from kestrelpy.server.supervisor import SLICE_CHANNELS, SLICE_HTTP

log = logging.getLogger("kestrelpy.router")

PAUSE_SECONDS: Final = 1.0
# After this silence a process is not ready to take its slice over: it hangs.
SILENT_SECONDS: Final = 5 * BEAT_SECONDS
STOP_SECONDS: Final = 40.0  # more than a daemon takes to drain and to close its journals
_NOTE_BYTES_MAX: Final = 4096
PARENT: Final = "SLICE_PARENT"  # the variable with the router's process id
MAIL_NAME: Final = "mail"
MAIL: Final = "SLICE_MAIL"  # the variable with the router's socket for its slices
RESTARTS_KEPT: Final = 20
_READY: Final = b"READY=1"
_STOPPING: Final = b"STOPPING=1"
_STATUS: Final = b"STATUS="
_STANDBY: Final = "standby of "
_HINDERED: Final = ("standby: the engine", "standby: its cache")


class Restart(NamedTuple):
    """A process that serves again after it had ended, for the `number`th time: how it ended, when
    it serves again by the loop's clock, and how long nobody served."""

    number: int
    why: str
    at_s: float
    took_s: float


class SliceProcess:
    """One slice. `sockets` is a folder for its Unix sockets, whose path is short."""

    def __init__(
        self, number: int, fleet: FleetConfig, folder: Path, sockets: Path,
        config_file: Path | None, note: Callable[[], None], is_in_fleet: bool = False,
        has_http: bool = False,
    ) -> None:  # fmt: skip
        """`fleet` places the queues, until the router ends. `note` is called when it begins to
        serve, and when it ends. `is_in_fleet`: it may wait as a standby, and is started again
        whatever it ends of. `has_http`: it speaks HTTP as well, on a socket of its own."""
        self.number: Final = number
        self._fleet = fleet
        self.socket_path: Final = sockets / f"{number}"
        self.http_path: Final = sockets / f"{number}.http" if has_http else None
        # A member of a fleet checks each write by itself: its answers do not wait for others.
        self.channels_path: Final = None if is_in_fleet else sockets / f"{number}.many"
        self._mail_path = sockets / MAIL_NAME
        self.status = "it has not started yet"
        self.is_serving = False
        self.heard_s = asyncio.get_running_loop().time()  # when it gave its last sign of life
        self._pulse = Pulse(self.heard_s)
        self.began_s = 0.0  # when it began to serve last
        self.has_served = self.has_failed = False  # once; `has_failed`: it never could start
        self.restarts: deque[Restart] = deque(maxlen=RESTARTS_KEPT)  # the last ones
        self.restarts_total = 0
        self._ended: tuple[str, float] | None = None  # how and when it ended, since it served
        self._note, self._is_in_fleet = note, is_in_fleet
        self._folder = folder
        self._words = [sys.executable, "-m", "kestrelpy", "serve"]
        self._words += ["--config", str(config_file)] if config_file is not None else []
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = False
        self._is_over = asyncio.Event()  # set when `run` has returned
        self._is_reload_due = False  # True if it is told to reload once it serves
        self._notes = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._notes.setblocking(False)
        self._notes_path = sockets / f"{number}.notes"
        self._notes.bind(str(self._notes_path))

    def is_ready(self, now_s: float) -> bool:
        """True if it is ready to take the slice over: it waits for that, and does not hang."""
        return self._pulse.silent_s(now_s) < SILENT_SECONDS and self.status.startswith(_STANDBY)

    async def run(self) -> None:
        """Start it, and again whenever it ends by itself; return when it was stopped, or if it
        cannot start at all."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._notes.fileno(), self._hear)
        try:
            while not self._is_stopping:
                await self._live()
                if self._is_stopping:
                    return
                if not self.has_served and not self._is_in_fleet:
                    self.has_failed = True
                    self._note()
                    return
                log.error("slice %d %s: it is started again", self.number, self.status)
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            loop.remove_reader(self._notes.fileno())
            self._notes.close()
            self._notes_path.unlink(missing_ok=True)  # the slice may have a process here again
            self._is_over.set()

    async def _live(self) -> None:
        """Run the process once."""
        self._is_reload_due = False  # it reads the configuration now
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._words, env=self._environment(os.environ), stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
            )
        except OSError as error:
            self.status = f"cannot be started: {error.strerror}"
            return
        if self._is_stopping:
            self._process.terminate()
        code = await self._process.wait()
        self.is_serving = False
        self.status = f"ended with code {code}"
        if self._ended is None and self.has_served:
            self._ended = self.status, asyncio.get_running_loop().time()
        self._note()

    def _environment(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Return the variables of its process: what differs from the settings of the router."""
        return dict(environ) | {
            "KESTRELPY_FLEET_SLICE": str(self.number),
            # The file may have others by now, for the next start of the router.
            "KESTRELPY_FLEET_SLICES": str(self._fleet.slices),
            "KESTRELPY_FLEET_GROUPS": " ".join(self._fleet.groups),
            **(self._seat() if self._is_in_fleet else {}),
            "KESTRELPY_SERVER_DATA_DIR": str(self._folder),
            "KESTRELPY_SERVER_SOCKET": str(self.socket_path),
            "KESTRELPY_SERVER_PORT": "off",
            "KESTRELPY_SERVER_TEXT_PORT": "off",
            "KESTRELPY_SERVER_HTTP_PORT": "off",
            SLICE_HTTP: "" if self.http_path is None else str(self.http_path),
            SLICE_CHANNELS: "" if self.channels_path is None else str(self.channels_path),
            "NOTIFY_SOCKET": str(self._notes_path),
            "WATCHDOG_USEC": f"{2 * BEAT_SECONDS * 1e6:.0f}",  # a beat comes twice in this time
            PARENT: str(os.getpid()),
            MAIL: str(self._mail_path),
        }

    def _seat(self) -> dict[str, str]:
        """Return the variables of the member and of the engine whose slice this is."""
        fleet = self._fleet
        return {
            "KESTRELPY_FLEET_ENGINE": fleet.engine or "none",
            "KESTRELPY_FLEET_SINGLE": str(fleet.single).lower(),
            "KESTRELPY_FLEET_NAME": fleet.name or "none",
            "KESTRELPY_FLEET_ADDRESS": fleet.address or "none",
            "KESTRELPY_FLEET_TAKEOVER": f"{fleet.takeover_ms}ms",
        }

    def _hear(self) -> None:
        """Take a note of the process: it serves, or says what it does."""
        try:
            lines = self._notes.recv(_NOTE_BYTES_MAX).split(b"\n")
        except BlockingIOError:
            return
        self.heard_s = asyncio.get_running_loop().time()
        self._pulse.beat(self.heard_s)
        for line in lines:
            if line.startswith(_STATUS):
                self._note_status(line.removeprefix(_STATUS).decode("utf-8", "replace"))
        is_alive = self._process is not None and self._process.returncode is None
        if _STOPPING in lines and self.is_serving:  # it ends, or becomes a standby
            self.is_serving = False
            self._note()
        if _READY in lines and is_alive and not self.is_serving:
            self.is_serving = self.has_served = True
            self.began_s = asyncio.get_running_loop().time()
            self._note_restart(self.began_s)
            if self._is_reload_due:
                self.reload()
            self._note()

    def _note_restart(self, now_s: float) -> None:
        """Remember, if it had ended, that it serves again."""
        ended, self._ended = self._ended, None
        if ended is not None:
            self.restarts_total += 1
            took_s = now_s - ended[1]
            self.restarts.append(Restart(self.restarts_total, ended[0], now_s, took_s))

    def _note_status(self, status: str) -> None:
        """Keep what the process says of itself; say in the log, once, what keeps it from waiting
        for its slice."""
        if status != self.status and status.startswith(_HINDERED):
            log.warning("slice %d: %s", self.number, status)
        self.status = status

    def reload(self) -> None:
        """Let it read its configuration again, once it serves: until then SIGHUP would end it."""
        self._is_reload_due = not self.is_serving
        if self.is_serving and self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """End it cleanly; kill it if that takes too long. Another one can have its place then."""
        self._is_stopping = True
        process = self._process
        if process is not None and process.returncode is None:
            await self._end(process)
        await self._is_over.wait()

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            log.error("slice %d did not end in %.0f s: killed", self.number, STOP_SECONDS)
            process.kill()
