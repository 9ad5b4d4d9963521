"""`kestrelpy fleet reslice`, as a user runs it: the same items, leases and ids in other slices.

Promise stored: kill of the command that moves queues to other slices.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from pymemcache.client.base import Client

from tests.process.cli.command import Command
from tests.process.router.test_slices import said
from tests.support.daemon import DaemonProcess

LONG = "A" * 100  # the folder of such a queue does not have the whole name
NAMES = [*(f"q{number}" for number in range(7)), LONG]
ITEMS = 10


def config(slices: int, groups: str = "[]") -> str:
    return f"""[fleet]
slices = {slices}
groups = {groups}
[queue_defaults]
dedupe_window = "1h"
max_attempts = 1
retain = "1h"
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=config(1)) as running:
        yield running


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(1, tmp_path)


def words(server: DaemonProcess, slices: int) -> list[str]:
    file = ("--config", str(server.config_file))
    return ["fleet", "reslice", str(server.data_dir), *file, "--slices", str(slices)]


def reslice(command: Command, server: DaemonProcess, slices: int = 0) -> str:
    """Run it to its end, and return what it prints."""
    ended = command(*(words(server, slices) if slices else words(server, slices)[:-2]))
    assert ended.code == 0, ended
    return ended.out.decode()


def is_started(server: DaemonProcess) -> bool:
    """True if the server starts."""
    try:
        server.start()
    except AssertionError:
        return False
    return True


def said_one(server: DaemonProcess, line: str) -> bytes:
    return said(server, line.encode() + b"\r\n", b"\r\n")


class Stored:
    """What a server was given, and must have in any number of slices."""

    def __init__(self, server: DaemonProcess) -> None:
        self.server = server
        self.tokens: dict[str, int] = {}
        self.markers: dict[str, bytes | None] = {}

    def fill(self) -> None:
        """Store items, lease one by token, let one die, and move some to other queues."""
        with closing(self.server.client()) as client:
            for name in NAMES:
                assert client.get(f"{name}+audit") is None  # the child begins here
                for number in range(ITEMS):
                    assert client.set(f"{name}/id=i{number}", f"{name} {number}")
                value, token = client.gets(f"{name}/open/lease=1h")
                assert value == f"{name} 0".encode()
                self.tokens[name] = int(token)
                assert client.get(f"{name}/open") == f"{name} 1".encode()
                assert client.get(f"{name}/abort") is None  # its one attempt: a dead letter
                self.move(name)
                self.markers[name] = client.gets(f"{name}/peek")[1]

    def move(self, name: str) -> None:
        assert said_one(self.server, f"move {name} {name}.moved 2") == b"2\r\n"

    def check(self) -> None:
        """Nothing is lost, nothing is twice, and the ids and leases of before are known."""
        with closing(self.server.client()) as client:
            for name in NAMES:
                assert client.gets(f"{name}/peek")[1] == self.markers[name]
                assert client.set(f"{name}/id=i{ITEMS - 1}", "again")  # an id that was seen
                assert said_one(self.server, f"redrive {name} all") == b"1\r\n"
                assert client.get(f"{name}/close/token={self.tokens[name]}") is None
                assert taken(client, name) == bodies(name, [*range(4, ITEMS), 1])
                assert taken(client, f"{name}.moved") == bodies(name, [2, 3])
                assert taken(client, f"{name}+audit") == bodies(name, range(ITEMS))


def bodies(name: str, numbers: Iterable[int]) -> list[bytes]:
    return [f"{name} {number}".encode() for number in numbers]


def taken(client: Client, queue: str) -> list[bytes]:
    """Take all items out of a queue."""
    found = []
    while (value := client.get(queue)) is not None:
        found.append(value)
    return found


def test_a_start_takes_the_long_names_of_its_slices_for_their_own(server: DaemonProcess) -> None:
    assert server.stop() == 0
    server.config_file.write_text(config(4))
    server.start()
    with closing(server.client()) as client:
        assert client.set(LONG, "1")
        assert server.stop() == 0
        server.start()
        assert server.client().get(LONG) == b"1"


def test_all_that_was_stored_is_the_same_in_other_slices(
    server: DaemonProcess, command: Command
) -> None:
    stored = Stored(server)
    stored.fill()
    for slices, groups in ((3, "[]"), (4, "[]"), (4, '["q1*"]'), (2, "[]"), (1, "[]"), (5, "[]")):
        assert server.stop() == 0
        server.config_file.write_text(config(slices, groups))
        assert not is_started(server)
        assert slices > 1 or not (server.data_dir / "server-id").exists()  # it has made no file
        ended = reslice(command, server)
        assert f" in {'one slice' if slices == 1 else f'{slices} slices'} now, " in ended
        assert "nothing to move" in reslice(command, server)
        server.start()
        with closing(server.client()) as client:  # each slice stores, and moves to others
            assert client.set(f"again.{slices}", "1")
            assert said_one(server, f"move again.{slices} again 1") == b"1\r\n"
    assert len(taken(server.client(), "again")) == 6
    stored.check()


def test_a_command_that_is_killed_goes_on_and_no_server_starts_meanwhile(
    server: DaemonProcess, command: Command
) -> None:
    seed = int(os.environ.get("SEED", random.randrange(1 << 20)))
    print(f"SEED={seed}")
    chance, refused = random.Random(seed), 0
    stored, before = Stored(server), 1
    stored.fill()
    assert server.stop() == 0
    began = time.monotonic()
    ran = reslice(command, server, 7)
    whole_s = time.monotonic() - began
    assert "7 slices now" in ran
    before = 7
    for slices in (3, 1, 4, 2, 6, 1, 3):
        process = command.start(*words(server, slices))
        with suppress(subprocess.TimeoutExpired):
            process.wait(whole_s * chance.uniform(0.6, 1.0))
        process.kill()
        process.communicate()
        is_halfway = (server.data_dir / "reslice").exists()
        for number in {before, slices} if is_halfway else ():
            server.config_file.write_text(config(number))
            server.lines.clear()
            assert not is_started(server)
            assert "run `kestrelpy fleet reslice` again" in "".join(server.lines)
            refused += 1
        reslice(command, server, slices)
        before = slices
    print(f"refused {refused} starts")
    server.config_file.write_text(config(before))
    server.start()
    stored.check()


def test_a_server_that_runs_is_not_touched(server: DaemonProcess, command: Command) -> None:
    for slices in (1, 3):
        ended = command(*words(server, 2))
        assert ended.is_sentence(2), ended
        assert "another kestrelpy is using this data directory" in ended.err
        if slices == 1:
            assert server.stop() == 0
            reslice(command, server, 3)
            server.config_file.write_text(config(3))
            server.start()
