"""A fleet on servers that a real Patroni keeps: every accident while commits are in flight.

    clients ── members a, b ── n1, n2, n3 ── Patroni ── etcd

Besides the members, committers of slices of their own count what became of each commit whose
answer was lost. Whatever happens: nothing that was acknowledged is lost.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

import pytest

from journal.engine import Claim, Create, EngineAway, Member, Op, Write
from journal.engine.postgres import PostgresEngine
from journal.engine.postgres.postgres_engine import _SEQ_NOW
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from tests.support.daemon import DaemonProcess
from tests.support.fleet_load import FleetLoad, until
from tests.support.patroni import (
    TTL_SECONDS,
    PatroniCluster,
    PatroniNode,
    free_port,
    why_no_patroni,
)

WHY_NOT = why_no_patroni()
pytestmark = [
    pytest.mark.soak, pytest.mark.timeout(0), pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
]  # fmt: skip

CLIENT_SECONDS = 120.0  # a client that waits sees a pause
SLICES = range(2, 6)
ROUNDS_MAX = 10
NUMBER_BYTES = 8


class CountingEngine(PostgresEngine):
    """An engine that counts the outcomes of commits whose answer was lost."""

    def __init__(self, address: str, outcomes: Counter[str]) -> None:
        super().__init__(address)
        self.outcomes = outcomes

    def _one(self, statement: str, at: Claim) -> int:
        seq = super()._one(statement, at)
        if statement == _SEQ_NOW:
            self.outcomes["done" if seq == at.seq + 1 else "not done"] += 1
        return seq


class Committer:
    """A context: inside it a slice gets one number after the other."""

    def __init__(self, address: str, number: int, outcomes: Counter[str]) -> None:
        self.engine = CountingEngine(address, outcomes)
        self.number = number
        self.acknowledged = 0
        self.at = Claim(number, 0, 0)
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)

    def __enter__(self) -> Self:
        known = self.engine.owners().get(self.number)
        self.at = self.engine.claim(self.number, Member("t"), known.epoch if known else 0)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(CLIENT_SECONDS)
        assert not self._thread.is_alive(), "a commit waits for ever"
        if self._failure is not None:
            raise self._failure

    def check(self) -> None:
        """Check that all acknowledged commits are there."""
        data = self.engine.read(self.at, self.at.epoch, 0, self.acknowledged * NUMBER_BYTES)
        numbers = [
            int.from_bytes(data[at : at + NUMBER_BYTES], "big")
            for at in range(0, len(data), NUMBER_BYTES)
        ]
        assert numbers == list(range(self.acknowledged)), "an acknowledged commit is lost"
        self.engine.close()

    def _guarded(self) -> None:
        try:
            self._commit([Create(self.at.epoch, "a", 0)])
            while not self._ending.is_set():
                number = self.acknowledged
                data = number.to_bytes(NUMBER_BYTES, "big")
                self._commit([Write(self.at.epoch, number * NUMBER_BYTES, data)])
                self.acknowledged += 1
        except BaseException as error:
            self._failure = error

    def _commit(self, ops: list[Op]) -> None:
        while True:
            try:
                self.engine.commit(self.at, ops)
            except EngineAway:
                time.sleep(0.1)
            else:
                self.at = self.at.after()
                return


# An accident to this leader; `Serves` says whether the load is served again since a moment.
Serves = Callable[[float], Callable[[], bool]]
Accident = Callable[["PatroniFleet", PatroniNode, Serves], None]


class PatroniFleet:
    """The servers and the members."""

    def __init__(self, cluster: PatroniCluster, folder: Path) -> None:
        self.cluster = cluster
        self.outcomes = Counter[str]()
        self.members = {
            name: DaemonProcess(folder / name, port=free_port(), config=(
                f'[fleet]\nengine = "{cluster.address}"\nname = "{name}"\n'
                f'patroni = "http://127.0.0.1:{cluster.nodes[0].rest}"\n'
            ))
            for name in ("a", "b")
        }  # fmt: skip

    def load(self) -> FleetLoad:
        return FleetLoad({
            name: partial(each.client, CLIENT_SECONDS)
            for name, each in self.members.items()
        })  # fmt: skip

    def run(self, accident: Accident) -> str:
        """Let it happen under load; return what was seen."""
        before = self.cluster.leader
        committers = [Committer(self.cluster.address, each, self.outcomes) for each in SLICES]
        with ExitStack() as stack:
            for each in committers:
                stack.enter_context(each)
            load = stack.enter_context(self.load())

            def serves(since: float) -> Callable[[], bool]:
                return lambda: sum(len(load.served_by(n, since)) for n in self.members) > 100

            until(serves(0.0), "there is load")
            accident(self, before, serves)
            until(serves(time.monotonic()), "it is served again", CLIENT_SECONDS)
        self.cluster.wait_until_whole()
        for each in committers:
            each.check()
        last = max(self.members, key=lambda n: max(
            (each.ended for each in load.served_by(n)), default=0.0
        ))  # fmt: skip
        said = load.check(self.members[last].client)
        after = self.cluster.leader
        return (
            f"{before.name} led, {after.name} leads; {said}; clients saw "
            f"{dict(load.troubles())}; unknown commits {dict(self.outcomes)}"
        )

    def another_leads(self, than: PatroniNode) -> None:
        """Wait until Patroni has promoted another one."""
        others = [each for each in self.cluster.nodes if each is not than]
        until(
            lambda: any(each.facts().get("role") == "primary" for each in others),
            "another one leads", 6.0 * TTL_SECONDS,
        )  # fmt: skip


def kill_the_server(fleet: PatroniFleet, leader: PatroniNode, serves: Serves) -> None:
    leader.signal(signal.SIGKILL)  # its Patroni starts it again, or another one leads


def kill_patroni(fleet: PatroniFleet, leader: PatroniNode, serves: Serves) -> None:
    leader.signal_patroni(signal.SIGKILL)  # the server lives on
    fleet.another_leads(leader)
    leader.start()


def kill_both(fleet: PatroniFleet, leader: PatroniNode, serves: Serves) -> None:
    leader.signal_patroni(signal.SIGKILL)
    leader.kill()
    fleet.another_leads(leader)
    leader.start()


def pause(fleet: PatroniFleet, leader: PatroniNode, serves: Serves) -> None:
    leader.signal_patroni(signal.SIGSTOP)
    leader.signal(signal.SIGSTOP)
    try:
        fleet.another_leads(leader)
        until(serves(time.monotonic()), "it is served while the former leader sleeps", 60.0)
    finally:
        leader.signal(signal.SIGCONT)
        leader.signal_patroni(signal.SIGCONT)


def switch_over(fleet: PatroniFleet, leader: PatroniNode, serves: Serves) -> None:
    leader.ask_patroni("/switchover", {"leader": leader.name})


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PatroniFleet]:
    with folder_of_servers() as folder:
        cluster = PatroniCluster(folder)
        try:
            cluster.start()
            made = PatroniFleet(cluster, tmp_path_factory.mktemp("members"))
            with made.members["a"], made.members["b"]:
                yield made
        finally:
            cluster.stop()


@pytest.mark.parametrize(
    "accident", [switch_over, kill_the_server, kill_both, pause, kill_patroni]
)
def test_nothing_is_lost_whatever_happens_to_the_leader(
    fleet: PatroniFleet, accident: Accident
) -> None:
    fleet.cluster.wait_until_whole()
    print(f"{accident.__name__}: {fleet.run(accident)}")


def test_both_outcomes_of_an_unknown_commit_are_met(fleet: PatroniFleet) -> None:
    for _ in range(ROUNDS_MAX):
        fleet.cluster.wait_until_whole()
        if len(fleet.outcomes) == 2:
            break
        print(fleet.run(kill_the_server))
    assert set(fleet.outcomes) == {"done", "not done"}, fleet.outcomes
