"""One run of the whole daemon: starts, clients, crashes, faults, and the verdict.

    life ─▶ crash (kill, power, now or at a verb) or clean end ─▶ life ─▶ ... ─▶ rest ─▶ drain

It stands for a daemon in production, with many clients and a bad disk.
Real: the `Daemon` with all that belongs to it.
Replaced: the loop and the threads (`SimLoop`), the sockets (`Wire`), the disk (`SimDisk`), clocks
and chance (`patched`).
At the end clients send no more requests: every request is answered and the loop sleeps. Then the
server starts once more, and the checker is compared with all that it has.

One rule: every event follows from the seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from journal.errors import JournalError
from journal.files import SHORTAGE_ERRORS
from journal.format.folder import parse_folder_name
from kestrelpy.server.daemon import Daemon, StartError
from tests.simulation.at_rest import Rest
from tests.simulation.books import Thing, unix_ms
from tests.simulation.checker import Checker
from tests.simulation.clients import KINDS, new_thing
from tests.simulation.drain import Drain
from tests.simulation.historian import Historian
from tests.simulation.house import patched
from tests.simulation.http_clients import HTTP_KINDS
from tests.simulation.http_wire import HttpWire
from tests.simulation.loop import Listener, SimLoop, Threads, Timeline
from tests.simulation.plan import Plan, has_http
from tests.simulation.ticks import wrong_with_ticks
from tests.simulation.wire import Wire
from tests.simulation.writer import Writer
from tests.support.memory_disk import Fault, MemoryDisk, PowerCut

RUN_US: Final = 900_000  # how long clients work; the rest of a run drains what they left
REST_US: Final = 8_000_000
TICKS_US: Final = 2_500_000
SLEEP_US: Final = 3_000_000
# At rest a timer may ring once a second for each of a handful of reasons, and no more.
TURNS_ASLEEP_MAX: Final = 80
_STARTS_MAX: Final = 30
_LIVES_MAX: Final = 12
_START_US_MAX: Final = 20_000_000


@dataclass
class Outcome:
    """The outcome of a run."""

    seed: int
    violations: list[str] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


class SimDisk(MemoryDisk):
    """A memory disk that reports when its power goes off, and which faults happen."""

    def __init__(self) -> None:
        super().__init__()
        self.is_off = False
        self.on_fault: Callable[[Fault, str], None] = lambda fault, path: None
        self.on_off: Callable[[], None] = lambda: None

    def struck(self, verb: str, path: str) -> Fault | None:
        try:
            fault = super().struck(verb, path)
        except PowerCut:
            self.is_off = True
            self.on_off()
            raise
        if fault is not None:
            self.on_fault(fault, path)
        return fault


class Simulation:
    """One run of one seed."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.timeline = Timeline()
        # Features added later have their own random numbers, so that older runs stay the same.
        self.plan = plan or Plan.of(self.random, Random(f"later {seed}"), has_http(seed))
        self.readers = list(self.plan.rules)  # queues and children
        self.queues = [name for name in self.readers if "+" not in name]
        self.story: list[str] = []
        self.checker = Checker(self.plan.rules, lambda: self.timeline.us, self.tell)
        self.disk = SimDisk()
        self.loop: SimLoop | None = None
        self.threads: Threads | None = None
        self.daemon: Daemon | None = None
        self.is_up = False
        self.is_closing_time = False
        self.has_ended = False
        self.starts = 0
        self.counts: dict[str, int] = {}
        self.steady_from_us = 0
        self._at_verb = ""  # the kind of the crash that is to come at a verb
        self._things = 0
        self._ids: dict[str, list[str]] = {}
        self._wires = 0
        self._dead: list[tuple[SimLoop, Daemon | None]] = []
        self._graveyard: list[object] = []  # nothing of a dead server is finalized during the run

    # -- the story --------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.timeline.us / 1000:12.3f}  {text}")

    def count(self, what: str) -> None:
        """Count an event."""
        self.counts[what] = self.counts.get(what, 0) + 1

    def hear_log(self, level: int, text: str, is_mistake: bool) -> None:
        """Take a line that the server wrote to its log."""
        if self.disk.is_off or not (self.loop and not self.loop.is_over):
            return
        self.tell(f"log: {text}")
        if is_mistake:
            self.checker.mistake(text)
        for kind in (": corrupt ", ": truncated ", ": foreign "):
            if kind in text and self.checker.was_unreadable:
                self.checker.is_damaged |= not self.is_up
            elif kind in text:
                self.checker.complain(f"damage after a mere crash: {text}")

    # -- clients ----------------------------------------------------------------------------

    def new_thing(self, queue: str, size: int) -> Thing:
        self._things += 1
        return new_thing(self._things, queue, size)

    def some_id(self, queue: str) -> str:
        """Return a new id, or one of those named last."""
        named = self._ids.setdefault(queue, [])
        if not named or self.random.random() < 0.4:
            named.append(f"{queue[0]}{len(named)}")
        return self.random.choice(named[-5:])

    def connect(self) -> Wire | None:
        """Return a new connection, if the server listens."""
        return self._connect(Wire, self.loop and self.loop.listener)

    def connect_http(self) -> Wire | None:
        """Return a new connection over HTTP, if the server listens."""
        wire = self._connect(HttpWire, self.loop and self.loop.http_side)
        if wire is not None:
            self.count("connections of HTTP")
        return wire

    def _connect(self, kind: type[Wire], listener: Listener | None) -> Wire | None:
        loop = self.loop
        if not self.is_up or loop is None or loop.is_over or listener is None:
            return None
        if not listener.is_open:
            return None
        self._wires += 1
        wire = kind(loop, self.random, self.checker, self._wires)
        wire.connect(listener.accept)
        self._graveyard.append(wire)
        return wire

    # -- lives ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server on the present files of the disk."""
        self.starts += 1
        self.has_ended = False
        self.steady_from_us = self.timeline.us
        # A start may sync a file again after a failed sync, if it writes the bytes again before
        # that. Other bytes may or may not be on the disk: a power cut decides.
        self.disk.failed_syncs.clear()
        self.loop = SimLoop(self.timeline, self.random, self.checker.complain, self._check)
        self.threads = Threads(self.loop)
        self.disk.on_fault = self._fault
        self.disk.on_off = self._mute
        self.loop.call_soon(self._begin)

    def _begin(self) -> None:
        loop = self.loop
        assert loop is not None
        self._graveyard.append(loop.create_task(self._live(loop)))

    async def _live(self, loop: SimLoop) -> None:
        try:
            daemon = Daemon(self.plan.config, lambda: self.plan.config, self._say, self.disk)
            self.daemon = daemon
            await daemon.start()
        except (StartError, JournalError) as error:
            self.tell(f"does not start: {error}")
            if not self.checker.has_faults:
                self.checker.complain(f"the server does not start: {error}")
            self.count("starts failed")
            self._over("kill", loop)
            return
        self.is_up = True
        self.count("lives")
        self.checker.begin_life()
        await daemon._ending.wait()
        self.checker.is_leaving = True
        await daemon.stop()
        self._over("clean", loop)

    def _say(self, line: str) -> None:
        if line.startswith("ready"):
            self.tell(line.partition(", fdatasync")[0])

    def _fault(self, fault: Fault, path: str) -> None:
        verb = fault.verb
        if fault.error in SHORTAGE_ERRORS:  # no write has failed, and nothing is lost
            self.count(f"shortage {verb}")
            self.tell(f"SHORTAGE {verb} {path}")
            self.checker.was_short = True
            return
        self.count(f"fault {verb}")
        self.tell(f"FAULT {verb} {path}")
        name, generation = parse_folder_name(os.path.basename(os.path.dirname(path)))
        self.checker.fault(verb, name.decode("ascii") if generation else "")
        if verb.startswith(("create", "make_folder")):
            self.checker.no_room_us = self.timeline.us

    def _mute(self) -> None:
        if self.loop is not None:
            self.loop.is_mute = True

    def _check(self) -> None:
        """Check, after each callback of the server, whether the machine is still on."""
        if self.disk.is_off and self.loop is not None and not self.loop.is_over:
            self.crash(self._at_verb or "power")

    # -- ends -------------------------------------------------------------------------------

    def crash(self, how: str) -> None:
        """Crash. kill: the page cache stays. power: bytes that were not synced may be lost, torn or
        reordered."""
        loop = self.loop
        if loop is None or loop.is_over:
            return
        when = "" if self.is_up else ", while it was starting"
        at = f" at verb {self.disk.trace[-1]}" if self.disk.is_off else ""
        self.tell(f"CRASH: {how}{at}{when}")
        self.count(f"crash {how}")
        if not self.is_up:
            self.count("crash while starting")
        self._retire()
        if how == "kill":
            self.disk = self._turn_on(self.disk.kill_clone())
        else:
            self.disk = self._turn_on(self.disk.crash_clone(self.random))
        self._over(how, loop)

    def _retire(self) -> None:
        if self.disk.retried_syncs:
            self.checker.complain(f"synced again after a sync failed: {self.disk.retried_syncs}")
        self.disk.retried_syncs = []

    def _turn_on(self, found: MemoryDisk) -> SimDisk:
        disk = SimDisk()
        disk._root = found._root
        disk.faults = [fault for fault in self.disk.faults if not fault.fired]
        return disk

    def _over(self, how: str, loop: SimLoop) -> None:
        """End this life; another one begins soon."""
        self._retire()
        loop.is_over = True
        self.is_up = False
        self._dead.append((loop, self.daemon))
        self.daemon = None
        self.checker.end_life(how)
        self.has_ended = True
        if how == "clean":
            self.tell("clean end")
            self.count("clean ends")
        self._at_verb = ""
        if not self.is_closing_time:
            self.timeline.after(self.random.randrange(1_000, 30_000), self._start_again)

    def _start_again(self) -> None:
        if self.is_closing_time or self.starts >= _LIVES_MAX:
            return
        self.plan.new_faults(self.random, self.disk, self.tell)
        self.plan.new_shortage(self.disk, self.tell)
        if self.random.random() < 0.35:
            self.arm(self.random.randrange(1, 120))
        self.start()

    def arm(self, steps: int) -> None:
        """Crash at a verb of the disk, `steps` verbs from now."""
        self._at_verb = self.random.choice(("kill", "power", "power"))
        self.disk.cut_power_at(steps)

    # -- the run ----------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Do the whole run; return its outcome."""
        with patched(self):
            self._work()
            if not self.checker.violations:
                self._come_to_rest()
            drain = Drain(self)
            if not self.checker.violations:
                drain.run()
            if self.plan.ticks and not (self.checker.violations or self.checker.was_unreadable):
                self._run(self.timeline.us + TICKS_US)  # a schedule may have begun just now
                for wrong in wrong_with_ticks(self.disk, unix_ms(self.timeline.us) // 1000):
                    self.checker.complain(wrong)
                self.count("schedules")
            if not (self.plan.ticks or self.checker.violations or self.checker.was_unreadable):
                Rest(self, drain).run()
        for loop in (*(each for each, _ in self._dead), self.loop):
            if loop is not None:
                loop.is_mute = True  # the server sends nothing more
                loop.close_unbegun()
        counts = self.counts | {"answers": self.checker.answers, "turns asleep": self._asleep}
        return Outcome(self.seed, self.checker.violations, self.story, counts)

    _asleep = 0

    def _work(self) -> None:
        random, timeline = self.random, self.timeline
        self.plan.new_faults(random, self.disk, self.tell)
        self.plan.new_shortage(self.disk, self.tell)
        self.start()
        kinds = (*KINDS, Historian) if self.checker.shelves else KINDS
        kinds = (*kinds, Writer, Writer, Writer) if self.checker.streams else kinds
        kinds = (*kinds, *HTTP_KINDS) if self.plan.http else kinds
        clients = [kind(self, n) for n, kind in enumerate(kinds)]
        at = 0
        for _ in range(self.plan.crashes):
            at += random.randrange(20_000, 2 * RUN_US // (self.plan.crashes + 1))
            timeline.at(at, self._some_end)
        self._graveyard.append(clients)
        self._run(max(at, RUN_US))

    def _run(self, until_us: int) -> None:
        """Run until that time, or until a violation."""
        while self.timeline.us < until_us and not self.checker.violations:
            self.timeline.run_until(min(until_us, self.timeline.us + 50_000))

    def _some_end(self) -> None:
        loop = self.loop
        if self.is_closing_time or loop is None or loop.is_over or self.disk._cut_at:
            return
        kind = self.random.choice(("clean", "kill", "power", "verb", "verb"))
        if kind == "verb":
            self.arm(self.random.randrange(1, 40))
        elif kind != "clean":
            self.crash(kind)
        elif self.daemon is not None and self.is_up:
            self.tell("SIGTERM")
            self.daemon.shutdown("SIGTERM")

    def end_faults(self) -> None:
        """Let no verb of the disk fail from now on."""
        self.disk.faults.clear()
        self.disk._cut_at = 0

    def ensure_up(self) -> None:
        """Start the server until it runs."""
        for _ in range(_STARTS_MAX):
            self._until(lambda: self.is_up or self.has_ended, _START_US_MAX)
            if self.is_up or self.checker.violations:
                return
            if not self.has_ended:
                break
            self.start()
        self.checker.complain("the server does not start")

    def _until(self, true: Callable[[], bool], within_us: int) -> bool:
        end = self.timeline.us + within_us
        while not true() and self.timeline.us < end and not self.checker.violations:
            self.timeline.run_until(min(end, self.timeline.us + 20_000))
        return true()

    def _come_to_rest(self) -> None:
        """Send no more requests: check that all are answered, and that the loop sleeps."""
        self.is_closing_time = True
        self.end_faults()
        self.ensure_up()
        if self.checker.violations:
            return
        self._run(self.timeline.us + REST_US)
        for talk in self.checker.talks:
            if talk.asked:
                self.checker.complain(f"connection {talk.number}: no answer to {talk.asked[0]}")
            elif talk.buffer:
                self.checker.complain(f"connection {talk.number}: half an answer {talk.buffer!r}")
        loop = self.loop
        assert loop is not None
        before = loop.turns
        self._run(self.timeline.us + SLEEP_US)
        self._asleep = loop.turns - before
        if self._asleep > TURNS_ASLEEP_MAX:
            self.checker.complain(f"{self._asleep} turns in {SLEEP_US // 1_000_000} s of rest")

    def restart_cleanly(self) -> None:
        """Stop and start the server in the orderly way, before the rest is counted."""
        if self.daemon is not None and self.is_up:
            self.daemon.shutdown("SIGTERM")
            if not self._until(lambda: self.has_ended, _START_US_MAX):
                self.checker.complain("the server does not end when it is asked to")
        self.start()
        self.ensure_up()
