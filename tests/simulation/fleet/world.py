"""One run of a fleet: two members, one replicated engine, clients, troubles, and the verdict.

    members: start ─▶ standby ─▶ owner ─▶ killed, stopped for a while, told to end, cut off ─▶ start
    engine:  restarts, failovers, lost connections, cancelled waits, an emptied list, a slow standby

Real: both daemons with all that belongs to them, the engine's driver, its commits and its cache.
Replaced: the loop and the threads (`SimLoop`, `Fibers`), the sockets (`Wire`), PostgreSQL
(`Cluster`), clocks and chance (`patched`).

One rule: all that happens follows from the seed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest import mock

from journal.engine import Engine, EngineFiles, Layout, Member, cache, commits, engine_files
from journal.engine.postgres import postgres_engine
from journal.engine.postgres.watched import WatchedConnection
from journal.errors import JournalError
from journal.files import Disk, Lock
from kestrelpy import aside
from kestrelpy.config import Config
from kestrelpy.fleet import FleetMember
from kestrelpy.server.daemon import Daemon, StartError
from kestrelpy.server.directory import joining
from tests.simulation.books import Thing
from tests.simulation.clients import new_thing
from tests.simulation.fleet.clients import FLEET_KINDS
from tests.simulation.fleet.cluster import Cluster, Network, SimConnection, round_trip
from tests.simulation.fleet.fibers import Fibers, SimThreading
from tests.simulation.fleet.promises import FleetBooks
from tests.simulation.house import configuration, patched
from tests.simulation.loop import Moments, SimLoop, Threads, Timeline
from tests.simulation.requests import Request, Talk
from tests.simulation.wire import Wire

RUN_US: Final = 1_000_000  # of clients at work: many short lives find more than few long ones
TAKEOVER_MS: Final = 300
_REST_US_MAX: Final = 4_000_000
_START_US_MAX: Final = 20_000_000
_LONGEST_LEASE_US: Final = 1_500_000
_CACHE_BYTES: Final = 8 << 10
_BETWEEN_US: Final = (20_000, 200_000, 400_000, 800_000)  # two troubles
_DRAINED_MAX: Final = 20_000
_TAKEN_AT_ONCE: Final = 5
# Clocks of two machines differ by so much at most.
_RATES: Final = (0.95, 1.05)
# What a daemon logs of a journal that a takeover must never show.
_DAMAGE: Final = (": corrupt ", ": truncated ", ": foreign ", ": torn ")


@dataclass
class FleetOutcome:
    """What came of a run."""

    seed: int
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class FiberLoop(SimLoop):
    """A loop whose threads may block."""

    def __init__(self, process: SimProcess, world: FleetWorld) -> None:
        super().__init__(process.moments, world.random, world.books.complain, None)
        self.fibers = process.fibers

    def work(
        self,
        job: Callable[[], object],
        done: Callable[[object, BaseException | None], None] | None = None,
    ) -> None:
        self.jobs += 1

        def run() -> None:
            if self.is_over:
                return
            value, error = None, None
            try:
                value = job()
            except Exception as failed:
                error = failed
            if done is not None:
                told = done
                self.timeline.after(self._pause(), lambda: self.outside(told, value, error))
            self.jobs -= 1

        self.timeline.after(self._pause(), lambda: self.fibers.spawn(run))


class CacheDisk(Disk):
    """The disk with the caches. A process that is killed here lets go of no lock of the machine, so
    that none is taken."""

    def lock(self, path: str) -> Lock:
        return _NoLock()


class _NoLock:
    def check(self) -> str:
        return ""

    def close(self) -> None:
        pass


class SimProcess:
    """One process of a member, from its start to its end. A fenced owner begins anew in it."""

    def __init__(self, world: FleetWorld, name: str, config: Config) -> None:
        self.world = world
        self.name = name
        self.config = config
        self.moments = Moments(world.timeline)
        self.fibers = Fibers(self.moments, world.random, world.books.complain)
        self.network = Network(world.cluster, self.fibers, self.moments)
        self.began_us = world.timeline.us
        self.rate = world.random.uniform(*_RATES)
        self.daemon: Daemon | None = None
        self.loop: FiberLoop | None = None
        self.threads: Threads | None = None
        self.is_over = False
        self.is_ready = False
        self.wires: list[Wire] = []
        self.uncollected: list[object] = []  # nothing of a dead process is finalized during the run
        world.processes[self.moments] = self

    def clock(self) -> float:
        """Seconds by this machine's clock."""
        return self.moments.us * self.rate / 1e6

    def begin(self) -> None:
        """A daemon begins."""
        self.is_ready = False
        self.began_us = self.moments.us
        self.loop = loop = FiberLoop(self, self.world)
        self.threads = Threads(loop)
        self.uncollected += [loop, self.threads]
        loop.call_soon(lambda: self.uncollected.append(loop.create_task(self._live(loop))))

    async def _live(self, loop: FiberLoop) -> None:
        """What `Daemon.run` does; a `finally` of that would go on when a dead one is collected."""
        world = self.world
        daemon = Daemon(self.config, lambda: self.config, self._say)
        self.daemon = daemon
        self.uncollected.append(daemon)
        try:
            await daemon.start()
        except (StartError, JournalError) as error:
            world.tell(f"{self.name} does not start: {error}")
            world.count("starts failed")
            if not daemon.membership.is_fenced:
                world.books.complain(f"{self.name} does not start: {error}")
                self._end(loop)
                return
        else:
            await daemon._ending.wait()
        await daemon.stop()
        if daemon.membership.begins_again:
            world.tell(f"{self.name} owns the data no more, and begins anew")
            world.count("owners fenced")
            self._over(loop)
            self.moments.after(self.world.random.randrange(1_000, 20_000), self.begin)
        else:
            world.tell(f"{self.name} ends")
            self._end(loop)

    def _say(self, line: str) -> None:
        if line.startswith("ready"):
            self.is_ready = True
            self.world.count("takeovers")
        if line.startswith(("ready", "standby")):
            self.world.tell(f"{self.name}: {line.partition(', fdatasync')[0]}")

    def epoch(self) -> int:
        """The claim under which it answers; 0: it is a standby."""
        daemon = self.daemon
        member = daemon.membership._member if daemon is not None else None
        owned = member.files.commits if member is not None else None
        return owned.claim.epoch if owned is not None else 0

    def _over(self, loop: FiberLoop) -> None:
        loop.is_over = True
        self.is_ready = False
        wires, self.wires = self.wires, []
        for wire in wires:
            self.world.gone(wire)

    def _end(self, loop: FiberLoop) -> None:
        self._over(loop)
        self.die()

    def die(self) -> None:
        """Nothing of it goes on."""
        if self.is_over:
            return
        self.is_over = True
        self.moments.is_dead = True
        if self.loop is not None:
            self._over(self.loop)
        self.world.ended(self)


class FleetWorld:
    """One run of one seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.seed = seed
        self.random = Random(f"fleet {seed}")
        self.timeline = Timeline()
        self.story: list[str] = []
        self.counts: dict[str, int] = {}
        self.cluster = Cluster(self.timeline, Random(f"engine {seed}"), self.tell)
        self.cluster.count = self.count
        self.books = FleetBooks(lambda: self.timeline.us, self.tell, self._epoch_now)
        self.cluster.complain = self.books.complain
        self.processes: dict[Moments, SimProcess] = {}
        self.queues = ["jobs", "mail"] if self.random.random() < 0.7 else ["jobs", "mail", "logs"]
        self.taken = "logs" if self.random.random() < 0.5 else ""
        self.is_closing_time = False
        self.folder = folder
        self.configs = [self._config(name) for name in "ab"]
        self.members: list[SimProcess] = []
        self._things = 0
        self._wires = 0
        self._uncollected: list[object] = []
        self._troubles: list[str] = []

    def _config(self, name: str) -> Config:
        config = configuration(Random(f"sizes {self.seed}"), {}, {}, False)
        data_dir = self.folder / name
        data_dir.mkdir()
        server = config.server.model_copy(update={"data_dir": data_dir, "http_port": None})
        fleet = config.fleet.model_copy(update={
            "engine": "postgresql://kestrel@sim/kestrel", "name": name, "takeover_ms": TAKEOVER_MS,
        })  # fmt: skip
        return config.model_copy(update={"server": server, "fleet": fleet})

    # -- what the stand-ins ask for ---------------------------------------------------------

    @property
    def running(self) -> SimProcess:
        """The process of which something happens now."""
        assert self.timeline.running is not None
        return self.processes[self.timeline.running]

    @property
    def threads(self) -> Threads | None:
        return self.running.threads

    @property
    def steady_from_us(self) -> int:
        return self.running.began_us

    def connect_engine(self, conninfo: str, **named: Any) -> SimConnection:
        """Connect the process that asks."""
        return self.running.network.connect(conninfo, **named)

    def tell(self, text: str) -> None:
        """One line of the story."""
        self.story.append(f"{self.timeline.us / 1000:12.3f}  {text}")

    def count(self, what: str) -> None:
        """It happened."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def hear_log(self, level: int, text: str, is_mistake: bool) -> None:
        """A member wrote a line to its log."""
        self.tell(f"{self.running.name} log: {text}")
        if is_mistake:
            self.books.complain(f"a mistake of ours: {text}")
        if any(kind in text for kind in _DAMAGE):
            self.books.complain(f"damage on an engine: {text}")

    def _epoch_now(self) -> int:
        row = self.cluster.row
        return row.epoch if row is not None else 0

    # -- members ----------------------------------------------------------------------------

    def start(self, nth: int) -> None:
        """The process of this member starts."""
        if self.members and nth < len(self.members) and not self.members[nth].is_over:
            return
        process = SimProcess(self, "ab"[nth], self.configs[nth])
        if nth < len(self.members):
            self._uncollected.append(self.members[nth])
            self.members[nth] = process
        else:
            self.members.append(process)
        process.moments.after(0, process.begin)

    def ended(self, process: SimProcess) -> None:
        """A process is over: it comes again."""
        nth = self.members.index(process)
        self.timeline.after(self.random.randrange(2_000, 200_000), lambda: self.start(nth))

    def connect(self, nth: int) -> Wire | None:
        """A new connection to this member, if it listens."""
        process = self.members[nth]
        loop = process.loop
        if process.is_over or loop is None or loop.is_over:
            return None
        if loop.listener is None or not loop.listener.is_open:
            return None
        self._wires += 1
        wire = Wire(loop, self.random, self.books, self._wires)
        self.books.epoch_of[wire.number] = process.epoch
        process.wires.append(wire)
        wire.connect(loop.listener.accept)
        self._uncollected.append(wire)
        return wire

    def gone(self, wire: Wire) -> None:
        """The server of this connection is gone."""
        wire.is_closed = True
        self.books.lost(wire.talk)

    def new_thing(self, queue: str, size: int) -> Thing:
        self._things += 1
        return new_thing(self._things, queue, size)

    @property
    def owner(self) -> SimProcess | None:
        """The member that serves."""
        found = [each for each in self.members if each.is_ready and not each.is_over]
        found = [each for each in found if each.daemon and not each.daemon.closed]
        return max(found, key=lambda each: each.epoch(), default=None)

    # -- troubles ---------------------------------------------------------------------------

    def _trouble(self) -> None:
        random, cluster = self.random, self.cluster
        if self.is_closing_time:
            return
        self.timeline.after(random.choice(_BETWEEN_US), self._trouble)
        kind = random.choice(self._troubles)
        long_us = random.choice((20_000, 100_000, 400_000, 900_000))
        member = self.owner if random.random() < 0.8 else random.choice(self.members)
        if kind == "restart":
            cluster.restart_primary(random.randrange(1_000, 200_000))
        elif kind == "failover":
            cluster.fail_over(random.randrange(1_000, 300_000), random.choice((0, 0, long_us)))
        elif kind == "link":
            self.tell("primary and standby do not see each other")
            cluster.set_link(False)
            self.timeline.after(long_us, lambda: cluster.set_link(True))
        elif kind == "link, restart, failover":
            self.tell("primary and standby do not see each other")
            cluster.set_link(False)
            at = random.randrange(1_000, 30_000)
            self.timeline.after(at, lambda: cluster.restart_primary(random.randrange(100, 20_000)))
            at += random.randrange(20_000, 300_000)
            self.timeline.after(at, lambda: cluster.fail_over(random.randrange(100, 50_000), 0))
        elif kind == "cancels":
            self._for_a_while("cancels", random.choice((0.1, 0.5)), long_us)
        elif kind == "cancels, failover":
            self.tell("primary and standby do not see each other, and waits are cancelled")
            cluster.set_link(False)
            self._for_a_while("cancels", 0.7, long_us)
            at = random.randrange(1_000, 100_000)
            self.timeline.after(at, lambda: cluster.fail_over(random.randrange(100, 50_000), 0))
        elif kind == "loses":
            self._for_a_while("loses", random.choice((0.05, 0.3)), long_us)
        elif kind == "lags":
            self._for_a_while("lag_us", random.choice((5_000, 50_000, 250_000)), long_us)
        elif kind in ("names", "names, failover"):
            self.tell("the list of standbys is emptied")
            cluster.set_link(kind == "names")
            cluster.set_names("")
            self.timeline.after(long_us, lambda: cluster.set_names("n2"))
            if kind != "names":
                at = random.randrange(1_000, 100_000)
                self.timeline.after(at, lambda: cluster.fail_over(random.randrange(100, 50_000), 0))
        elif member is not None and not member.is_over:
            self._trouble_of(member, kind, long_us)

    def _for_a_while(self, name: str, value: float, long_us: int) -> None:
        self.tell(f"{name} {value} for {long_us / 1000} ms")
        setattr(self.cluster, name, value)
        self.timeline.after(long_us, lambda: setattr(self.cluster, name, 0))

    def _trouble_of(self, member: SimProcess, kind: str, long_us: int) -> None:
        self.tell(f"{member.name}: {kind}")
        if kind == "kill":
            self.count("members killed")
            member.die()
        elif kind == "end":
            if member.daemon is not None:
                self.count("members told to end")
                member.moments.after(0, partial(member.daemon.shutdown, "SIGTERM"))
        elif kind == "stop" and not member.moments.is_stopped:
            self.count("members stopped")
            member.moments.is_stopped = True
            self.timeline.after(long_us, lambda: self._wake(member))
        elif kind == "cut":
            self.count("members cut off")
            member.network.is_cut = True
            self.timeline.after(long_us, lambda: setattr(member.network, "is_cut", False))

    def _wake(self, member: SimProcess) -> None:
        if member.moments.is_stopped and not member.is_over:
            self.tell(f"{member.name} wakes")
            member.moments.wake()

    # -- the run ----------------------------------------------------------------------------

    def run(self) -> FleetOutcome:
        """All of it."""
        random = self.random
        self._troubles = troubles_of(self.seed)
        self.tell(f"troubles: {'; '.join(self._troubles)}")
        self.start(0)
        self.timeline.after(random.choice((0, 50_000)), lambda: self.start(1))
        self._until(lambda: len(self.members) == 2, _START_US_MAX)
        self._uncollected.append([kind(self, n) for n, kind in enumerate(FLEET_KINDS)])
        self.timeline.after(random.randrange(50_000, 400_000), self._trouble)
        self._run(RUN_US)
        if not self.books.violations:
            self._come_to_rest()
        if not self.books.violations:
            self._drain()
        counts = self.counts | {
            "answers": self.books.answers, "stored": self.books.stored,
            "confirmed": self.books.confirmed, "refused": self.books.refused,
        }  # fmt: skip
        return FleetOutcome(self.seed, self.books.violations, self.story, counts)

    def close(self) -> None:
        """Let go of every thread of the run."""
        for process in self.processes.values():
            process.moments.is_dead = True
            for loop in process.uncollected:
                if isinstance(loop, SimLoop):
                    loop.is_over = loop.is_mute = True
                    loop.close_unbegun()
        for process in self.processes.values():
            self.timeline.running = process.moments
            process.fibers.end()

    def _run(self, us: int) -> None:
        until_us = self.timeline.us + us
        while self.timeline.us < until_us and not self.books.violations:
            self.timeline.run_until(min(until_us, self.timeline.us + 50_000))

    def _until(self, true: Callable[[], object], within_us: int) -> bool:
        end = self.timeline.us + within_us
        while not true() and self.timeline.us < end and not self.books.violations:
            self.timeline.run_until(min(end, self.timeline.us + 10_000))
        return bool(true())

    def _come_to_rest(self) -> None:
        """Nothing fails any more, and nobody asks: all is answered."""
        self.is_closing_time = True
        self.tell("nothing fails any more")
        cluster = self.cluster
        cluster.loses = cluster.cancels = 0.0
        cluster.lag_us = 0
        cluster.set_names("n2")
        cluster.set_link(True)
        for member in self.members:
            member.network.is_cut = False
            self._wake(member)
        self._until(lambda: not self._unanswered(), _REST_US_MAX)
        for talk in self._unanswered():
            self.books.complain(f"connection {talk.number}: no answer to {talk.asked[0]}")
        if not self._until(lambda: self.owner, _START_US_MAX):
            self.books.complain("nobody owns the data")

    def _unanswered(self) -> list[Talk]:
        return [talk for talk in self.books.talks if talk.asked and not talk.is_over]

    def _drain(self) -> None:
        """Take all that is there, from one owner and then from the other."""
        for talk in list(self.books.talks):
            for process in self.members:
                for wire in process.wires:
                    if wire.talk is talk:
                        wire.hang_up()
        self._run(_LONGEST_LEASE_US + 200_000)
        self._take(_DRAINED_MAX if self.random.random() < 0.5 else 20)
        owner = self.owner
        if owner is not None and owner.daemon is not None:
            self.tell(f"{owner.name}: SIGTERM")
            owner.moments.after(0, partial(owner.daemon.shutdown, "SIGTERM"))
            self._until(lambda: owner.is_over, _START_US_MAX)
        self._take(_DRAINED_MAX)
        if not self.books.violations:
            self.books.wrong_at_the_end()

    def _take(self, most: int) -> None:
        if not self._until(lambda: self.owner, _START_US_MAX):
            self.books.complain("nobody owns the data")
            return
        owner = self.owner
        assert owner is not None
        wire = self.connect(self.members.index(owner))
        assert wire is not None
        for queue in self.queues:
            nothing = taken = 0
            while nothing < 2 and taken < most and not self.books.violations:
                count = 1 if nothing else min(_TAKEN_AT_ONCE, most - taken)
                gets = [Request("get", queue) for _ in range(count)]
                wire.send(gets)
                if not self._until(lambda: gets[-1].reply, _START_US_MAX):  # noqa: B023
                    self.books.complain(f"no answer to {gets[-1]} at rest")
                    return
                taken += len(gets)
                nothing += any(get.reply and get.reply.word != "VALUE" for get in gets)
        wire.hang_up()
        self._run(20_000)


_TROUBLES: Final = (
    "kill", "kill", "end", "stop", "stop", "cut", "restart", "failover", "link",
    "link, restart, failover", "cancels", "cancels, failover", "loses", "lags", "names",
    "names, failover",
)  # fmt: skip


def troubles_of(seed: int) -> list[str]:
    """Return the kinds of trouble in the run of this seed."""
    random = Random(f"troubles {seed}")
    return random.sample(_TROUBLES, random.randint(1, 3))


@contextlib.contextmanager
def _replaced(world: FleetWorld) -> Iterator[None]:
    """Put the run in the place of threads, clocks and the engine."""
    threads = SimThreading(lambda: world.running.fibers)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patched(world))
        for where, name, stand_in in (
            (commits, "threading", threads),
            (cache, "threading", threads),
            (engine_files, "threading", threads),
            (postgres_engine, "threading", threads),
            (postgres_engine, "round_trip", round_trip),
            (aside, "threading", threads),
            (WatchedConnection, "connect", world.connect_engine),
            (joining, "FleetMember", partial(_member, world)),
            (joining, "CACHE_BYTES", _CACHE_BYTES),
            (joining, "Disk", CacheDisk),
        ):
            stack.enter_context(mock.patch.object(where, name, stand_in))
        yield


def _member(
    world: FleetWorld, engine: Engine, files: EngineFiles, member: Member, takeover_s: float,
    number: int, layout: Layout,
) -> FleetMember:  # fmt: skip
    clock = world.running.clock
    return FleetMember(
        engine, files, member, takeover_s, clock, unix_time=clock, number=number, layout=layout
    )


def run_fleet(seed: int) -> FleetOutcome:
    """Return what came of the run of this seed."""
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = Path(tempfile.mkdtemp(prefix="kestrelpy-fleet-", dir=where))
    try:
        world = FleetWorld(seed, folder)
        with _replaced(world):
            try:
                return world.run()
            finally:
                world.close()
    finally:
        _close_files(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _close_files(folder: Path) -> None:
    """Close the files of the run: a process that was killed in it has closed none."""
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of this list is closed
            if os.readlink(f"/proc/self/fd/{number}").startswith(f"{folder}/"):
                os.close(int(number))
