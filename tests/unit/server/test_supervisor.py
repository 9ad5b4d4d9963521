"""The daemon and its supervisor: the notifications that it sends, the sockets that it takes."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path

import pytest

from kestrelpy.server import supervisor
from kestrelpy.server.supervisor import BadInheritance, Supervisor


@pytest.fixture
def notes(tmp_path: Path) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.bind(str(tmp_path / "notify"))
    made.setblocking(False)
    return made


def notes_in(notes: socket.socket) -> list[str]:
    found = list[str]()
    while True:
        try:
            found.append(notes.recv(4096).decode())
        except BlockingIOError:
            return found


def test_each_moment_is_one_datagram(notes: socket.socket) -> None:
    made = Supervisor({"NOTIFY_SOCKET": notes.getsockname()})
    made.ready("ready: 2 queues")
    made.reloading()
    made.stopping()

    ready, reloading, stopping = notes_in(notes)
    assert ready == "READY=1\nSTATUS=ready: 2 queues"
    assert reloading.startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert stopping == "STOPPING=1\nSTATUS=stopping"


def test_a_socket_without_a_file_is_notified_as_well() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as abstract:
        abstract.bind(f"\0kestrelpy-test-{os.getpid()}")
        abstract.setblocking(False)
        Supervisor({"NOTIFY_SOCKET": f"@kestrelpy-test-{os.getpid()}"}).stopping()
        assert len(notes_in(abstract)) == 1


def test_without_a_supervisor_nothing_happens() -> None:
    made = Supervisor({})
    made.ready("ready")
    made.reloading()
    made.stopping()

    asyncio.run(made.prolong_start())
    asyncio.run(made.keep_alive())
    assert made.sockets() == []


def test_a_supervisor_that_is_gone_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = Supervisor({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with caplog.at_level(logging.WARNING):
        made.ready("ready")
        made.stopping()

    (line,) = caplog.messages
    assert line == f"NOTIFY_SOCKET {tmp_path}/gone: [Errno 2] No such file or directory"


def test_children_see_none_of_its_variables() -> None:
    environ = {
        "NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1", "LISTEN_PID": "1",
        "LISTEN_FDS": "1", "LISTEN_FDNAMES": "a", "HOME": "/",
    }  # fmt: skip
    Supervisor(environ)

    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    "variables",
    [
        {"WATCHDOG_USEC": "100000", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": ""},
    ],
)
def test_a_watchdog_of_another_process_is_not_notified(
    notes: socket.socket, variables: dict[str, str]
) -> None:
    asyncio.run(Supervisor({"NOTIFY_SOCKET": notes.getsockname(), **variables}).keep_alive())

    assert notes_in(notes) == []


def test_the_watchdog_is_notified_twice_in_its_time(
    notes: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept = list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr(supervisor.asyncio, "sleep", sleep)
    variables = {"NOTIFY_SOCKET": notes.getsockname(), "WATCHDOG_USEC": "30000000"}
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Supervisor(variables).keep_alive())

    assert slept == [15.0] * 3
    assert notes_in(notes) == ["WATCHDOG=1"] * 3


def test_a_long_start_asks_for_more_time(
    notes: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float) -> None:
        assert seconds == 30.0
        raise asyncio.CancelledError

    monkeypatch.setattr(supervisor.asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Supervisor({"NOTIFY_SOCKET": notes.getsockname()}).prolong_start())

    assert notes_in(notes) == ["EXTEND_TIMEOUT_USEC=60000000\nSTATUS=starting"]


@pytest.mark.parametrize(
    "variables", [{"LISTEN_PID": "1", "LISTEN_FDS": "1"}, {"LISTEN_FDS": "1"}, {"LISTEN_PID": "x"}]
)
def test_sockets_for_another_process_are_left_alone(variables: dict[str, str]) -> None:
    assert Supervisor(dict(variables)).sockets() == []


def handed(monkeypatch: pytest.MonkeyPatch, descriptor: int) -> Supervisor:
    monkeypatch.setattr(supervisor, "FIRST_DESCRIPTOR", descriptor)
    return Supervisor(
        {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "jobs.socket"}
    )


def test_each_life_of_a_process_listens_on_a_copy_of_the_socket(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        made = handed(monkeypatch, os.dup(server.fileno()))
        ((name, sock),) = made.sockets()

        assert name == "jobs.socket"
        assert sock.getsockname() == server.getsockname()
        assert not os.get_inheritable(sock.fileno())
        sock.close()
        ((name, again),) = made.sockets()
        assert name == "jobs.socket"
        assert again.getsockname() == server.getsockname()
        assert not os.get_inheritable(again.fileno())
        for each in (again, made._handed[0][1]):
            each.close()


def test_what_is_no_listening_socket_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, notes: socket.socket, tmp_path: Path
) -> None:
    with (tmp_path / "file").open("w") as file, socket.socket() as unbound:
        for each in (file, unbound, notes):
            number = each.fileno()
            with pytest.raises(BadInheritance, match=rf"descriptor {number} \(jobs.socket\): "):
                handed(monkeypatch, number).sockets()
    closed = os.dup(notes.fileno())
    os.close(closed)
    with pytest.raises(BadInheritance, match="Bad file descriptor"):
        handed(monkeypatch, closed).sockets()


def test_a_supervisor_that_does_not_hear_is_one_line_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = str(tmp_path / "notify")
    made = Supervisor({"NOTIFY_SOCKET": place})
    for turn in (1, 2):
        made.stopping()
        made.stopping()
        assert len(caplog.messages) == turn
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(place)
            made.stopping()
        os.unlink(place)
