"""A fleet on a network that breaks: two servers, two members, each on a host of its own.

    clients ── a, b ── n1, the primary ── n2, its standby

Each case cuts some ways under load, looks, and heals them. Whatever was cut: nothing that was
acknowledged is lost, nothing that was confirmed comes back, and a member answers nothing after
another one has answered.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from pymemcache.exceptions import MemcacheServerError, MemcacheUnexpectedCloseError

from kestrelpy.examples.fleet.cluster import Cluster
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.support.daemon import DaemonProcess
from tests.support.fleet_load import FleetLoad, stored, until
from tests.support.network import Network, why_no_network

WHY_NOT = why_no_network()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

TAKEOVER_S = 2
CLIENT_SECONDS = 4.0
CUT_SECONDS = TAKEOVER_S * 1.5
COMMITTING = "SELECT pid FROM pg_stat_activity WHERE wait_event = 'SyncRep'"


class HostServer(PostgresServer):
    """A server on a host of the network."""

    def __init__(self, folder: Path, name: str, network: Network) -> None:
        super().__init__(folder, name, network.addresses[name])
        self.network = network

    def make(self) -> None:
        super().make()
        with (self.data / "pg_hba.conf").open("a") as hosts:
            hosts.write("host all all all trust\nhost replication all all trust\n")

    def copy(self, primary: PostgresServer) -> None:
        with self.network.inside(self.name):
            super().copy(primary)

    def start(self) -> None:
        with self.network.inside(self.name):
            super().start()


class HostCluster(Cluster):
    """Servers on hosts of the network."""

    def __init__(self, folder: Path, network: Network) -> None:
        super().__init__(folder, ())
        self.servers += [HostServer(folder, name, network) for name in ("n1", "n2")]


class Hosts:
    """The network, the servers and the members. Whoever uses it is on the host of the clients."""

    def __init__(self, network: Network, cluster: Cluster, folder: Path) -> None:
        self.network = network
        self.cluster = cluster
        self.members = {
            name: DaemonProcess(
                folder / name, host=network.addresses[name], port=22133, config=(
                    f'[server]\ninsecure = true\n[fleet]\nengine = "{cluster.address}"\n'
                    f'name = "{name}"\ntakeover = "{TAKEOVER_S}s"\n'
                ),
            )
            for name in ("a", "b")
        }  # fmt: skip
        self.owner, self.standby = "a", "b"

    def start(self, name: str) -> None:
        with self.network.inside(name):
            self.members[name].start()

    def load(self) -> FleetLoad:
        return FleetLoad({
            name: partial(each.client, CLIENT_SECONDS)
            for name, each in self.members.items()
        })  # fmt: skip

    def took_over(self) -> None:
        """The standby serves: change the parts."""
        stored(self.members[self.standby].client)
        self.owner, self.standby = self.standby, self.owner

    def wait_until_one_serves(self) -> None:
        """Wait until one member serves and the other one waits, and learn which."""
        until(self._served, "one member serves, the other one waits")

    def _served(self) -> bool:
        said = {name: self.says(name) for name in self.members}
        serving = [name for name, each in said.items() if not each]
        waiting = [name for name, each in said.items() if each.startswith("standby of ")]
        if len(serving) != 1 or len(waiting) != 1:
            return False
        self.owner, self.standby = serving[0], waiting[0]
        return True

    def says(self, name: str) -> str:
        """Return the answer of a member that does not serve; "": it serves."""
        client = self.members[name].client(CLIENT_SECONDS)
        try:
            client.set("probe", "x")
        except MemcacheUnexpectedCloseError:
            return "nothing"
        except MemcacheServerError as error:
            return bytes(error.args[0]).decode()
        except OSError as error:
            return type(error).__name__
        finally:
            client.close()
        return ""

    def cut(self, ways: str) -> None:
        """Cut the ways that these words name."""
        for way in ways.split():
            sender, receiver = (self._hosts(each) for each in way.split(">"))
            for one in sender:
                for other in receiver:
                    self.network.cut(one, other)

    def _hosts(self, word: str) -> list[str]:
        primary, standby = (each.name for each in self.cluster.servers)
        return {
            "owner": [self.owner], "waiting": [self.standby], "engine": [primary, standby],
            "primary": [primary], "copy": [standby],
        }[word]  # fmt: skip


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    with (
        folder_of_servers() as folder, Network("n1", "n2", "a", "b", "clients") as network,
        network.inside("clients"),
    ):  # fmt: skip
        cluster = HostCluster(folder, network)
        try:
            cluster.start()
            made = Hosts(network, cluster, tmp_path_factory.mktemp("members"))
            for name in made.members:
                made.start(name)
            yield made
            for member in made.members.values():
                assert member.stop() == 0
        finally:
            network.heal()
            cluster.stop()


@pytest.fixture(autouse=True)
def healed(hosts: Hosts) -> Iterator[None]:
    hosts.wait_until_one_serves()
    yield
    hosts.network.heal()


class Case(NamedTuple):
    """The ways of the network that are cut."""

    name: str
    ways: str
    is_short: bool = False


def cases(*found: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("ways", [
        pytest.param(each.ways, id=each.name, marks=() if each.is_short else pytest.mark.soak)
        for each in found
    ])  # fmt: skip


@cases(
    Case("both", "owner>engine engine>owner", is_short=True),
    Case("requests", "owner>engine"),
    Case("answers", "engine>owner", is_short=True),
    Case("primary", "owner>primary primary>owner"),
    Case("and-members", "owner>engine engine>owner owner>waiting waiting>owner"),
)
def test_an_owner_that_is_cut_off_from_the_engine_is_replaced(hosts: Hosts, ways: str) -> None:
    cut_off, other = hosts.owner, hosts.standby
    with hosts.load() as load:
        until(lambda: len(load.served_by(cut_off)) > 100, "there is load")
        hosts.cut(ways)
        began = time.monotonic()
        until(lambda: load.served_by(other), "the other member serves")
        first = min(each.ended for each in load.served_by(other))
        hosts.took_over()
        assert "the engine does not answer" in hosts.says(cut_off)
        healed = time.monotonic()
        hosts.network.heal()
        until(lambda: hosts.says(cut_off).startswith("standby of "), "it is a standby")
        until(lambda: len(load.served_by(other, healed)) > 100, "there is load")
    assert load.served_by(cut_off, first) == [], "two members answer"
    print(load.check(hosts.members[other].client), f"; served again after {first - began:.1f} s")


@cases(
    Case("both", "primary>copy copy>primary", is_short=True),
    Case("log", "primary>copy"),
    Case("answers", "copy>primary"),
)
def test_without_its_copy_a_primary_acknowledges_nothing(hosts: Hosts, ways: str) -> None:
    with hosts.load() as load:
        until(lambda: len(load.served_by(hosts.owner)) > 100, "there is load")
        hosts.cut(ways)
        until(lambda: hosts.cluster.primary.ask(COMMITTING), "a commit waits for the standby")
        waits = time.monotonic()
        time.sleep(CUT_SECONDS)
        served = [each for name in hosts.members for each in load.served_by(name, waits)]
        assert served == [], "it was acknowledged without the copy"
        hosts.network.heal()
        healed = time.monotonic()
        until(
            lambda: any(len(load.served_by(name, healed)) > 100 for name in hosts.members),
            "somebody serves",
        )
    hosts.wait_until_one_serves()
    print(load.check(hosts.members[hosts.owner].client))


@cases(
    Case("both", "primary>copy copy>primary"),
    Case("log", "primary>copy"),
    Case("answers", "copy>primary"),
)
def test_a_copy_that_is_promoted_while_it_is_cut_off_has_all(hosts: Hosts, ways: str) -> None:
    with hosts.load() as load:
        until(lambda: len(load.served_by(hosts.owner)) > 100, "there is load")
        hosts.cut(ways)
        time.sleep(CUT_SECONDS)
        hosts.cluster.primary.kill()
        hosts.network.heal()
        assert "is the primary now" in hosts.cluster.look()
        healed = time.monotonic()
        until(
            lambda: any(len(load.served_by(name, healed)) > 100 for name in hosts.members),
            "somebody serves",
        )
    hosts.wait_until_one_serves()
    print(load.check(hosts.members[hosts.owner].client))


@cases(
    Case("members", "owner>waiting waiting>owner"),
    Case("waiting-and-engine", "waiting>engine engine>waiting"),
    Case("waiting-one-way", "engine>waiting"),
)
def test_a_cut_that_the_owner_does_not_need_is_not_noticed(hosts: Hosts, ways: str) -> None:
    with hosts.load() as load:
        until(lambda: len(load.served_by(hosts.owner)) > 100, "there is load")
        began = time.monotonic()
        hosts.cut(ways)
        time.sleep(CUT_SECONDS)
        hosts.network.heal()
        healed = time.monotonic()
        until(lambda: len(load.served_by(hosts.owner, healed)) > 100, "there is load")
    assert load.refused_by(hosts.owner, began) == []
    assert load.served_by(hosts.standby) == []
    until(lambda: hosts.says(hosts.standby).startswith("standby of "), "the other one waits")
    print(load.check(hosts.members[hosts.owner].client))
