"""All slices of a data directory, each a process of this machine.

    SliceSet ──starts──▶ SliceProcess 1 ... SliceProcess 4
       └──connects to──▶ the socket of the one that a client asks

The data directory is locked from the start on, so `fleet reslice` cannot move queues between the
look at it and the locks of the slices.

One rule: a slice that does not serve now is waited for, but not for ever.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Final

from journal.engine import Member
from journal.errors import JournalError
from journal.files import Disk, Files, Lock
from kestrelpy.config import Config
from kestrelpy.errors import SliceAway
from kestrelpy.fleet import FleetFacts, SliceFacts, TakeoverFacts, make_slice_folders
from kestrelpy.server.connections import Trunk
from kestrelpy.server.daemon import StartError
from kestrelpy.server.exposure import why_of_other_slices
from kestrelpy.server.reloading import in_time
from kestrelpy.server.slices.slice_process import SliceProcess

# How long a request waits for a slice whose process has ended: that long a start takes.
PATIENCE_SECONDS: Final = 5.0
RETRY_SECONDS: Final = 0.05
Make = Callable[[], asyncio.BaseProtocol]


class SliceSet:
    """The slices of a data directory. `end` ends the router, for a reason."""

    def __init__(
        self, config: Config, config_file: Path | None, sockets: Path, end: Callable[[str], None]
    ) -> None:
        """`sockets` is a folder for their Unix sockets."""
        self._config, self._config_file, self._sockets = config, config_file, sockets
        self._end = end
        self._loop = asyncio.get_running_loop()
        self._wakes: set[asyncio.Future[None]] = set()  # those who wait for a change
        self._runs: set[asyncio.Task[None]] = set()
        self._why = ""  # it cannot start
        self._lock: Lock | None = None  # of the data directory, which `fleet reslice` takes as well
        self.processes: dict[int, SliceProcess] = {}
        self._trunks: dict[int, Trunk] = {}  # the connections that have the clients' channels
        self._connecting: dict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def status(self) -> str:
        """One line on them, for the operator."""
        return f"{len(self.processes)} slices"

    @property
    def place(self) -> str:
        """Where the data is."""
        return str(self._config.server.data_dir)

    @property
    def own(self) -> list[int]:
        """The slices that this process serves now."""
        return [number for number, each in self.processes.items() if each.is_serving]

    async def start(self) -> None:
        """Start all, and return when they serve; raise StartError."""
        data_dir, slices = self._config.server.data_dir, self._config.fleet.slices
        try:
            self._lock = await in_time(partial(_lock, data_dir))
            if why := await in_time(partial(why_of_other_slices, self._config)):
                raise StartError(f"[server] data_dir {data_dir}: {why}")
            folders = await in_time(partial(make_slice_folders, Disk(), data_dir, slices))
        except (JournalError, OSError) as error:
            raise StartError(str(error)) from error
        for number, folder in enumerate(folders, 1):
            self._run(number, folder)
        serves = attrgetter("is_serving")
        await self._until(lambda: self._why or all(map(serves, self.processes.values())))
        if self._why:
            raise StartError(self._why)

    def _run(self, number: int, folder: Path, is_in_fleet: bool = False) -> SliceProcess:
        """Start the process of a slice."""
        made = self.processes[number] = SliceProcess(
            number, self._config.fleet, folder, self._sockets, self._config_file, self._note,
            is_in_fleet, has_http=self._config.server.http_port is not None,
        )  # fmt: skip
        task = self._loop.create_task(made.run())
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        return made

    async def connect(self, number: int, make: Make) -> Member | None:
        """Connect to a slice, once it serves; return the member of a fleet that has it. Raise
        SliceAway."""
        await self._connect(number, partial(self._open, number, make))
        return None

    async def _open(self, number: int, make: Make) -> None:
        """Open a channel to a slice; raise OSError."""
        async with self._connecting[number]:
            trunk = self._trunks.get(number)
            if trunk is None or not trunk.is_open:
                trunk = Trunk(
                    partial(self._trunks.__setitem__, number), partial(self._note_lost, number)
                )
                path = str(self.processes[number].channels_path)
                await self._loop.create_unix_connection(lambda: trunk, path)
        trunk.open(make)

    def _note_lost(self, number: int, trunk: Trunk) -> None:
        """Forget a connection to a slice."""
        if self._trunks.get(number) is trunk:
            del self._trunks[number]

    async def connect_http(
        self, number: int, make: Make, is_patient: bool = True
    ) -> Member | None:
        """Connect to a slice by HTTP, once it serves; return the member of a fleet that has it.
        Raise SliceAway: at once, unless `is_patient`, if it does not serve now."""
        each = self.processes[number]
        assert each.http_path is not None, "HTTP is on from the start"
        if not is_patient and not each.is_serving:
            raise SliceAway(each.status)
        connect = self._loop.create_unix_connection
        await self._connect(number, partial(connect, make, str(each.http_path)))
        return None

    def is_here(self, number: int) -> bool:
        """True if a slice serves on this machine."""
        return self.processes[number].is_serving

    def why_away(self, number: int) -> str | None:
        """Return why a slice does not serve now; None: it serves."""
        each = self.processes[number]
        return None if each.is_serving else each.status

    def member_of(self, number: int) -> str | None:
        """Return the name of the member that owns a slice; None: nobody, or there is no fleet."""
        return None

    async def fleet(self) -> FleetFacts:
        """Return the slices as they are now, and those that were started again."""
        return self.fleet_now

    @property
    def fleet_now(self) -> FleetFacts:
        """The slices as they are now, with what is known of restarts."""
        now_s, all_ = self._loop.time(), self.processes.items()
        slices = [
            SliceFacts(number, None, self.why_away(number), round((now_s - each.heard_s) * 1000))
            for number, each in sorted(all_)
        ]
        restarts = [
            TakeoverFacts(
                number, found.number, None, None, found.why, round(found.took_s * 1000),
                round(found.took_s * 1000), round((now_s - found.at_s) * 1000),
            )
            for number, each in all_ for found in each.restarts
        ]  # fmt: skip
        restarts.sort(key=lambda each: each.age_ms)
        return FleetFacts(
            slices, [], restarts, sum(each.restarts_total for _, each in all_), None
        )

    async def _connect(self, number: int, once: Callable[[], Awaitable[object]]) -> None:
        each, why = self.processes[number], ""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    await self._until(lambda: each.is_serving)
                    try:
                        await once()
                        return
                    except OSError as error:  # it ended just now, or too many connect at once
                        why = error.strerror or str(error)
                    await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise SliceAway(why or each.status) from None

    def reload(self) -> None:
        """Let each read its configuration again."""
        for each in self.processes.values():
            each.reload()

    async def stop(self) -> None:
        """End them."""
        await asyncio.gather(*(each.stop() for each in self.processes.values()))
        await asyncio.gather(*self._runs, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def interrupt(self) -> None:
        """End a wait of `start`: the router ends."""
        self._why = self._why or "it was told to end"
        self._tell()

    def _note(self) -> None:
        """Note that a slice begins to serve, or has ended."""
        for each in self.processes.values():
            if each.has_failed:
                self._why = f"slice {each.number} cannot start: {each.status}; the log says why"
                self._end(self._why)
        self._tell()

    def _tell(self) -> None:
        """Wake those who wait for a change."""
        wakes, self._wakes = self._wakes, set()
        for each in wakes:
            if not each.done():
                each.set_result(None)

    async def _until(self, is_so: Callable[[], object]) -> None:
        while not is_so():
            wake = self._loop.create_future()
            self._wakes.add(wake)
            try:
                await wake
            finally:
                self._wakes.discard(wake)


def _lock(data_dir: Path) -> Lock:
    """Lock the data directory; raise JournalError or OSError. Blocks."""
    files: Files = Disk()
    files.make_folder(str(data_dir))
    return files.lock(str(data_dir / "lock"))
