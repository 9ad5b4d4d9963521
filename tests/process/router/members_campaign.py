"""Rounds in which members of a fleet are hit under load, and then all is compared.

    kill -9          the router of a member and its slices: the others take them over
    SIGSTOP, CONT    all of a member
    drain            the others take its slices, and it takes some again
    add              one more member comes, and leaves

One rule: everything random in a round follows from its seed, but for what the machine does.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Final

from journal.engine import EngineAway
from journal.engine.postgres import drain
from tests.process.router.members import Fleet
from tests.process.router.members_load import CHILD, QUEUES, FleetBooks, FleetLoad
from tests.process.router.test_slices import is_running
from tests.support.raw import Raw

MEMBERS: Final = ("a", "b", "c")
ADDED: Final = "d"
SETTINGS: Final = """
[queue_defaults]
max_attempts = "none"
[queues.keyed]
key_format = "json"
key = ["k"]
"""
SECONDS: Final = 240.0  # on a machine that does much else; each wait ends as soon as it can
LOOK_SECONDS: Final = 0.05
BATCH: Final = 50
ASLEEP_SECONDS: Final = (0.5, 8.0)


class Campaign:
    """Members under load."""

    def __init__(self, fleet: Fleet, seed: int, names: Sequence[str] = MEMBERS) -> None:
        self.fleet, self.names = fleet, names
        for name in names:
            fleet.member(name)
        self.child = FleetBooks(fleet)
        self.books = FleetBooks(fleet, self.child)
        self.load = FleetLoad(self.books, seed)
        self._is_over = threading.Event()
        self._watch = threading.Thread(target=self._note_owners, daemon=True)

    def start(self) -> None:
        """Start the load, when the members own all slices."""
        for each in self.fleet.members.values():
            each.start()
        self.until(self.fleet.is_even, "even shares")
        with Raw((self.fleet.members["a"].host, self.fleet.members["a"].port)) as raw:
            raw.ask(b"get %b\r\n" % CHILD.encode(), b"END\r\n")  # it is made, before any item
        self._watch.start()
        self.load.start()
        self._go_on()

    def _note_owners(self) -> None:
        """Note each time when a slice has another owner, or the engine does not say who has it."""
        before: dict[int, int] = {}
        while not self._is_over.wait(LOOK_SECONDS):
            try:
                now = {number: each.epoch for number, each in self.fleet.engine.owners().items()}
            except EngineAway:
                now = {}
            if now != before or not now:
                self._note_change()
            before = now

    def _note_change(self) -> None:
        for each in (self.books, self.child):
            each.changes_s.append(time.monotonic())

    def until(self, is_so: Callable[[], object], what: str) -> None:
        """Look again and again until it is so; what the clients note as wrong ends it."""
        deadline = time.monotonic() + SECONDS
        while not is_so():
            wrong = self.books.wrong + self.child.wrong
            assert wrong == [], wrong[:3]
            assert time.monotonic() < deadline, f"{what}: {self.fleet.owners()}\n{self._lines()}"
            time.sleep(LOOK_SECONDS)

    def _lines(self) -> str:
        return "".join(
            f"{name}: {line}" for name, each in self.fleet.members.items()
            for line in each.lines[-12:]
        )  # fmt: skip

    def _go_on(self) -> None:
        """Wait until the shares are even and every producer has stored something."""
        self.until(self.fleet.is_even, "even shares")
        counts = self.load.counts
        self.until(lambda: self.load.go_on(counts), "every producer goes on")
        for books in (self.books, self.child):
            for _, each in books.left[:]:
                each.close()
            books.left.clear()

    # -- what happens -------------------------------------------------------------------------

    def kill(self, chance: random.Random) -> None:
        """Kill a member with its slices, and start it again when the others have them."""
        name = chance.choice(self.names)
        member = self.fleet.members[name]
        self._note_change()
        self.fleet.send(member, signal.SIGKILL)
        member.kill()
        self.until(lambda: name not in self.fleet.owners().values(), "a takeover")
        self._go_on()
        member.start()
        self._go_on()

    def sleep(self, chance: random.Random) -> None:
        """Stop a member with its slices, and wake it."""
        member = self.fleet.members[chance.choice(self.names)]
        self._note_change()
        self.fleet.send(member, signal.SIGSTOP)
        time.sleep(chance.uniform(*ASLEEP_SECONDS))
        self._note_change()
        self.fleet.send(member, signal.SIGCONT)
        self._go_on()

    def drain(self, chance: random.Random) -> None:
        """Let the others take the slices of a member, and then let it have some again."""
        name = chance.choice(self.names)
        drain(self.fleet.address, name, True)
        self.until(lambda: name not in self.fleet.owners().values(), "a drain")
        drain(self.fleet.address, name, False)
        self._go_on()

    def add(self, chance: random.Random) -> None:
        """Let one more member come, and end when it owns a slice."""
        member = self.fleet.members.get(ADDED) or self.fleet.member(ADDED)
        member.start()
        self._go_on()
        assert ADDED in self.fleet.owners().values()
        assert member.stop() == 0
        self._go_on()

    def close(self) -> None:
        """End the load and the watch, whatever has failed."""
        self._is_over.set()
        self.books.stopping.set()

    # -- the end --------------------------------------------------------------------------------

    def end(self) -> None:
        """Drain the queues, and compare what is there with what the clients were told."""
        self.load.stop()
        self._is_over.set()
        self._watch.join()
        for books, queues in ((self.books, QUEUES), (self.child, (CHILD,))):
            assert books.wrong == [], books.wrong[:3]
            drained = [body for queue in queues for body in self._drained(queue)]
            for each in drained:
                books.handed_out(each)
            assert books.wrong == [], books.wrong[:3]
            assert len(set(drained)) == len(drained), "an item is there twice"
            lost = books.acknowledged - books.confirmed - set(drained) - books.in_doubt
            assert lost == set(), "an acknowledged item is lost"
            assert books.unexplained() == [], "a key had two holders"
        assert self.load.several.count > 0, "no get had items of several slices"
        for member in self.fleet.members.values():
            if is_running(member.pid):
                assert member.stop() == 0

    def _drained(self, queue: str) -> list[bytes]:
        """Give every lease by token back, and fetch all until nothing is left."""
        found = []
        deadline = time.monotonic() + SECONDS
        member = self.fleet.members[self.names[0]]
        with Raw((member.host, member.port)) as raw:
            while True:
                for name, token in raw.stats(f"stats {queue}/open".encode()).items():
                    if name.endswith("_token") and token != "-":
                        raw.ask(f"get {queue}/abort/token={token}\r\n".encode(), b"END\r\n")
                raw.send(f"gets {queue}\r\n".encode() * BATCH)
                for _ in range(BATCH):
                    found += [body for _, body in raw.read_values(queue.encode())]
                facts = raw.stats()
                held = [int(facts[f"queue_{queue}_{each}"]) for each in
                        ("items", "delayed", "leased")]  # fmt: skip
                if not any(held):
                    return found
                assert time.monotonic() < deadline, f"{queue} is not drained: {held}"
                time.sleep(LOOK_SECONDS)

    def report(self) -> str:
        """Return what was done, as one line."""
        return "; ".join(
            f"{what}: {len(each.acknowledged):,} stored, {len(each.confirmed):,} confirmed, "
            f"{len(each.in_doubt)} in doubt, {len(each.doubles)} keys with a second holder"
            for what, each in (("queues", self.books), ("child", self.child))
        )


def run(fleet: Fleet, kinds: Iterable[str], seeds: Iterable[int]) -> None:
    """Do the rounds of these seeds, of each kind in turn, and compare at the end."""
    rounds = iter(seeds)
    first = next(rounds)
    run_all(Campaign(fleet, first), kinds, chain((first,), rounds))


def run_all(campaign: Campaign, kinds: Iterable[str], seeds: Iterable[int]) -> None:
    """Do the rounds of a campaign that is not started."""
    began = time.monotonic()
    try:
        campaign.start()
        for seed in seeds:
            chance = random.Random(seed)
            for kind in kinds:
                getattr(campaign, kind)(chance)
                print(f"{time.monotonic() - began:.1f} s: {kind}: {campaign.report()}", flush=True)
        campaign.end()
    finally:
        campaign.close()
    print(f"{time.monotonic() - began:.1f} s: {campaign.report()}")
