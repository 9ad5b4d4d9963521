"""The slices of a fleet: some have their process here, the others at other members.

    engine ──owners, members──▶ plan ──▶ processes for what this member owns or waits for
       ▲                                                    │
       └─────────── each claims its slice by itself ◀───────┘

A request goes to the owner of its slice, over its Unix socket or through the port of its member.

One rule: a process claims, and an owner that is asked to give a slice up ends its process. What is
decided here may be wrong or late: then a slice is served by another member than it should be.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from journal.engine import Engine, EngineAway, Member, Owner, Seat, Takeover, name_of
from kestrelpy.aside import TookTooLong, run_aside, run_aside_until
from kestrelpy.config import Config, place_of
from kestrelpy.errors import SliceAway
from kestrelpy.fleet import (
    NOTES,
    ORPHANED_AFTER,
    FleetFacts,
    attended,
    living,
    member_facts,
    namesake_age_s,
    owned,
    plan,
    silent,
    slice_facts,
    surplus,
    takeover_facts,
    why_other_layout,
)
from kestrelpy.server.daemon import StartError
from kestrelpy.server.directory import layout_of
from kestrelpy.server.slices.doors import Key, NotThere, WantedSlice, reach
from kestrelpy.server.slices.slice_process import SliceProcess
from kestrelpy.server.slices.slice_set import RETRY_SECONDS, Make, SliceSet

log = logging.getLogger("kestrelpy.router")
_T = TypeVar("_T")

_SILENT: Final = "the engine does not answer"
_LOOKS: Final = 10  # in `takeover`
_LOOK_SECONDS_MAX: Final = 0.2
# A request waits that much longer than a takeover takes at least.
PATIENCE_SECONDS: Final = 2.0
_RETRY_SECONDS_MAX: Final = 0.4  # between two attempts to connect
_REACH_SECONDS: Final = 1.0  # for a connection to another member
# How long the engine may take for an answer when this process is to end.
ENGINE_SECONDS: Final = 2.0
_ENDS_AFTER: Final = 1.0  # times `takeover`: a process that is needed again soon goes on
_UNOWNED: Final = "nobody owns it now"
# Takeovers are read again after this time, if somebody asks.
_TAKEOVERS_SECONDS: Final = 2.0
_READ_SECONDS: Final = 1.0  # those of before are told, if the engine takes longer


class Seen(NamedTuple):
    """The fleet as this member saw it last."""

    owners: dict[int, Member]
    seats: list[Seat]
    silent: set[int]  # slices that nobody serves
    claims: Mapping[int, Owner] = MappingProxyType({})  # the last one of each slice


class MemberSlices(SliceSet):
    """The slices of a fleet, as one of its members sees them."""

    def __init__(
        self, config: Config, config_file: Path | None, sockets: Path, end: Callable[[str], None],
        engine: Engine, member: Member, key: Key, tls: ssl.SSLContext | None,
        say: Callable[[str], None], moved: Callable[[int, Member], None],
    ) -> None:  # fmt: skip
        """`tls` is for connections to other members, `say` tells the operator what is waited for,
        `moved` is called with a slice and its new owner."""
        super().__init__(config, config_file, sockets, end)
        self._moved = moved
        self._engine, self._member, self.key, self._say = engine, member, key, say
        self._tls = tls
        self._takeover_s = config.fleet.takeover_ms / 1000
        self._seen, self._looked_s = Seen({}, [], set()), 0.0  # and when that look began
        self._trouble = "nobody has looked yet who owns the data"
        self._noted_s, self._noted = float("-inf"), list[int]()
        self._blind_s = self._loop.time()  # until when the engine did not answer
        self._ends: dict[int, asyncio.Task[None]] = {}  # of processes that are told to end
        self._idle_s: dict[int, float] = {}  # since when a process is not needed
        self._interrupted = asyncio.Event()
        self._silent_s: dict[int, float] = {}  # since when nobody serves a slice
        self._waiting: tuple[int, ...] = ()  # slices whose process is ready to take over
        self._takeovers = list[Takeover]()  # as they were read at `_takeovers_s`
        self._takeovers_s = float("-inf")
        self._reading: asyncio.Task[None] | None = None  # reads them

    @property
    def status(self) -> str:
        """One line on them, for the operator."""
        mine = sum(each == self._member for each in self._seen.owners.values())
        return f"{self._config.fleet.slices} slices, {mine} of them here"

    async def start(self) -> None:
        """Return when the engine answers; raise StartError if its layout is another one."""
        layout = layout_of(self._config)
        while not self._why:
            try:
                found = await self._asked(partial(self._engine.agree, layout))
            except TookTooLong:
                break
            except EngineAway as error:
                trouble = f"{_SILENT}: {error.strerror or error}"
                if trouble != self._trouble:
                    self._trouble = trouble
                    self._say(trouble)
                await self._pause()
                continue
            if why := why_other_layout(found, layout):
                raise StartError(why)
            await self._refuse_namesake()
            await self._look()
            self.start_task(self._attend()).add_done_callback(self._note_end)
            return
        raise StartError(self._why)

    async def _refuse_namesake(self) -> None:
        """Raise StartError if another member with this name and address runs: it says so while
        this one says nothing yet. One that was killed just now is silent."""
        before_s = float("inf")
        while not self._why:
            with contextlib.suppress(EngineAway, TookTooLong):
                seats = await self._asked(self._engine.members)
                age_s = namesake_age_s(seats, self._member)
                if age_s is None:
                    return
                if age_s < before_s < float("inf"):
                    raise StartError(
                        f"another member is {self._member.name} at {self._member.address}: give "
                        "each a name and an address of its own in [fleet]"
                    )
                before_s = age_s
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(min(self._takeover_s / _LOOKS, _LOOK_SECONDS_MAX))

    async def _attend(self) -> None:
        """Look again and again, and start and end processes as the plan says, until the end."""
        while not self._why:
            await self._look()
            settled_s = self._blind_s + self._takeover_s / NOTES  # all members have said so by then
            if self._loop.time() >= settled_s and not self._why:
                self._follow_plan()
            await self._pause()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """End this process if it attends to nothing any more: another member can take over."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.critical("the member ended because of a bug", exc_info=error)
            self._end("a bug")

    async def _look(self) -> None:
        try:
            began_s = self._loop.time()
            self._waiting = tuple(
                number for number, each in self.processes.items() if each.is_ready(began_s)
            )
            seen = await self._asked(self._ask)
        except TookTooLong:
            self._note_trouble(_SILENT)
        except EngineAway as error:
            self._note_trouble(f"{_SILENT}: {error.strerror or error}")
            self._blind_s = self._loop.time()
        else:
            self._note_trouble("")
            before, self._seen, self._looked_s = self._seen.owners, seen, began_s
            for number in seen.owners:
                owner = self._owner_of(number)
                if owner is not None and owner != before.get(number):
                    self._moved(number, owner)
        self._tell()

    def _note_trouble(self, trouble: str) -> None:
        """Say in the log, once, that the engine does not answer, and when it does again."""
        before, self._trouble = self._trouble, trouble
        if trouble != before and (trouble or before.startswith(_SILENT)):
            log.warning("%s", trouble or "the engine answers again")

    async def _asked(self, work: Callable[[], _T]) -> _T:
        """Return what the engine answers; raise TookTooLong if it is silent at the end of this
        process."""
        return await run_aside_until(work, self._interrupted, ENGINE_SECONDS)

    def _owner_of(self, number: int) -> Member | None:
        """Return who has a slice, as far as is known: a process here may have claimed it since the
        last look, or be asleep while another member has it."""
        process = self.processes.get(number)
        if process is not None and process.is_serving and process.began_s >= self._looked_s:
            return self._member
        return self._seen.owners.get(number)

    def _ask(self) -> Seen:
        """Say that this member is there, and return who owns what. Blocks."""
        now_s, waits = self._loop.time(), sorted(self._waiting)
        if now_s - self._noted_s >= self._takeover_s / NOTES or waits != self._noted:
            self._engine.note(self._member, self._takeover_s, waits)
            self._noted_s, self._noted = now_s, waits
        owners, slices = self._engine.owners(), self._config.fleet.slices
        found = silent(slices, owners, self._takeover_s)
        return Seen(owned(owners), self._engine.members(), found, owners)

    def _follow_plan(self) -> None:
        owners, seats = self._seen.owners, self._seen.seats
        here, now_s = living(seats), self._loop.time()
        places = plan(self._config.fleet.slices, owners, here)
        orphans = self._orphans(now_s)
        wanted = attended(places, self._member) | (orphans if self._member in here else set())
        for number in wanted - self.processes.keys():
            try:
                self._run(number, self._config.server.data_dir, is_in_fleet=True)
            except OSError as error:  # no descriptor is left, for instance: it is tried again
                log.error("slice %d: no process for it: %s", number, error.strerror)
        for number in self._idle_s.keys() & wanted:
            del self._idle_s[number]
        for number in self.processes.keys() - wanted:
            since_s = self._idle_s.setdefault(number, now_s)
            if now_s - since_s >= self._takeover_s * _ENDS_AFTER:
                self._let_end(number, "another member waits for it")
        given = [n for n in surplus(places, self._member, seats) if n in self.processes]
        if given and not self._ends:  # one at a time
            self._let_end(given[0], "given up to another member")

    def _orphans(self, now_s: float) -> set[int]:
        """Return the slices that nobody has served for long: the member that should take them over
        cannot, so each one tries."""
        since_s, silent_now = self._silent_s, self._seen.silent
        self._silent_s = {number: since_s.get(number, now_s) for number in silent_now}
        long_s = self._takeover_s * ORPHANED_AFTER
        return {number for number, each in self._silent_s.items() if now_s - each >= long_s}

    def _let_end(self, number: int, why: str) -> None:
        if number in self._ends:
            return
        log.info("slice %d: %s", number, why)
        task = self._ends[number] = self._loop.create_task(self._end_one(self.processes[number]))
        task.add_done_callback(lambda _: self._ends.pop(number, None))

    async def _end_one(self, process: SliceProcess) -> None:
        await process.stop()
        if self.processes.get(process.number) is process:
            del self.processes[process.number]
            self._idle_s.pop(process.number, None)

    def trust(self, tls: ssl.SSLContext | None) -> None:
        """Connect to other members so from now on: a reload has renewed the certificate."""
        self._tls = tls

    @property
    def own(self) -> list[int]:
        """The slices that this member serves now, as far as is known."""
        serving = super().own
        return [each for each in serving if self._owner_of(each) in (None, self._member)]

    @property
    def place(self) -> str:
        """Where the data is."""
        return name_of(self._config.fleet.engine or "")

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a task."""
        task = self._loop.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        return task

    @property
    def has_http(self) -> bool:
        """True if the slices here speak HTTP."""
        return self._config.server.http_port is not None

    def socket_of(self, wanted: WantedSlice) -> Path | None:
        """Return the socket of a slice that serves here; None: it does not."""
        process = self.processes.get(wanted.number)
        if process is None or not process.is_serving:
            return None
        return process.http_path if wanted.is_http else process.socket_path

    def is_here(self, number: int) -> bool:
        """True if a slice serves on this machine, and no other member has taken it over."""
        is_serving = self.socket_of(WantedSlice(number)) is not None
        return is_serving and self._owner_of(number) in (None, self._member)

    def why_away(self, number: int) -> str | None:
        """Return why a slice does not serve now, as far as is known; None: it serves."""
        if self.is_here(number):
            return None
        owner = self._owner_of(number)
        if owner is None:
            return self._trouble or _UNOWNED
        if owner == self._member or number in self._seen.silent:
            return _not_served(owner)
        return None

    def member_of(self, number: int) -> str | None:
        """Return the name of the member that owns a slice, as far as is known; None: nobody."""
        owner = self._owner_of(number)
        return None if owner is None else owner.name

    async def fleet(self) -> FleetFacts:
        """Return the fleet as it is now; its takeovers are those of before if the engine does not
        answer."""
        now_s = self._loop.time()
        is_fresh = now_s - self._takeovers_s < _TAKEOVERS_SECONDS or self._interrupted.is_set()
        if self._reading is None and not self._trouble and not is_fresh:
            self._reading = self.start_task(self._read_takeovers())
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_READ_SECONDS)
        return self.fleet_now

    async def _read_takeovers(self) -> None:
        try:
            began_s = self._loop.time()
            with contextlib.suppress(EngineAway, TookTooLong):
                self._takeovers = await self._asked(self._engine.takeovers)
                self._takeovers_s = began_s
        finally:
            self._reading = None

    @property
    def fleet_now(self) -> FleetFacts:
        """The fleet as it is now, as far as is known."""
        slices, seen, now_s = self._config.fleet.slices, self._seen, self._loop.time()
        since_s = now_s - self._looked_s
        return FleetFacts(
            slice_facts(slices, seen.claims, self._owner_of, self.why_away, since_s),
            member_facts(slices, seen.claims, seen.seats, since_s),
            takeover_facts(self._takeovers, now_s - self._takeovers_s),
            sum(each.epoch for each in seen.claims.values()), self._trouble or None,
        )

    async def connect(self, number: int, make: Make) -> Member | None:
        """Connect to the owner of a slice, once there is one, and return it; raise SliceAway."""
        return await self._connect_to_owner(WantedSlice(number), make)

    async def connect_http(
        self, number: int, make: Make, is_patient: bool = True
    ) -> Member | None:
        """Connect to the owner of a slice by HTTP, and return it. Raise SliceAway: after one
        attempt, unless `is_patient`."""
        return await self._connect_to_owner(WantedSlice(number, is_http=True), make, is_patient)

    async def _connect_to_owner(
        self, wanted: WantedSlice, make: Make, is_patient: bool = True
    ) -> Member | None:
        number, why, pause_s = wanted.number, "", RETRY_SECONDS
        try:
            async with asyncio.timeout(self._takeover_s + PATIENCE_SECONDS):
                while True:
                    try:
                        async with asyncio.timeout(_REACH_SECONDS):
                            owner = await self._connect_once(wanted, make)
                        now = self._owner_of(number)
                        if now is not None and now != owner:  # it moved meanwhile
                            self._loop.call_soon(self._moved, number, now)
                        return owner
                    except NotThere as error:
                        why = str(error)
                    except TimeoutError:
                        why = "its member does not answer"
                    except OSError as error:
                        why = error.strerror or str(error)
                    if not is_patient:
                        raise SliceAway(self._trouble or why)
                    await asyncio.sleep(pause_s)
                    pause_s = min(pause_s * 1.5, _RETRY_SECONDS_MAX)
        except TimeoutError:
            raise SliceAway(self._trouble or why) from None

    async def _connect_once(self, wanted: WantedSlice, make: Make) -> Member:
        """Connect to the owner of a slice, and return it; raise NotThere or OSError."""
        owner, path = self._owner_of(wanted.number), self.socket_of(wanted)
        if path is not None and owner in (None, self._member):
            await self._loop.create_unix_connection(make, str(path))
            return self._member
        if owner is None:
            raise NotThere(_UNOWNED)
        place = place_of(owner.address)
        if owner == self._member or place is None:
            raise NotThere(_not_served(owner))
        try:
            await reach(place, self.key.line(wanted), make, self._tls)
        except NotThere as error:
            raise NotThere(f"{owner.name}: {error}") from None
        return owner

    def interrupt(self) -> None:
        """End a wait of `start` and for the engine: the router ends."""
        self._interrupted.set()
        super().interrupt()

    async def stop(self) -> None:
        """End the processes: others take over their slices at once."""
        self.interrupt()
        await asyncio.gather(*self._ends.values(), return_exceptions=True)
        await super().stop()
        with contextlib.suppress(TookTooLong):
            await run_aside(self._engine.close, ENGINE_SECONDS)


def _not_served(owner: Member) -> str:
    return f"{owner.name} owns it and does not serve it now"
