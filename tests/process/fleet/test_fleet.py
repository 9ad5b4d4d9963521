"""Two real daemons, one real PostgreSQL: one owns the data, the other takes over.

One engine for all tests, a slice and two processes of their own for each would be slow: each test
leaves the two as it found them, one owning and one waiting.
"""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheError, MemcacheServerError

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from tests.process.cli.command import Command
from tests.support.daemon import DaemonProcess

PACKAGING = Path(__file__).parents[3] / "packaging" / "fleet"
SECONDS = 60.0
TAKEOVER_S = 2


class Fleet:
    """An engine and two members."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.server = server
        self.members = {
            name: DaemonProcess(folder / name, config=self._config(name), http_port="0")
            for name in ("a", "b")
        }
        self.owner, self.standby = self.members["a"], self.members["b"]

    def _config(self, name: str) -> str:
        return (
            f'[fleet]\nengine = "{self.server.address}"\nsingle = true\nname = "{name}"\n'
            f'takeover = "{TAKEOVER_S}s"\naddress = "there:{name}"\n'
        )

    def took_over(self) -> None:
        """Wait until the standby serves, and change the parts."""
        stored(self.standby)
        self.owner, self.standby = self.standby, self.owner


def stored(member: DaemonProcess, key: str = "probe") -> None:
    """Store an item there, as soon as it is possible."""
    deadline = time.monotonic() + SECONDS
    while True:
        with suppress(MemcacheError, OSError), closing(member.client()) as client:
            if client.set(key, "x"):
                return
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(0.05)


def until(
    condition: Callable[[], object], member: DaemonProcess, pause_s: float = 0.05
) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "".join(member.lines[-20:])
        time.sleep(pause_s)


def drained(client: Client, key: str) -> list[bytes]:
    found = []
    while (body := client.get(f"{key}/close/open")) is not None:
        found.append(body)
    return found


def asked(member: DaemonProcess, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", int(member.http_port), timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        make_tables(server.address)
        made = Fleet(tmp_path_factory.mktemp("fleet"), server)
        with made.owner, made.standby:
            yield made
            for member in made.members.values():
                assert member.stop() == 0
        server.stop()


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    return Command(1, tmp_path_factory.mktemp("cli"))


def test_a_standby_serves_nobody_and_names_the_owner(fleet: Fleet) -> None:
    name = fleet.owner.data_dir.name
    says = rf"standby of {name} at there:{name} since [-0-9]+T[:0-9]+Z: it owns the data, ask there"
    assert fleet.owner.ready_line.startswith("ready: data in postgresql://kestrel@127.0.0.1:")
    with closing(fleet.standby.client()) as client:
        assert client.version() == client.stats()[b"version"]
        for act in (
            lambda: client.set("jobs", "x"), lambda: client.get("jobs"),
            lambda: client.delete("jobs"), lambda: client.get("jobs/t=1000/open"),
        ):  # fmt: skip
            with pytest.raises(MemcacheServerError, match=says):
                act()
    status, body = asked(fleet.standby, "/ready")
    assert (status, '"ready":false' in body, bool(re.search(says, body))) == (503, True, True)
    for path in ("/queues", "/v2/queues", "/"):
        status, body = asked(fleet.standby, path)
        assert (status, bool(re.search(says, body))) == (503, True), path
    assert asked(fleet.owner, "/ready")[0] == 200


def behind_haproxy(fleet: Fleet, folder: Path, port: int) -> Path:
    """The configuration that ships, on loopback and with the ports of these members."""
    text = (PACKAGING / "haproxy.cfg").read_text().replace(":22133\n", f"127.0.0.1:{port}\n", 1)
    for name, member in fleet.members.items():
        there = f"server {name} 127.0.0.1:{member.port} port {member.http_port}"
        assert f"server {name} {name}:22133" in text
        text = text.replace(f"server {name} {name}:22133", there)
    (folder / "haproxy.cfg").write_text(text)
    return folder / "haproxy.cfg"


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="haproxy is not installed")
def test_behind_haproxy_clients_need_one_address_over_a_takeover(
    fleet: Fleet, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = behind_haproxy(fleet, tmp_path, port)
    process = subprocess.Popen(["haproxy", "-db", "-f", config], stderr=subprocess.DEVNULL)
    client = Client(("127.0.0.1", port), timeout=20, connect_timeout=20, default_noreply=False)

    def store(body: str) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            with suppress(MemcacheError, OSError):
                if client.set("jobs", body):
                    return
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        store("before")
        assert fleet.owner.stop() == 0
        store("after")
        assert drained(client, "jobs") == [b"before", b"after"]
    finally:
        client.close()
        process.terminate()
        process.wait()
    fleet.took_over()
    fleet.standby.start()
    with closing(fleet.owner.client()) as own:
        drained(own, "probe")


def test_what_was_acknowledged_outlives_the_owner(fleet: Fleet) -> None:
    with closing(fleet.owner.client()) as client:
        for number in range(50):
            assert client.set("jobs", str(number))
        for number in range(10):
            assert client.get("jobs/open") == str(number).encode()
            assert client.get("jobs/close") is None
        assert client.get("jobs/open") == b"10"
        fleet.owner.kill()
    fleet.took_over()

    with closing(fleet.owner.client()) as client:
        assert drained(client, "jobs") == [str(number).encode() for number in range(10, 50)]
    fleet.standby.start()
    assert fleet.standby.ready_line.startswith(f"standby of {fleet.owner.data_dir.name} ")


def test_an_owner_that_must_stop_lets_the_other_claim_at_once(fleet: Fleet) -> None:
    with closing(fleet.owner.client()) as client:
        client.set("jobs", "left")
    until(lambda: asked(fleet.standby, "/ready")[0] == 503, fleet.standby)
    assert fleet.owner.stop() == 0
    fleet.took_over()

    with closing(fleet.owner.client()) as client:
        assert drained(client, "jobs") == [b"left"]
    fleet.standby.start()


def test_status_names_the_owner_and_who_waits(fleet: Fleet, command: Command) -> None:
    stored(fleet.owner)
    owner, standby = fleet.owner.data_dir.name, fleet.standby.data_dir.name
    lines = command("fleet", "status", fleet.server.address).out.decode().splitlines()
    assert lines[0].startswith(f"slice 1: owned by {owner} at there:{owner}, epoch ")
    assert lines[1].startswith(f"waits: {standby} at there:{standby}, seen ")
    assert lines[2:4] == [
        f"server: PostgreSQL {fleet.server.ask('SHOW server_version')[0][0]} at "
        f"{fleet.server.address}", "standby: none",
    ]  # fmt: skip
    assert lines[4].startswith("tables: version 3, ")


def test_an_owner_that_is_asked_lets_the_other_take_over(fleet: Fleet, command: Command) -> None:
    stored(fleet.owner, "jobs")
    began = fleet.owner.pid
    ended = command("fleet", "release", fleet.server.address)
    owner, standby = fleet.owner.data_dir.name, fleet.standby.data_dir.name
    assert (ended.code, ended.out.decode().splitlines()) == (
        0, [f"{owner} has released slice 1", f"{standby} at there:{standby} owns it"]
    ), ended  # fmt: skip
    fleet.took_over()
    with closing(fleet.owner.client()) as client:
        assert drained(client, "jobs") == [b"x"]
    until(lambda: asked(fleet.standby, "/ready")[0] == 503, fleet.standby)
    assert fleet.standby.pid == began, "the process goes on as a standby"


def test_an_owner_that_wakes_after_the_takeover_answers_nothing(fleet: Fleet) -> None:
    with closing(fleet.owner.client()) as client:
        client.set("jobs", "one")
    asleep = fleet.owner
    answers = list[object]()

    def ask(*requests: bytes) -> None:
        try:
            with asleep.socket(SECONDS) as connection:
                connection.sendall(b"".join(requests))
                while data := connection.recv(4096):
                    answers.append(data)
        except OSError as error:
            answers.append(error)

    heard = len(asleep.lines)
    os.kill(asleep.pid, signal.SIGSTOP)
    # The kernel takes them; the process executes them when it wakes.
    asking = threading.Thread(
        target=ask, args=(b"get jobs/open\r\n", b"set jobs 0 0 1\r\nx\r\n", b"get jobs/close\r\n")
    )
    asking.start()
    fleet.took_over()
    with closing(fleet.owner.client()) as client:
        assert client.get("jobs/open") == b"one"
        client.get("jobs/close")
        os.kill(asleep.pid, signal.SIGCONT)
        asking.join(SECONDS)

        assert not asking.is_alive()
        assert not any(isinstance(each, bytes) and b"VALUE" in each for each in answers), answers
        assert not any(isinstance(each, bytes) and b"STORED" in each for each in answers), answers
        until(lambda: any("standby of" in line for line in asleep.lines[heard:]), asleep)
        assert client.get("jobs/open") is None
    assert any("this process ends, and answers nothing more" in each for each in asleep.lines)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_owner_that_must_stop_while_it_becomes_a_standby_stops(
    fleet: Fleet, number: signal.Signals
) -> None:
    """Between its two lives a process has no loop that hears of a signal."""
    asleep = fleet.owner
    heard = len(asleep.lines)
    os.kill(asleep.pid, signal.SIGSTOP)
    fleet.took_over()
    os.kill(asleep.pid, signal.SIGCONT)
    until(lambda: any("stopped: another" in line for line in asleep.lines[heard:]), asleep, 0.001)
    os.kill(asleep.pid, signal.SIGHUP)
    os.kill(asleep.pid, number)

    code = asleep.wait()
    assert code == 0, "".join(asleep.lines[heard:])
    asleep.start()


def test_while_the_engine_is_gone_nothing_is_stored_and_then_it_goes_on(fleet: Fleet) -> None:
    with closing(fleet.owner.client()) as client:
        client.set("jobs", "before")
    fleet.server.kill()
    until(lambda: asked(fleet.owner, "/ready")[0] == 503, fleet.owner)
    with closing(fleet.owner.client()) as client:
        with pytest.raises(MemcacheServerError, match="the engine does not answer"):
            client.set("jobs", "no")
        with pytest.raises(MemcacheServerError, match="the engine does not answer"):
            client.get("jobs/open")
    assert asked(fleet.owner, "/queues")[0] == 503

    fleet.server.start()
    # Nobody has owned it meanwhile, so that either may now.
    until(lambda: 200 in {asked(each, "/ready")[0] for each in fleet.members.values()}, fleet.owner)
    if asked(fleet.owner, "/ready")[0] != 200:
        fleet.took_over()
    with closing(fleet.owner.client()) as client:
        assert drained(client, "jobs") == [b"before"]
