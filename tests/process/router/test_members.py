"""Several members with the slices of one engine, as real processes: any member serves any queue.

Promise stored: kill of a member under load.
Promise takeover: kill of a member that owns slices.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from pymemcache.exceptions import MemcacheError

from journal.engine.postgres import drain
from kestrelpy.examples.fleet.postgres_server import PostgresServer
from kestrelpy.placement import Placement
from tests.process.router.members import SECRET, SLICES, Fleet
from tests.process.router.test_slices import GONE, eventually, is_running, slices_of
from tests.process.router.test_users import ANNA, ROOT, Wire

QUEUES = ("a", "b", "g", "l")  # one in each slice
KEY = b"%b %b" % (Placement(SLICES).layout.encode(), SECRET.encode())


def test_the_queues_of_these_tests_are_in_four_slices() -> None:
    assert {Placement(SLICES).slice_of(name.encode()) for name in QUEUES} == {1, 2, 3, 4}


def test_any_member_serves_any_queue_and_leases_are_of_the_client(fleet: Fleet) -> None:
    a, b = fleet.start("a", "b")
    one, other = a.client(30.0), b.client(30.0)
    for name in QUEUES:
        assert one.set(name, name)
        assert other.get(f"{name}/open") == name.encode()
        assert one.get(name) is None
    assert other.get("a/close") is None
    other.close()
    eventually(lambda: all(one.get(f"{name}/open") == name.encode() for name in QUEUES[1:]))
    assert one.get("a/open") is None  # it was confirmed


def test_a_killed_member_loses_nothing_and_the_others_take_its_slices(fleet: Fleet) -> None:
    a, b = fleet.start("a", "b")
    kept, stop = {name: list[int]() for name in QUEUES}, threading.Event()

    def produce(name: str) -> None:
        number = 0
        while not stop.is_set():
            client = a.client(30.0)
            try:
                while not stop.is_set():
                    number += 1
                    if client.set(name, f"{number}"):
                        kept[name].append(number)
            except GONE:
                time.sleep(0.05)  # that one may be stored or not

    threads = [threading.Thread(target=produce, args=(name,)) for name in QUEUES]
    for each in threads:
        each.start()
    eventually(lambda: all(len(each) > 20 for each in kept.values()))
    orphans = slices_of(b)
    b.kill()
    eventually(lambda: set(fleet.owners().values()) == {"a"})
    before = {name: len(each) for name, each in kept.items()}
    eventually(lambda: all(len(kept[name]) > before[name] + 20 for name in QUEUES))
    stop.set()
    for each in threads:
        each.join()
    assert not any(map(is_running, orphans.values()))
    client = a.client(30.0)
    for name in QUEUES:
        got = list(iter(lambda name=name: client.get(name), None))
        numbers = list(map(int, got))
        assert set(kept[name]) <= set(numbers)
        assert numbers == sorted(set(numbers))


def test_a_member_that_comes_gets_its_share_and_a_drained_one_gives_all_up(fleet: Fleet) -> None:
    (a,) = fleet.start("a")
    client = a.client(30.0)
    assert all(client.set(name, name) for name in QUEUES)
    (b,) = fleet.start("b")
    assert set(fleet.owners().values()) == {"a", "b"}

    drain(fleet.address, "a", True)
    eventually(lambda: list(fleet.owners().values()) == ["b"] * SLICES)
    # It still leads clients to the others, and those that hold nothing notice nothing.
    assert [client.get(name) for name in QUEUES] == [name.encode() for name in QUEUES]
    drain(fleet.address, "a", False)
    fleet.wait_for_shares()
    assert b.stop() == 0


@pytest.mark.parametrize("sleeps", ["member", "process"])
def test_what_sleeps_answers_nothing_when_it_wakes_and_no_client_waits_for_it(
    fleet: Fleet, sleeps: str
) -> None:
    a, b = fleet.start("a", "b")
    number = next(number for number, name in fleet.owners().items() if name == "b")
    name = next(each for each in QUEUES if Placement(SLICES).slice_of(each.encode()) == number)
    assert a.client(30.0).set(name, "1")
    held = b.client(30.0)
    assert held.get(f"{name}/open") == b"1"
    is_member = sleeps == "member"
    asking = [each.socket(30.0) for each in ([a] if is_member else [a, b])]
    for each in asking:
        each.sendall(b"get %b/peek\r\n" % name.encode())
        assert each.recv(5) == b"END\r\n"
    ours = slices_of(b)
    processes = [b.pid, *ours.values()] if is_member else [ours[number]]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    for each in asking:
        each.sendall(b"get %b/peek\r\n" % name.encode())
    eventually(lambda: fleet.owners().get(number) == "a")
    assert [each.recv(100) for each in asking] == [b""] * len(asking)
    client = (a if is_member else b).client(30.0)
    assert client.get(name) == b"1"
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    with pytest.raises(GONE):
        assert held.get(f"{name}/close") is not None
    assert client.get(name) is None
    fleet.wait_for_shares()
    for each in asking:
        each.close()


def test_a_member_ends_when_told_to_though_the_engine_is_asleep(
    fleet: Fleet, server: PostgresServer
) -> None:
    a, b = fleet.start("a", "b")
    ours = [*slices_of(a).values(), *slices_of(b).values()]
    server.signal(signal.SIGSTOP)
    try:
        for each in (a, b):
            os.kill(each.pid, signal.SIGTERM)
        assert [each.wait() for each in (a, b)] == [0, 0]
        assert not any(map(is_running, ours))
    finally:
        server.signal(signal.SIGCONT)


def test_a_process_that_hangs_is_not_ready_to_take_its_slice_over(fleet: Fleet) -> None:
    _, b = fleet.start("a", "b")
    number = next(number for number, name in fleet.owners().items() if name == "a")

    def waits() -> tuple[int, ...]:
        return next(each.waits for each in fleet.engine.members() if each.member.name == "b")

    eventually(lambda: number in waits())
    waiting = slices_of(b)[number]
    os.kill(waiting, signal.SIGSTOP)
    eventually(lambda: number not in waits())
    os.kill(waiting, signal.SIGCONT)
    eventually(lambda: number in waits())


def test_slices_whose_router_hangs_are_taken_by_members_that_lead_clients_to_them(
    fleet: Fleet,
) -> None:
    a, b = fleet.start("a", "b")
    ours = slices_of(b)
    os.kill(b.pid, signal.SIGSTOP)
    eventually(lambda: list(fleet.owners().values()) == ["a"] * SLICES)
    client = a.client(30.0)
    assert all(client.set(name, name) for name in QUEUES)
    eventually(lambda: not any(map(is_running, ours.values())))
    os.kill(b.pid, signal.SIGCONT)
    fleet.wait_for_shares()
    assert b.stop() == 0


def test_slices_of_a_member_that_cannot_serve_them_are_taken_by_another(fleet: Fleet) -> None:
    b = fleet.member("b")
    b.data_dir.mkdir()
    for number in range(1, SLICES + 1):
        (b.data_dir / f"cache-{number}").write_text("no folder")
    b.start()
    a = fleet.member("a").start()
    eventually(lambda: list(fleet.owners().values()) == ["a"] * SLICES)
    for each in (a, b):
        client = each.client(30.0)
        assert all(client.set(name, name) for name in QUEUES)


@pytest.mark.parametrize(
    ("slices", "more", "says"),
    [
        (SLICES + 1, "", f"the data is in {SLICES} slices: write slices = {SLICES} in [fleet]"),
        (SLICES, 'groups = ["x*"]', "the data has other groups: write groups = [] in [fleet]"),
        (SLICES, "", "its secret_file in [fleet] is not that of this member"),
    ],
)
def test_a_member_with_other_settings_is_refused(
    fleet: Fleet, slices: int, more: str, says: str
) -> None:
    fleet.start("a")
    if "secret" in says:
        (fleet.folder / "secret").write_text("another-secret-of-members")
    b = fleet.member("b", slices, more)
    if "the data" in says:
        with pytest.raises(AssertionError, match="did not start"):
            b.start()
        assert says in "".join(b.lines)
        return
    b.start()
    with pytest.raises(MemcacheError, match="a: "):
        assert b.client(30.0).set("a", "1")
        assert b.client(30.0).set("b", "1")


def test_a_user_has_the_same_rights_at_every_member(tmp_path: Path, fleet: Fleet) -> None:
    fleet.more = ANNA + ROOT
    members = fleet.start("a", "b")
    for each in members:
        wire = Wire(each)
        assert wire.ask(b"set c 0 0 1\r\nx\r\n").startswith(b"CLIENT_ERROR")
        assert wire.log_in(b"anna", b"pear") == b"STORED\r\n"
        assert wire.ask(b"set a 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert wire.ask(b"set c 0 0 1\r\nx\r\n") == b"STORED\r\n"
        assert wire.ask(b"set b 0 0 1\r\nx\r\n").startswith(b"CLIENT_ERROR")
        assert wire.ask(b"set g 0 0 1\r\nx\r\n").startswith(b"CLIENT_ERROR")


@pytest.mark.parametrize(
    "line",
    [
        b"slice 1\r\n", b"slice x y z\r\n", b"slice 1 0 " + SECRET.encode() + b"\r\n",
        b"slice 1 %b\r\n" % KEY.split()[0], b"slice 9 %b\r\n" % KEY,
        b"slice 1 %b\r\nset a 0 0 1\r\nx\r\n" % KEY,
        b"slice " + b"1" * 2000,
    ],
)  # fmt: skip
def test_who_is_no_member_does_not_come_to_a_slice(fleet: Fleet, line: bytes) -> None:
    (a,) = fleet.start("a")
    with a.socket(30.0) as sock:
        sock.sendall(line)
        data = b""
        while piece := sock.recv(65536):
            data += piece
    assert data.startswith(b"SERVER_ERROR ")
    assert data.count(b"\r\n") == 1
