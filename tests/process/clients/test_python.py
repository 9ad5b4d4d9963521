"""Python's libraries beyond the steps of `steps.py`: types, statistics, the Unix socket."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _pylibmc
import memcache
import pylibmc
import pytest
from pymemcache.client.base import Client
from pymemcache.client.hash import HashClient
from pymemcache.exceptions import MemcacheClientError
from pymemcache.serde import pickle_serde

import kestrelpy
from tests.support.daemon import DaemonProcess
from tests.support.raw import wait_until


@pytest.fixture
def pymem(daemon: DaemonProcess) -> Iterator[Client]:
    client = daemon.client()
    yield client
    client.close()


# -- pymemcache ------------------------------------------------------------------------------


def test_pymemcache_keeps_the_types_of_values(daemon: DaemonProcess, queue: str) -> None:
    client = Client(("127.0.0.1", daemon.port), serde=pickle_serde, default_noreply=False)
    values: list[object] = ["text", 17, {"a": [1, 2]}, b"bytes", 1.5]
    for value in values:
        assert client.set(queue, value)
    assert [client.get(queue) for _ in values] == values
    client.close()


def test_pymemcache_numbers(pymem: Client, queue: str) -> None:
    pymem.set(queue, b"1")
    pymem.set(queue, b"2")
    assert pymem.gets(queue) == (b"1", b"1")
    body, token = pymem.gets(f"{queue}/open")
    assert body == b"2" and int(token) > 0
    with pytest.raises(MemcacheClientError, match="cas needs key="):
        pymem.cas(queue, b"3", token)
    assert pymem.get(f"{queue}/close") is None


def test_pymemcache_several_keys(pymem: Client, queue: str) -> None:
    pymem.set(queue, b"1")
    pymem.set(f"{queue}.b", b"2")
    keys = [f"{queue}/peek", f"{queue}.absent", f"{queue}.b"]
    assert pymem.get_many(keys) == {f"{queue}/peek": b"1", f"{queue}.b": b"2"}
    assert pymem.set_many({queue: b"3", f"{queue}.b": b"4"}) == []
    assert pymem.get_many([f"{queue}.b"]) == {f"{queue}.b": b"4"}


def test_pymemcache_other_verbs(pymem: Client, queue: str) -> None:
    assert pymem.version() == kestrelpy.__version__.encode()
    assert pymem.touch(queue, 30) is False
    pymem.set(queue, b"1")
    pymem.get(f"{queue}/open")
    assert pymem.touch(queue, 30) is True
    stats: dict[bytes, Any] = pymem.stats()
    assert stats[f"queue_{queue}_open_transactions".encode()] == 1
    assert pymem.stats(queue)[f"queue_{queue}_leased".encode()] == 1
    assert pymem.delete(queue) is True
    assert pymem.delete(queue) is False
    with pytest.raises(MemcacheClientError, match="not supported by a queue"):
        pymem.incr(queue, 1)
    assert pymem.get(queue) is None


def test_pymemcache_noreply_is_not_answered(pymem: Client, queue: str) -> None:
    assert pymem.set(queue, b"1", noreply=True) is True
    assert pymem.add(queue, b"2", noreply=True) is True
    assert pymem.set(f"{queue}/opne", b"3", noreply=True) is True
    assert pymem.touch(queue, 5, noreply=True) is True
    assert pymem.get(queue) == b"1"
    assert pymem.get(queue) is None
    assert pymem.delete(queue, noreply=True) is True
    assert pymem.version()


def test_pymemcache_speaks_through_the_unix_socket(socket_path: Path, queue: str) -> None:
    client = Client(str(socket_path), default_noreply=False)
    assert client.set(queue, b"hello")
    assert client.get(f"{queue}/close/open") == b"hello"
    client.close()


def test_pymemcache_hash_client_over_one_server(daemon: DaemonProcess, queue: str) -> None:
    client = HashClient([("127.0.0.1", daemon.port)], default_noreply=False)
    assert client.set(queue, b"hello")
    assert client.get_many([f"{queue}/peek"]) == {f"{queue}/peek": b"hello"}
    client.close()


# -- python-memcached ------------------------------------------------------------------------


@pytest.fixture
def old(daemon: DaemonProcess) -> Iterator[Any]:
    client = memcache.Client([f"127.0.0.1:{daemon.port}"], socket_timeout=10)
    yield client
    client.disconnect_all()


def test_python_memcached_keeps_the_types_of_values(old: Any, queue: str) -> None:
    values: list[object] = ["text", 17, b"bytes", [1, "two"], "x" * 100_000]
    for value in values:
        assert old.set(queue, value)
    assert [old.get(f"{queue}/open") for _ in values[:1]] == values[:1]
    assert [old.get(f"{queue}/close/open") for _ in values[1:]] == values[1:]
    assert old.get(f"{queue}/close") is None


def test_python_memcached_verbs(old: Any, queue: str) -> None:
    assert old.add(queue, "me")
    assert not old.add(queue, "you")
    assert not old.replace(queue, "x")
    assert not old.append(queue, "x")
    assert old.gets(f"{queue}/peek") == "me"
    assert not old.touch(queue, 5)
    assert old.get(f"{queue}/open") == "me"
    assert old.touch(queue, 5)
    assert old.set_multi({queue: "a", f"{queue}.b": "b"}) == []
    both = {f"{queue}/peek": "a", f"{queue}.b": "b"}
    assert old.get_multi(list(both)) == both
    [(_, stats)] = old.get_stats()
    assert int(stats[f"queue_{queue}_items"]) == 1
    assert old.delete(queue)
    assert old.get(queue) is None


def test_python_memcached_through_the_unix_socket(socket_path: Path, queue: str) -> None:
    client = memcache.Client([f"unix:{socket_path}"])
    assert client.set(queue, "hello")
    assert client.get(queue) == "hello"
    client.disconnect_all()


# -- pylibmc ---------------------------------------------------------------------------------


@pytest.fixture
def libmc(daemon: DaemonProcess) -> Iterator[Any]:
    client = pylibmc.Client(
        [f"127.0.0.1:{daemon.port}"], behaviors={"cas": True, "tcp_nodelay": True}
    )
    yield client
    client.disconnect_all()


def test_pylibmc_keeps_the_types_of_values(libmc: Any, queue: str) -> None:
    values: list[object] = ["text", 17, b"bytes", [1, "two"], "x" * 100_000]
    for value in values:
        assert libmc.set(queue, value)
    assert [libmc.get(f"{queue}/open") for _ in values[:1]] == values[:1]
    assert [libmc.get(f"{queue}/close/open") for _ in values[1:]] == values[1:]
    assert libmc.get(f"{queue}/close") is None


def test_pylibmc_verbs(libmc: Any, queue: str) -> None:
    assert libmc.add(queue, "me")
    assert not libmc.add(queue, "you")
    body, number = libmc.gets(f"{queue}/peek")
    assert body == "me" and number == 1
    assert libmc.get(f"{queue}/open") == "me"
    assert libmc.touch(queue, 5)
    libmc.set_multi({queue: "a", f"{queue}.b": "b"})
    both = {f"{queue}/peek": "a", f"{queue}.b": "b"}
    assert libmc.get_multi(list(both)) == both
    [(_, stats)] = libmc.get_stats()  # libmemcached knows memcached's names only
    assert int(stats["curr_items"]) >= 1
    assert stats["version"] == kestrelpy.__version__.encode()
    assert libmc.get_stats(queue)
    assert libmc.delete(queue)
    assert libmc.get(queue) is None


def test_libmemcached_understands_the_version(daemon: DaemonProcess) -> None:
    library = ctypes.CDLL(_pylibmc.__file__)  # it is linked with libmemcached
    library.memcached_create.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(library.memcached_create(None))
    try:
        assert library.memcached_server_add(connection, b"127.0.0.1", daemon.port) == 0
        assert library.memcached_version(connection) == 0, "a major version of 0 is an error there"
    finally:
        library.memcached_free(connection)


def test_pylibmc_conditional_store_is_refused_in_step(libmc: Any, queue: str) -> None:
    libmc.set(queue, "me")
    with pytest.raises(pylibmc.ClientError):
        libmc.cas(queue, "you", 0)
    assert libmc.get(f"{queue}/peek") == "me"
    with pytest.raises(pylibmc.ClientError):
        libmc.append(queue, "x")
    assert libmc.get(f"{queue}/peek") == "me", "the server is not taken for one that is down"


def test_pylibmc_goes_on_after_a_token_that_is_over(libmc: Any, queue: str) -> None:
    # libmemcached reports a get that is refused as a miss; `delete` answers it, true or false.
    assert libmc.get(f"{queue}/close/token=77") is None
    assert not libmc.delete(f"{queue}/token=77")
    assert libmc.set(queue, "me")
    assert libmc.get(queue) == "me"


def test_pylibmc_through_the_unix_socket(socket_path: Path, queue: str) -> None:
    client = pylibmc.Client([str(socket_path)])
    assert client.set(queue, "hello")
    assert client.get(queue) == "hello"
    client.disconnect_all()


def test_the_binary_protocol_is_refused_with_a_remedy(daemon: DaemonProcess, queue: str) -> None:
    client = pylibmc.Client([f"127.0.0.1:{daemon.port}"], binary=True)
    with pytest.raises(pylibmc.Error):
        client.set(queue, "hello")
    client.disconnect_all()
    remedy = "set the client to the text (ASCII) protocol"
    wait_until(lambda: any(remedy in line for line in daemon.lines), "a log line")
