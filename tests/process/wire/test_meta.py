"""Meta commands over a real socket: memcached itself judges the framing, a client library the rest.

Both are used if they are there: memcached is a Debian package, meta-memcache is on PyPI.
"""

from __future__ import annotations

import importlib
import shutil
import socket
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw, wait_until

# Requests whose meaning is the same for a cache and for a queue, each line with its body.
SAME = (
    b"ms q 5\r\nhello\r\n", b"mg q/peek v\r\n", b"mg q/peek v f s k t O123\r\n",
    b"mg q/peek s v f\r\n", b"mg q/peek t\r\n", b"mg q/peek k O9\r\n", b"mg q/peek v q\r\n",
    b"mg nope v\r\n", b"mg nope v k O1\r\n", b"mg nope v q k\r\n", b"mg q/peek v O\r\n",
    b"mg q/peek L/x k P/y\r\n", b"ms q 2 ME k O4\r\nab\r\n", b"ms q 2 q O7 ME\r\nab\r\n",
    b"md q k O3\r\n", b"md q k O3\r\n", b"md q q\r\n", b"md nope q\r\n",
    b"ms q 0 F4294967295 T60 k\r\n\r\n", b"mg q/peek f v s t\r\n", b"ms q 1 q\r\nx\r\n",
    b"md q q\r\n", b"ms w 1 L/x\r\nx\r\n", b"mg  w/peek  v\r\n", b"mn\r\n",
)  # fmt: skip


@pytest.fixture
def memcached() -> Iterator[int]:
    program = shutil.which("memcached")
    if program is None:
        pytest.skip("memcached is not installed (Debian: apt-get install memcached)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [program, "-u", "nobody", "-l", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(words) as process:
        try:
            wait_until(lambda: _answers(port), "memcached")
            yield port
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def test_the_framing_is_that_of_memcached(daemon: DaemonProcess, memcached: int) -> None:
    """A cache keeps what is shown, so the queue is only looked at; it has no word for that."""
    for request in SAME:
        bare = request.replace(b"/peek", b"")
        theirs = _ask(memcached, bare).replace(b" kq", b" k*").replace(b" kw", b" k*")
        ours = _ask(daemon.port, request)
        for key in b" kq/peek", b" kw/peek", b" kq":
            ours = ours.replace(key, b" k*")
        assert ours == theirs, request


def _ask(port: int, request: bytes) -> bytes:
    raw = Raw(("127.0.0.1", port))
    raw.send(request + b"mn\r\nquit\r\n")
    return raw.rest()


@pytest.fixture
def client(daemon: DaemonProcess) -> Any:
    try:
        meta = importlib.import_module("meta_memcache")
        settings = importlib.import_module("meta_memcache.configuration")
    except ImportError:
        pytest.skip("meta-memcache is not installed (PyPI: meta-memcache)")
    servers = [settings.ServerAddress("127.0.0.1", daemon.port)]
    pools = settings.connection_pool_factory_builder()
    return meta.CacheClient.cache_client_from_servers(servers, pools)


def test_a_client_of_meta_commands_stores_and_fetches(client: Any, queue: str) -> None:
    assert client.set(queue, "hello", ttl=60)
    assert client.get(f"{queue}/open") == "hello"
    assert client.get(f"{queue}/close/open") is None
    assert client.set(queue, b"\r\n\x00\xff", ttl=60)
    assert client.get(queue) == b"\r\n\x00\xff"
    assert client.get(queue) is None
    assert client.set(queue, {"a": 1}, ttl=60)
    found = client.multi_get([queue, f"{queue}/peek"])
    assert {key.key: value for key, value in found.items()} == {
        queue: {"a": 1}, f"{queue}/peek": None
    }


def test_a_client_of_meta_commands_confirms_by_token(client: Any, queue: str) -> None:
    client.set(f"{queue}/key=A", "1", ttl=60)
    body, token = client.get_cas(f"{queue}/open/lease=60s")
    assert body == "1"
    assert client.touch(f"{queue}/token={token}", ttl=60) is True
    assert client.delete(f"{queue}/token={token}") is True
    assert client.delete(f"{queue}/token={token}") is False
    assert client.touch(f"{queue}/token={token}", ttl=60) is False


def test_a_client_of_meta_commands_compares_versions(client: Any, queue: str) -> None:
    key = f"{queue}/key=A"
    assert client.set(key, "1", ttl=60)
    assert client.get_cas(f"{key}/peek") == ("1", 1)
    assert client.set(key, "2", ttl=60, cas_token=1)
    assert not client.set(key, "3", ttl=60, cas_token=1)
    assert client.get(f"{key}/peek") == "2"
