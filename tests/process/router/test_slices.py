"""Several slices behind one port, as real processes: nothing is lost when one of them is killed.

Promise stored: kill of a slice under load.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError

from kestrelpy.placement import Placement
from tests.support.daemon import DaemonProcess

SLICES = 3
QUEUES = ("a", "c", "g")  # one in each slice
CONFIG = f"[server]\nallow_shutdown = true\n[fleet]\nslices = {SLICES}\n"
GONE = (OSError, MemcacheError, EOFError)


@pytest.fixture
def router(tmp_path: Path) -> Iterator[DaemonProcess]:
    with DaemonProcess(tmp_path / "data", config=CONFIG) as running:
        yield running


def slices_of(router: DaemonProcess) -> dict[int, int]:
    """The processes of the slices, by their number."""
    children = Path(f"/proc/{router.pid}/task/{router.pid}/children").read_text().split()
    found = {int(pid): environment(int(pid)).get(b"KESTRELPY_FLEET_SLICE") for pid in children}
    return {int(number): pid for pid, number in found.items() if number}


def environment(pid: int) -> dict[bytes, bytes]:
    try:
        pairs = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    return dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)


def eventually(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def serves(router: DaemonProcess, *names: str) -> bool:
    """True if the slices of these queues answer. A slice that starts may take longer than the time
    for which a request waits for it."""
    client = router.client(30.0)
    try:
        return all(client.get(f"{name}/peek") or True for name in names)
    except GONE:
        return False
    finally:
        client.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def said(router: DaemonProcess, request: bytes, end: bytes) -> bytes:
    with router.socket() as sock:
        sock.sendall(request)
        data = b""
        while not data.endswith(end) and (piece := sock.recv(65536)):
            data += piece
    return data


def test_the_queues_of_these_tests_are_in_three_slices() -> None:
    assert {Placement(SLICES).slice_of(name.encode()) for name in QUEUES} == {1, 2, 3}


def test_items_of_all_slices_outlive_a_stop_and_a_kill(router: DaemonProcess) -> None:
    for how in (router.stop, router.kill):
        client = router.client()
        for name in QUEUES:
            assert client.set(name, name * 1000)
        began = slices_of(router)
        how()
        eventually(lambda began=began: not any(map(is_running, began.values())))
        router.start()
    client = router.client()
    for name in QUEUES:
        assert [client.get(name) for _ in range(3)] == [name.encode() * 1000] * 2 + [None]
    assert {int(each.name) for each in (router.data_dir / "slices-3").iterdir()} == {1, 2, 3}


def test_a_killed_slice_hurts_its_own_clients_alone_and_comes_back(router: DaemonProcess) -> None:
    clients = {name: router.client() for name in QUEUES}
    for name, client in clients.items():
        assert client.set(name, "1")
        assert client.get(f"{name}/open") == b"1"
    killed, number = "a", Placement(SLICES).slice_of(b"a")
    pid = slices_of(router)[number]
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: slices_of(router).get(number) not in (None, pid))
    for name, client in clients.items():
        if name != killed:
            assert client.get(f"{name}/close") is None
            assert client.get(name) is None  # it was confirmed
    with pytest.raises(GONE):
        clients[killed].get(f"{killed}/close")
    # The item went back to the head.
    eventually(lambda: serves(router, killed))
    assert router.client(30.0).get(killed) == b"1"


def test_a_slice_that_starts_again_has_the_places_of_the_routers_start(
    router: DaemonProcess,
) -> None:
    assert router.client().set("a", "1")
    number = Placement(SLICES).slice_of(b"a")
    assert Placement(SLICES, ["*"]).slice_of(b"a") != number
    router.config_file.write_text(
        CONFIG.replace("slices = 3", "slices = 5") + 'groups = ["*"]\n[queues.a]\nmax_items = 1\n'
    )
    began = slices_of(router)[number]
    os.kill(began, signal.SIGKILL)
    eventually(lambda: slices_of(router).get(number) not in (None, began) and serves(router, "a"))
    client = router.client(30.0)
    assert not client.set("a", "2")  # the block of its queue is in force
    assert client.get("a") == b"1"
    assert said(router, b"reload\r\n", b"\r\n") == b"Reloaded config.\r\n"
    router.stop()
    found = subprocess.run(
        [sys.executable, "-m", "kestrelpy", "check-config", "--config", str(router.config_file)],
        capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {
            "KESTRELPY_SERVER_HTTP_PORT": "off", "KESTRELPY_FLEET_SLICES": "3",
            "KESTRELPY_SERVER_DATA_DIR": str(router.data_dir),
        },
    )  # fmt: skip
    assert found.returncode == 2
    assert f"queue a is in slice {number}, and by groups in [fleet]" in found.stderr


def test_each_client_has_descriptors_for_all_slices(tmp_path: Path) -> None:
    with DaemonProcess(tmp_path / "data", config=CONFIG).start("prlimit", "--nofile=64:300") as few:
        assert any("max_connections lowered from 10000 to 210" in line for line in few.lines)
        clients = [few.socket() for _ in range(210)]
        for each in clients:
            each.sendall(b"get a\r\nget c\r\nget g\r\n")
        for each in clients:
            data = b""
            while len(data) < len(b"END\r\n" * 3):
                data += each.recv(100)
            assert data == b"END\r\n" * 3
        assert said(few, b"", b"\r\n") == b"SERVER_ERROR too many connections\r\n"
        for each in clients:
            each.close()


def test_a_hang_up_gives_back_what_its_client_held_in_a_slice(router: DaemonProcess) -> None:
    client = router.client()
    assert client.set("a", "1")
    assert client.get("a/open") == b"1"
    client.close()
    assert router.client(30.0).get("a/t=20s") == b"1"


def test_a_large_item_and_a_client_that_does_not_read(router: DaemonProcess) -> None:
    client = router.client(60.0)
    body = os.urandom(1 << 20)
    for _ in range(6):
        assert client.set("c", body)
    with router.socket(60.0) as lazy:
        lazy.sendall(b"get c/peek\r\n" * 300)
        time.sleep(0.5)
        assert client.set("c", "small")  # others go on
        held_kib = int(
            next(
                line.split()[1]
                for line in Path(f"/proc/{router.pid}/status").read_text().splitlines()
                if line.startswith("VmRSS")
            )
        )
        assert held_kib < 200 << 10
        head = b"VALUE c/peek 0 1048576\r\n"
        answer = b""
        while len(answer) < len(head) + len(body):
            answer += lazy.recv(1 << 20)
        assert answer.startswith(head + body)


def test_a_reload_reaches_every_slice(router: DaemonProcess) -> None:
    router.config_file.write_text(CONFIG + "[queue_defaults]\nmax_items = 1\n")
    assert said(router, b"reload\r\n", b"\r\n") == b"Reloaded config.\r\n"
    client = router.client()
    assert [client.set(name, "1") for name in QUEUES * 2] == [True] * 3 + [False] * 3
    router.config_file.write_text(CONFIG + "[queue_defaults]\nmax_items = 2\n")
    # The keys of a queue that has an item cannot change: its slice refuses, and no other changes.
    refused = CONFIG + "[queue_defaults]\nmax_items = 5\n"
    refused += '[queues.g]\nkey_format = "json"\nkey = ["k"]\n'
    router.config_file.write_text(refused)
    assert b"queue g: key settings cannot change" in said(router, b"reload\r\n", b"\r\n")
    assert [client.set(name, "2") for name in QUEUES] == [False] * 3
    router.config_file.write_text(CONFIG + "[queue_defaults]\nmax_items = 2\n")
    os.kill(router.pid, signal.SIGHUP)
    eventually(lambda: all(client.set(name, "2") or client.get(name) is None for name in QUEUES))


@pytest.mark.parametrize("request_", [b"shutdown\r\n", b""])
def test_an_orderly_end_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request_: bytes
) -> None:
    places = tmp_path / "places"
    places.mkdir()
    monkeypatch.setenv("TMPDIR", str(places))
    with DaemonProcess(tmp_path / "data", config=CONFIG) as router:
        began = slices_of(router)
        assert len(began) == SLICES
        if request_:
            assert said(router, request_, b"never") == b""
            assert router.wait() == 0
        else:
            assert router.stop() == 0
    assert not any(map(is_running, began.values()))
    assert list(places.glob("kestrelpy-*")) == []


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ("", "its queues are in 3 slices: write slices = 3 in [fleet], or move them"),
        ("[fleet]\nslices = 4\n", "its queues are in 3 slices: write slices = 3"),
    ],
)
def test_another_number_of_slices_is_refused(
    router: DaemonProcess, config: str, sentence: str
) -> None:
    router.stop()
    router.config_file.write_text(config)
    for command in (["serve", "--port", "0", "--data-dir", str(router.data_dir)], ["check-config"]):
        found = subprocess.run(
            [sys.executable, "-m", "kestrelpy", *command, "--config", str(router.config_file)],
            capture_output=True, text=True, timeout=60, check=False,
            env=os.environ | {
                "KESTRELPY_SERVER_HTTP_PORT": "off",
                "KESTRELPY_SERVER_DATA_DIR": str(router.data_dir),
            },
        )  # fmt: skip
        assert found.returncode == 2, found.stderr
        assert sentence in found.stderr
        assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("backup", "to"),
        ("restore", "backup"),
        ("export-kestrel", "to"),
        ("import-kestrel", "kestrel"),
        ("journal", "verify"),
        ("journal", "dump"),
        ("journal", "repair"),
    ],
    ids=" ".join,
)
def test_a_tool_takes_no_folder_of_slices_for_a_data_directory(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    for number in (1, 2, 10):
        (tmp_path / "data" / "slices-10" / str(number)).mkdir(parents=True)
    (tmp_path / "kestrel").mkdir()
    found = subprocess.run(
        [sys.executable, "-m", "kestrelpy", *words, "--data-dir", "data"],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert found.returncode == 2
    assert found.stderr == (
        "kestrelpy: data: its queues are in 3 slices: name one at a time, data/slices-10/1 to "
        "data/slices-10/10\n"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "kestrel"]


def test_a_slice_that_cannot_start_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    blocked = tmp_path / "data" / "slices-3"
    blocked.mkdir(parents=True)
    (blocked / "2").write_text("no folder")
    with pytest.raises(AssertionError, match="slice 2 cannot start") as raised:
        DaemonProcess(tmp_path / "data", config=CONFIG).start()
    assert "slices-3/2: Not a directory" in str(raised.value)


def test_a_stop_cuts_no_answer_off_and_waits_for_nobody(router: DaemonProcess) -> None:
    client = router.client(60.0)
    body = os.urandom(6 << 20)
    assert client.set("a", body)
    with router.socket(60.0) as slow, router.socket(60.0) as waiting:
        waiting.sendall(b"get c/t=60s\r\n")
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        slow.sendall(b"get a\r\n")
        assert slow.recv(10) == b"VALUE a 0 "
        began = time.monotonic()
        os.kill(router.pid, signal.SIGTERM)
        assert waiting.recv(100) == b"END\r\n"
        data = b""
        while piece := slow.recv(1 << 20):
            data += piece
        assert data.endswith(body + b"\r\nEND\r\n")
        assert router.wait() == 0
        assert time.monotonic() - began < 30


class Load:
    """Clients that store and fetch in all slices, and write down what they were told."""

    def __init__(self, router: DaemonProcess) -> None:
        self.router = router
        self.acknowledged: set[bytes] = set()
        self.sent: set[bytes] = set()
        self.confirmed: list[bytes] = []
        self.in_doubt: set[bytes] = set()  # a confirm was sent, and its answer lost
        self.is_over = False

    def produce(self, who: int) -> None:
        client, number = self.router.client(30.0), 0
        while not self.is_over:
            number += 1
            body = b"%d-%d" % (who, number)
            self.sent.add(body)
            try:
                if client.set(QUEUES[number % len(QUEUES)], body):
                    self.acknowledged.add(body)
            except GONE:
                client.close()

    def consume(self) -> None:
        client, number = self.router.client(30.0), 0
        while not self.is_over:
            number += 1
            name, body = QUEUES[number % len(QUEUES)], None
            try:
                body = client.get(f"{name}/open")
                if body is not None:
                    self.in_doubt.add(body)
                    client.get(f"{name}/close")
                    self.confirmed.append(body)
                    self.in_doubt.discard(body)
            except GONE:
                client.close()


def test_nothing_is_lost_when_slices_are_killed_under_load(router: DaemonProcess) -> None:
    load, chance = Load(router), random.Random(7)
    threads = [threading.Thread(target=load.produce, args=(who,)) for who in range(3)]
    threads += [threading.Thread(target=load.consume) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(4):
            before = len(load.acknowledged)
            eventually(lambda before=before: len(load.acknowledged) >= before + 60)
            os.kill(chance.choice(list(slices_of(router).values())), signal.SIGKILL)
            eventually(lambda: len(slices_of(router)) == SLICES)
    finally:
        load.is_over = True
        for thread in threads:
            thread.join()
    eventually(lambda: serves(router, *QUEUES))
    client, left = router.client(30.0), list[bytes]()
    for name in QUEUES:
        left += iter(lambda name=name: client.get(name), None)
    assert len(left) == len(set(left))
    assert load.acknowledged - {*left} - {*load.confirmed} - load.in_doubt == set()
    assert {*left} <= load.sent
    assert not {*left} & {*load.confirmed}
    assert len(load.confirmed) == len(set(load.confirmed))


def test_a_queue_may_declare_larger_items_than_the_file_of_the_router(
    router: DaemonProcess,
) -> None:
    declared = b'max_item_size = "9MiB"'
    size = 9 << 20
    with router.socket(30) as sock, sock.makefile("rb") as answers:
        sock.sendall(b"set a/declare 0 0 %d\r\n%b\r\n" % (len(declared), declared))
        assert answers.readline() == b"STORED\r\n"
        for length, said in (
            (size, b"STORED\r\n"),
            (size + 1, b"SERVER_ERROR item too large (9437185 bytes, limit 9437184)\r\n"),
        ):
            sock.sendall(b"set a 0 0 %d\r\n%b\r\n" % (length, b"x" * length))
            assert answers.readline() == said
        sock.sendall(b"get a\r\n")
        assert answers.readline() == b"VALUE a 0 %d\r\n" % size
        assert answers.read(size + 7) == b"x" * size + b"\r\nEND\r\n"
