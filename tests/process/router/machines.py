"""A wide fleet on machines of its own, each a network namespace: its members are hit under load,
and its network is cut.

    python -m tests.process.router.machines --minutes 5 --slices 16

    clients ── a, b, c, d, each with its share of the slices ── n1, the primary ── n2, n3

It needs root and iproute2. It prints what happens, and ends with an error if anything was lost.

One rule: each hit is healed before the next one, and the load goes on before that.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from journal.engine.postgres import PostgresEngine
from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fleet.postgres_server import folder_of_servers
from tests.process.fleet.test_partitions import HostServer
from tests.process.router.members import SECRET, TAKEOVER_S, Fleet
from tests.process.router.members_campaign import SETTINGS, Campaign, run_all
from tests.support.daemon import DaemonProcess
from tests.support.network import Network

SERVERS: Final = ("n1", "n2", "n3")
MEMBERS: Final = ("a", "b", "c", "d")
KINDS: Final = (
    "kill", "cut_from_engine", "sleep", "cut_from_members", "drain", "cut_from_both",
    "kill_primary",
)  # fmt: skip
CUT_SECONDS: Final = (0.5, 8.0)
PORT: Final = 22133


class HostMember(DaemonProcess):
    """A member on a host of the network."""

    network: Network

    def start(self, *prefix: str) -> HostMember:
        with self.network.inside(self.data_dir.name):
            super().start(*prefix)
        return self


class HostFleet(Fleet):
    """Members on hosts of the network."""

    def __init__(self, folder: Path, network: Network, cluster: Cluster, slices: int) -> None:
        self.folder, self.network, self.cluster = folder, network, cluster
        self.address, self.more, self.slices = cluster.address, SETTINGS, slices
        self.engine = PostgresEngine(cluster.address)
        self.members = {}
        (folder / "secret").write_text(f"{SECRET}\n")

    def member(self, name: str, slices: int = 0, more: str = "") -> HostMember:
        host = self.network.addresses[name]
        config = (
            f'[server]\ninsecure = true\n[fleet]\nengine = "{self.address}"\n'
            f'name = "{name}"\naddress = "{host}:{PORT}"\nslices = {slices or self.slices}\n'
            f'takeover = "{TAKEOVER_S}s"\nsecret_file = "secret"\n{more}\n{self.more}'
        )
        made = HostMember(self.folder / name, config=config, host=host, port=PORT)
        made.network = self.network
        self.members[name] = made
        return made


class HostCampaign(Campaign):
    """A campaign that cuts the network as well."""

    def __init__(self, fleet: HostFleet, seed: int) -> None:
        super().__init__(fleet, seed, MEMBERS)
        self._network, self._cluster = fleet.network, fleet.cluster

    def cut_from_engine(self, chance: random.Random) -> None:
        """A member reaches no server, or is not reached by them, or both."""
        self._cut(chance, SERVERS)

    def cut_from_members(self, chance: random.Random) -> None:
        """A member reaches no other one, or is not reached by them, or both."""
        self._cut(chance, MEMBERS)

    def cut_from_both(self, chance: random.Random) -> None:
        """A member is alone with its clients."""
        self._cut(chance, (*SERVERS, *MEMBERS))

    def _cut(self, chance: random.Random, others: Iterable[str]) -> None:
        name, way = chance.choice(MEMBERS), chance.choice(("to", "from", "both"))
        self._note_change()
        for other in others:
            if other != name and way != "from":
                self._network.cut(name, other)
            if other != name and way != "to":
                self._network.cut(other, name)
        time.sleep(chance.uniform(*CUT_SECONDS))
        self._note_change()
        self._network.heal()
        self._go_on()

    def kill_primary(self, chance: random.Random) -> None:
        """The primary dies, and the standby that has every commit is promoted."""
        self._note_change()
        self._cluster.primary.kill()
        print(self._cluster.fail_over(), flush=True)
        self._go_on()


def seeds(first: int, minutes: float) -> Iterator[int]:
    """Yield seeds until the time is over, one at least."""
    end = time.monotonic() + minutes * 60
    yield first
    while time.monotonic() < end:
        first += 1
        yield first


def main() -> None:
    """Run a campaign, as the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    with (
        folder_of_servers() as servers, TemporaryDirectory(prefix="kestrelpy-") as members,
        Network(*SERVERS, *MEMBERS, "clients") as network, network.inside("clients"),
    ):  # fmt: skip
        cluster = Cluster(servers, ())
        cluster.servers += [HostServer(servers, name, network) for name in SERVERS]
        try:
            cluster.start()
            fleet = HostFleet(Path(members), network, cluster, said.slices)
            try:
                run_all(HostCampaign(fleet, said.seed), KINDS, seeds(said.seed, said.minutes))
            finally:
                network.heal()
                fleet.close()
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
