"""The listening sockets, and that none is left after the end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from pathlib import Path

import pytest

from kestrelpy.protocol import Wire
from kestrelpy.server.connections import listeners as listeners_of
from kestrelpy.server.connections.listeners import CannotListen, Listeners
from tests.support.guarded import certificate


def silent(wire: Wire) -> asyncio.Protocol:
    return asyncio.Protocol()


async def test_a_closed_listener_accepts_no_connection_on_port_or_socket(
    tmp_path: Path,
) -> None:
    listeners = Listeners(silent, 5)
    path = tmp_path / "socket"
    lines = await listeners.listen("127.0.0.1", 0, path)
    port = int(lines[0].rpartition(":")[2])
    for each in (asyncio.open_connection("127.0.0.1", port), asyncio.open_unix_connection(path)):
        _, writer = await each
        writer.close()

    listeners.close()
    await asyncio.sleep(0)

    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await asyncio.open_connection("127.0.0.1", port)
    with pytest.raises((ConnectionRefusedError, FileNotFoundError)):
        await asyncio.open_unix_connection(path)


async def test_a_socket_of_another_process_is_left_alone(tmp_path: Path) -> None:
    first, second = Listeners(silent, 5), Listeners(silent, 5)
    path = tmp_path / "socket"
    await first.listen("127.0.0.1", 0, path)

    with pytest.raises(CannotListen, match="another process answers there"):
        await second.listen("127.0.0.1", 0, path)

    assert path.is_socket()
    first.close()
    second.close()
    third = Listeners(silent, 5)
    await asyncio.sleep(0)
    await third.listen("127.0.0.1", 0, path)  # a file left by a killed daemon does not matter
    third.close()


async def test_a_socket_whose_owner_hangs_is_left_to_him(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with contextlib.ExitStack() as opened:
        owner = opened.enter_context(socket.socket(socket.AF_UNIX))
        owner.bind(str(path))
        owner.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:  # as many as may wait until they are accepted
                waiting = opened.enter_context(socket.socket(socket.AF_UNIX))
                waiting.setblocking(False)
                waiting.connect(str(path))
        listeners = Listeners(silent, 5)

        with pytest.raises(CannotListen, match="another process answers there"):
            await listeners.listen("127.0.0.1", 0, path)

        assert path.is_socket()
        listeners.close()


async def test_the_end_removes_no_socket_that_another_process_has_made_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "socket"
    first, second = Listeners(silent, 5), Listeners(silent, 5)
    await first.listen("127.0.0.1", 0, path)
    path.unlink()
    await second.listen("127.0.0.1", 0, path)

    first.close()
    first.remove_socket()

    assert path.is_socket()
    _, writer = await asyncio.open_unix_connection(path)
    writer.close()
    second.close()
    second.remove_socket()
    assert not path.exists()


@pytest.mark.parametrize("name", ["gone", "another", "folder"])
async def test_the_end_does_not_mind_what_became_of_the_socket(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "socket"
    listeners = Listeners(silent, 5)
    await listeners.listen("127.0.0.1", 0, path)
    path.unlink()
    if name == "another":
        path.write_bytes(b"a file")
    elif name == "folder":
        folder.rmdir()

    listeners.close()
    listeners.remove_socket()

    assert path.exists() == (name == "another")


@pytest.mark.parametrize(
    "error", [PermissionError(), BlockingIOError(), TimeoutError(), OSError(5)]
)
async def test_a_socket_that_may_be_in_use_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", fail, raising=False)
    with pytest.raises(CannotListen):
        await Listeners(silent, 5).listen("127.0.0.1", 0, path)
    assert path.is_socket()


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "none"])
@pytest.mark.parametrize("is_later", [True, False], ids=["later", "together"])
async def test_one_of_several_that_start_at_once_gets_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_left: bool, is_later: bool
) -> None:
    path, looked = tmp_path / "socket", 0

    async def look(_: Path) -> bool:  # all look before any goes on; or one after the other
        nonlocal looked
        looked += 1
        for _turn in range(20 + 20 * looked * is_later):
            await asyncio.sleep(0)
        return False

    if is_left:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
        monkeypatch.setattr(listeners_of, "_answers", look)
    several = [Listeners(silent, 5) for _ in range(3)]

    done = await asyncio.gather(
        *(each.listen("127.0.0.1", 0, path) for each in several), return_exceptions=True
    )

    assert [type(each) for each in done if not isinstance(each, list)] == [CannotListen] * 2
    assert os.listdir(tmp_path) == ["socket"]
    _, writer = await asyncio.open_unix_connection(path)
    writer.close()
    for each in several:
        each.close()
        each.remove_socket()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("target", ["nowhere", "socket"])
async def test_a_link_that_leads_nowhere_is_left_alone(tmp_path: Path, target: str) -> None:
    path = tmp_path / "socket"
    path.symlink_to(target)

    with pytest.raises(CannotListen, match="File exists"):
        await Listeners(silent, 5).listen("127.0.0.1", 0, path)

    assert path.is_symlink()


@pytest.mark.parametrize(("umask", "folder_mode", "is_named"), [
    (0o000, 0o755, True), (0o000, 0o700, False), (0o022, 0o755, False), (0o007, 0o755, False),
])  # fmt: skip
async def test_a_socket_that_everybody_may_use_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, umask: int, folder_mode: int, is_named: bool
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(folder_mode)
    listeners, before = Listeners(silent, 5), os.umask(umask)
    try:
        await listeners.listen("127.0.0.1", 0, folder / "socket")
    finally:
        os.umask(before)
    listeners.close()

    said = [each.getMessage() for each in caplog.records]
    assert [f"{folder}/socket: every user of this machine" in each for each in said] == (
        [True] if is_named else []
    )


@pytest.mark.parametrize("is_handed_over", [False, True])
async def test_every_port_of_memcache_speaks_tls_and_a_unix_socket_does_not(
    is_handed_over: bool, tmp_path: Path
) -> None:
    certificate(tmp_path, "it")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "it.pem", tmp_path / "it.key")
    trusts = ssl.create_default_context(cafile=str(tmp_path / "it.pem"))
    listeners = Listeners(silent, 5, tls)
    path = tmp_path / "socket"
    if is_handed_over:
        handed = [socket.create_server(("127.0.0.1", 0)), socket.create_server(("127.0.0.1", 0))]
        lines = await listeners.take_over([("", handed[0]), ("text", handed[1])])
        ports = [each.getsockname()[1] for each in handed]
    else:
        lines = await listeners.listen("127.0.0.1", 0, path, 0)
        ports = [int(each.rpartition(":")[2]) for each in lines if ":" in each[11:]]
        _, writer = await asyncio.open_unix_connection(path)
        writer.close()
    assert len(ports) == 2, lines
    for port in ports:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusts)
        assert writer.get_extra_info("cipher")
        writer.close()
    listeners.close()
