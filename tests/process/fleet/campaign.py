"""Rounds in which the owner of a fleet is killed, or sleeps, under load; then all is compared.

    kill -9 ──▶ the other member serves ──▶ the killed one is started again
    SIGSTOP ──▶ the other one takes over ──▶ SIGCONT: the sleeper answers nothing

One rule: everything random in a round follows from its seed, but for what the machine does.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from kestrelpy.cli.fleet import engine_moves
from kestrelpy.cli.fleet.fleet import EngineAt
from tests.process.fleet.load import (
    IMPATIENT_SECONDS,
    QUEUES,
    Books,
    Caller,
    Hold,
    Load,
    NotDone,
    Unanswered,
)
from tests.process.fleet.pair import TAKEOVER_S, Pair, running_pair, until
from tests.process.kill.test_kill_schedules import times_put
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

# In `make test`; in `make soak` there are as many as its time allows.
SEEDS_OF_A_TEST: Final = (1,)
DRAIN_SECONDS: Final = 120.0
BATCH: Final = 50
# A superseded owner has ended every connection this many seconds after it woke.
LIE_SECONDS: Final = 0.2  # until a client has put a connection that it gave up where it lies
HANGS_UP_SECONDS: Final = 5.0
LEASE_SECONDS: Final = 300.0
_WAKES: Final = ((0.35, 1.4, 3.0), (0.2, 0.5, 1.4), (0.4, 3.0, 8.0), (0.05, 10.0, 60.0))


class Campaign:
    """A pair under load."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.books = Books(pair)
        self.load = Load(self.books, seed)
        self.stored_after_s: list[float] = []  # by each kill
        self.superseded = 0
        self.hung_up_after_s: list[float] = []

    def kill(self, chance: random.Random) -> None:
        """Kill the owner, and start it again when the other one has stored something."""
        owner = self.pair.owner()
        time.sleep(chance.uniform(0.3, 1.2))
        self.books.ends(owner)
        owner.kill()
        self._wait_for_stored()
        self.stored_after_s.append(self.books.first_stored_s - self.books.lost_life_s)
        load = os.getloadavg()[0]
        print(f"STORED {self.stored_after_s[-1]:.2f} s after the kill, load {load:.1f}")
        owner.start()
        self.pair.wait_for_standby(owner)
        self._close_left()

    def sleep(self, chance: random.Random) -> None:
        """Stop the owner, wake it, and look at what it answers."""
        owner = self.pair.owner()
        name = owner.data_dir.name
        time.sleep(chance.uniform(0.3, 1.0))
        by_connection = Sitter(self.books, owner, "")
        by_token = Sitter(self.books, owner, f"lease={LEASE_SECONDS:.0f}s/")
        epoch = self.pair.epoch
        self.books.ends(owner)
        os.kill(owner.pid, signal.SIGSTOP)
        asleep_s = _asleep_s(chance)
        time.sleep(LIE_SECONDS)
        self._take_what_was_said(owner)
        time.sleep(asleep_s - LIE_SECONDS)
        was_superseded = self.pair.epoch > epoch
        with self.books.lock:
            self.books.late.clear()
            self.books.superseded = name
            self.books.woke_s = time.monotonic()
        os.kill(owner.pid, signal.SIGCONT)
        time.sleep(0 if was_superseded else TAKEOVER_S)
        self.pair.owner()  # a claim under way is over
        if self.pair.epoch == epoch:
            with self.books.lock:
                self.books.superseded = ""
                self.books.life_numbers[name] -= 1
        else:
            self.superseded += 1
            print(f"slept {asleep_s:.2f} s, superseded {'before' if was_superseded else 'after'}")
            self.hung_up_after_s.append(by_connection.hung_up_s() - self.books.woke_s)
            self.pair.wait_for_standby(owner)
            self._wait_for_stored()
            self._see_nothing_answered(owner)
        by_connection.end()
        by_token.confirm()
        self._close_left()

    def _take_what_was_said(self, owner: DaemonProcess) -> None:
        """Take what came on the connections that lie: it was said before the member slept."""
        for member, each in self.books.left[:]:
            if member is owner:
                each.setblocking(False)
                with suppress(BlockingIOError, ConnectionError):
                    while each.recv(1 << 16):
                        pass

    def _wait_for_stored(self) -> None:
        def is_stored() -> bool:
            assert self.books.wrong == [], self.books.wrong[:3]
            return self.books.first_stored_s > 0

        until(is_stored, "the other member stores", self.pair)

    def _see_nothing_answered(self, owner: DaemonProcess) -> None:
        """Check that the connections that clients gave up have ended without an answer."""
        for member, each in self.books.left:
            if member is owner:
                each.settimeout(HANGS_UP_SECONDS)
                with suppress(ConnectionError):
                    while data := each.recv(1 << 16):
                        if not data.startswith(b"SERVER_ERROR"):
                            self.books.late.append(f"{data!r} on a connection that lay")
        with self.books.lock:
            self.books.wrong += [f"woken, {owner.data_dir.name}: {e}" for e in self.books.late]
            self.books.superseded = ""

    def _close_left(self) -> None:
        for _, each in self.books.left[:]:
            each.close()
        self.books.left.clear()

    def end(self, folder: Path) -> None:
        """Drain the queues, and compare what is there with what the clients were told."""
        self.load.stop()
        books = self.books
        drained = self._drain()
        assert books.wrong == []
        for each in drained:
            books.handed_out(each)
        assert books.wrong == []
        assert len(set(drained)) == len(drained), "an item is there twice"
        lost = books.acknowledged - books.confirmed - set(drained) - books.in_doubt
        assert lost == set(), "an acknowledged item is lost"
        not_allowed = [each for each in books.overlaps if not each.is_allowed]
        assert not_allowed == [], "a key had two holders"
        for member in self.pair.members.values():
            assert member.stop() == 0
        at = EngineAt(self.pair.cluster.address, False, TAKEOVER_S)
        engine_moves.move_out(str(folder / "out"), at)
        ticks = times_put(folder / "out", "ticks")
        assert ticks == list(range(ticks[0], ticks[-1] + 1)), "a second of a schedule is not once"

    def _drain(self) -> list[bytes]:
        """Give every lease by token back, and fetch all until nothing is left."""
        found = []
        deadline = time.monotonic() + DRAIN_SECONDS
        with closing(self.pair.owner().socket()) as connection:
            port = connection.getpeername()[1]
        with Raw(("127.0.0.1", port)) as raw:
            for queue in QUEUES:
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
                        break
                    assert time.monotonic() < deadline, f"{queue} is not drained: {held}"
                    time.sleep(0.1)
        return found

    def report(self) -> str:
        """Return what was done and measured, as one line."""
        books = self.books
        words = [
            f"{len(books.acknowledged):,} stored, {len(books.confirmed):,} confirmed, "
            f"{len(books.in_doubt)} in doubt, 0 lost",
        ]
        if self.stored_after_s:
            words.append(f"kill to STORED {spread(self.stored_after_s)}")
        if self.superseded:
            words.append(f"superseded {self.superseded} times")
        if self.hung_up_after_s:
            words.append(
                f"{len(books.overlaps)} keys had a second holder, until "
                f"{spread(self.hung_up_after_s)} after the waking"
            )
        return "; ".join(words)


class Sitter:
    """A worker that holds an item of a key: by connection until that ends, or by token."""

    def __init__(self, books: Books, owner: DaemonProcess, lease: str) -> None:
        self.books = books
        life = books.life_numbers[owner.data_dir.name]
        self.connection = owner.socket()
        self.connection.sendall(f"gets keyed/{lease}open/t=20s\r\n".encode())
        answer = b""
        while not answer.endswith(b"END\r\n"):
            answer += self.connection.recv(4096)
        line, self.body, _ = answer.split(b"\r\n", 2)
        self.token = line.rsplit(b" ", 1)[1]
        self.key = json.loads(self.body)["k"]
        books.handed_out(self.body)
        until_s = time.monotonic() + LEASE_SECONDS if lease else float("inf")
        self.hold = Hold(self.body, owner, life, until_s)
        books.takes_key(self.key, self.hold)

    def hung_up_s(self) -> float:
        """Return when its connection ended, on which nothing was said."""
        self.connection.settimeout(HANGS_UP_SECONDS)
        with suppress(ConnectionError):
            data = self.connection.recv(4096)
            assert not data, data
        return time.monotonic()

    def end(self) -> None:
        """Hang up."""
        self.books.lets_key_go(self.key, self.hold)
        self.connection.close()

    def confirm(self) -> None:
        """Confirm by the token, whoever serves."""
        self.end()
        caller = Caller(self.books, IMPATIENT_SECONDS)
        is_unsure = False
        while True:
            try:
                line, _ = caller.ask(b"delete keyed/token=%b\r\n" % self.token)
                break
            except NotDone:
                continue
            except Unanswered:
                is_unsure = True
        caller.hang_up()
        with self.books.lock:
            if line == b"DELETED" or is_unsure:
                self.books.confirmed.add(self.body)
            else:
                self.books.wrong.append(f"token {self.token!r} of {self.body!r}: {line!r}")


def spread(seconds: list[float]) -> str:
    """Return the median, the 99th percentile and the maximum of a list."""
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"median {statistics.median(ordered):.2f} s, p99 {p99:.2f} s, max {ordered[-1]:.2f} s"


def _asleep_s(chance: random.Random) -> float:
    """Choose how long the owner sleeps: often until the middle of a takeover, seldom for long."""
    (which,) = chance.choices(_WAKES, weights=[each[0] for each in _WAKES])
    return chance.uniform(*which[1:])


def run(
    folder: Path, kinds: Iterable[str], seeds: Callable[[], Iterable[int]]
) -> Campaign:
    """Do the rounds of these seeds, of each kind in turn, and compare at the end."""
    with running_pair(folder) as pair:
        campaign: Campaign | None = None
        began = time.monotonic()
        for seed in seeds():
            chance = random.Random(seed)
            if campaign is None:
                campaign = Campaign(pair, seed)
                pair.owner()
                campaign.load.start()
            for kind in kinds:
                getattr(campaign, kind)(chance)
                assert campaign.books.wrong == [], campaign.books.wrong[:3]
                print(f"{time.monotonic() - began:.1f} s: {kind}: {campaign.report()}", flush=True)
        assert campaign is not None
        campaign.end(folder)
        print(f"{time.monotonic() - began:.1f} s: {campaign.report()}")
        return campaign
