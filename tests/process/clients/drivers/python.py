"""Runs steps with a Python library: `python.py LIBRARY HOST:PORT...`.

Reads one step per line and prints one answer per line, both as in `steps.py`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

NATIVE: dict[str, Any] = {"text": "héllo", "number": 17, "list": ["a", 1], "long": "x" * 100_000}


def pair(server: str) -> tuple[str, int]:
    host, port = server.rsplit(":", 1)
    return host, int(port)


class Library:
    """The calls most libraries have under one name; `client` is set by `new`."""

    client: Any

    def __init__(self, servers: list[str]) -> None:
        self.servers = servers

    def new(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.client.close()

    def set(self, key: str, body: bytes) -> Any:
        return self.client.set(key, body)

    def add(self, key: str, body: bytes) -> Any:
        return self.client.add(key, body)

    def append(self, key: str, body: bytes) -> Any:
        return self.client.append(key, body)

    def cas(self, key: str, body: bytes, number: int) -> Any:
        return self.client.cas(key, body, number)

    def get(self, key: str) -> Any:
        return self.client.get(key)

    def gets(self, key: str) -> tuple[Any, Any]:
        found: tuple[Any, Any] = self.client.gets(key)
        return found

    def delete(self, key: str) -> Any:
        return self.client.delete(key)

    def touch(self, key: str, seconds: int) -> Any:
        return self.client.touch(key, seconds)

    def native(self, key: str, value: Any) -> Any:
        return self.client.set(key, value)


class Pymemcache(Library):
    def new(self) -> None:
        from pymemcache.client.base import Client  # noqa: PLC0415

        self.client = Client(pair(self.servers[0]), timeout=30, default_noreply=False)

    def cas(self, key: str, body: bytes, number: int) -> Any:
        return self.client.cas(key, body, str(number).encode())


class PymemcachePooled(Pymemcache):
    def new(self) -> None:
        from pymemcache.client.base import PooledClient  # noqa: PLC0415

        self.client = PooledClient(
            pair(self.servers[0]), max_pool_size=1, timeout=30, default_noreply=False
        )


class PymemcacheHash(Pymemcache):
    def new(self) -> None:
        from pymemcache.client.hash import HashClient  # noqa: PLC0415

        from kestrelpy.client import QueueHasher  # noqa: PLC0415

        servers = [pair(each) for each in self.servers]
        self.client = HashClient(servers, hasher=QueueHasher, timeout=30, default_noreply=False)


class PythonMemcached(Library):
    def new(self) -> None:
        import memcache  # noqa: PLC0415

        self.client = memcache.Client(self.servers[:1], socket_timeout=30, cache_cas=True)

    def close(self) -> None:
        self.client.disconnect_all()

    def gets(self, key: str) -> tuple[Any, Any]:
        # The number stays in the client, where its cas looks for it.
        body = self.client.gets(key)
        number: bytes | None = self.client.cas_ids.get(key.encode())
        return body, number

    def cas(self, key: str, body: bytes, number: int) -> Any:
        self.client.cas_ids[key.encode()] = number
        return self.client.cas(key, body)


class Pylibmc(Library):
    def new(self) -> None:
        import pylibmc  # noqa: PLC0415

        behaviors = {"cas": True, "receive_timeout": 30_000_000, "retry_timeout": 1}
        self.client = pylibmc.Client(self.servers[:1], behaviors=behaviors)

    def close(self) -> None:
        self.client.disconnect_all()


class Async(Library):
    """A library of coroutines; the loop does not run between two steps."""

    runner = asyncio.Runner()

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await awaitable

        return self.runner.run(whole())

    def close(self) -> None:
        self.wait(self.client.close())

    def set(self, key: str, body: bytes) -> Any:
        return self.wait(self.client.set(key.encode(), body))

    def add(self, key: str, body: bytes) -> Any:
        return self.wait(self.client.add(key.encode(), body))

    def append(self, key: str, body: bytes) -> Any:
        return self.wait(self.client.append(key.encode(), body))

    def cas(self, key: str, body: bytes, number: int) -> Any:
        return self.wait(self.client.cas(key.encode(), body, number))

    def get(self, key: str) -> Any:
        return self.wait(self.client.get(key.encode()))

    def gets(self, key: str) -> Any:
        return self.wait(self.client.gets(key.encode()))

    def delete(self, key: str) -> Any:
        return self.wait(self.client.delete(key.encode()))

    def touch(self, key: str, seconds: int) -> Any:
        return self.wait(self.client.touch(key.encode(), seconds))

    def native(self, key: str, value: Any) -> Any:
        return self.wait(self.client.set(key.encode(), value))


class Aiomcache(Async):
    def new(self) -> None:
        import aiomcache  # noqa: PLC0415

        async def make() -> Any:
            return aiomcache.Client(*pair(self.servers[0]), pool_size=1)

        self.client = self.wait(make())


class Emcache(Async):
    """Its calls return None for done, and raise for refused."""

    def new(self) -> None:
        import emcache  # noqa: PLC0415

        address = emcache.MemcachedHostAddress(*pair(self.servers[0]))
        self.client = self.wait(
            emcache.create_client([address], timeout=12, min_connections=1, max_connections=1)
        )

    def done(self, call: Callable[..., Any], *arguments: Any) -> bool:
        import emcache  # noqa: PLC0415

        try:
            call(*arguments)
        except (emcache.NotStoredStorageCommandError, emcache.NotFoundCommandError):
            return False
        return True

    def set(self, key: str, body: bytes) -> Any:
        return self.done(super().set, key, body)

    def add(self, key: str, body: bytes) -> Any:
        return self.done(super().add, key, body)

    def append(self, key: str, body: bytes) -> Any:
        return self.done(super().append, key, body)

    def cas(self, key: str, body: bytes, number: int) -> Any:
        return self.done(super().cas, key, body, number)

    def delete(self, key: str) -> Any:
        return self.done(super().delete, key)

    def touch(self, key: str, seconds: int) -> Any:
        return self.done(super().touch, key, seconds)

    def native(self, key: str, value: Any) -> Any:
        return self.done(super().native, key, value)

    def get(self, key: str) -> Any:
        item = super().get(key)
        return item.value if item is not None else None

    def gets(self, key: str) -> Any:
        item = super().gets(key)
        return (item.value, item.cas) if item is not None else (None, None)


LIBRARIES: dict[str, type[Library]] = {
    "pymemcache": Pymemcache,
    "pymemcache-pooled": PymemcachePooled,
    "pymemcache-hash": PymemcacheHash,
    "python-memcached": PythonMemcached,
    "pylibmc": Pylibmc,
    "aiomcache": Aiomcache,
    "emcache": Emcache,
}


def shown(value: Any, *number: Any) -> str:
    """Return the answer to a get."""
    if value is None:
        return "none"
    body = value if isinstance(value, bytes) else str(value).encode()
    numbers = [each.decode() if isinstance(each, bytes) else str(each) for each in number]
    return " ".join(["value", body.hex() or "-", *numbers])


def run(library: Library, words: list[str]) -> str:
    """Take one step."""
    verb, key, *rest = [*words, ""]
    rest = rest[:-1] if rest else rest
    match verb:
        case "new":
            library.new()
            return "ok"
        case "get":
            return shown(library.get(key))
        case "gets":
            return shown(*library.gets(key))
        case "delete":
            done = library.delete(key)
        case "touch":
            done = library.touch(key, int(rest[0]))
        case "native":
            done = library.native(key, NATIVE[rest[0]])
        case "cas":
            done = library.cas(key, bytes.fromhex(rest[0].strip("-")), int(rest[1]))
        case _:
            done = getattr(library, verb)(key, bytes.fromhex(rest[0].strip("-")))
    return "true" if done else "false"


def main() -> None:
    library = LIBRARIES[sys.argv[1]](sys.argv[2:])
    for line in sys.stdin:
        try:
            answer = run(library, line.split())
        except Exception as error:  # every exception is an answer here
            answer = f"error {type(error).__name__}: {error}"
        print(" ".join(answer.split()), flush=True)


if __name__ == "__main__":
    main()
