"""The load of `bench path`, in the process of a daemon: requests reach its connections without a
socket.

    read a line "set 40" ──▶ 40 rounds: each connection gets its requests ──▶ print "done 123456"

A round is one request on each connection, or as many as the second argument says. The number is the
user instructions of this process so far; -1: the kernel does not count them. It is a program of
its own, without the other modules of bench: it runs on any Python that has kestrelpy.

One rule: a turn handles all requests of one round, however slowly it runs. So the clock of the
shares stands still here.
"""

import asyncio
import ctypes
import os
import platform
import socket
import struct
import sys
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import uvloop

from kestrelpy.config import load_config
from kestrelpy.placement import Placement
from kestrelpy.protocol import Lines, RouterCounts
from kestrelpy.server import Daemon
from kestrelpy.server.connections import Connection, Trunk
from kestrelpy.server.shares import Shares
from kestrelpy.server.slices.connections import READ_BYTES, ClientConnection, RouterPort

CONNECTIONS = 50
BODY = b"x" * 100
REQUESTS = {
    "routed": b"set path 0 0 100\r\n%b\r\n" % BODY,
    "set": b"set path 0 0 100\r\n%b\r\n" % BODY,
    "open": b"get path/open\r\n",
    "take": b"get path/close/open\r\n",  # it confirms the item before
}


class Far:
    """The far end of all connections: it waits for the replies to one round."""

    def __init__(self) -> None:
        self.left = 0
        self.word = b""
        self.has_all = asyncio.Event()

    def write(self, data: bytes) -> None:
        found = data.count(self.word)
        assert found, data
        self.left -= found
        if not self.left:
            self.has_all.set()

    def get_extra_info(self, name: str) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int, low: int = 0) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Between:
    """One end of the socket between the router and its slice."""

    def __init__(self, trunk: Trunk, unix: socket.socket) -> None:
        self.trunk, self.unix = trunk, unix

    def write(self, data: bytes) -> None:
        asyncio.get_running_loop().call_soon(self.trunk.data_received, data)

    def get_extra_info(self, name: str, default: object) -> object:
        return self.unix if name == "socket" else default


class NoneSliced:
    """No queue is in all slices."""

    has_any = False


class Router:
    """As much of a router as a set needs: its slice is this daemon."""

    version = "0.0.0"

    def __init__(self, daemon: Daemon) -> None:
        self.placement, self.counts, self.logins = Placement(1), RouterCounts(), daemon.logins
        self.lines: Lines = {}
        self.sliced_queues = NoneSliced()
        self.memory, self.read_buffer = daemon.memory, bytearray(READ_BYTES)
        self.near = Trunk(nothing, nothing)
        far = Trunk(nothing, nothing, partial(Connection, daemon))
        unix, _ = socket.socketpair()
        self.near.connection_made(cast(asyncio.Transport, Between(far, unix)))
        far.connection_made(cast(asyncio.Transport, Between(self.near, unix)))

    def limit_of(self, name: bytes) -> int:
        return len(BODY)

    def admit(self, connection: object) -> bool:
        return True

    async def connect(self, number: int, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self.near.open(make)

    def start_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


def nothing(trunk: Trunk) -> None: ...


def still() -> float:
    """The clock of the shares."""
    return 0.0


async def rounds(
    connections: Sequence[Connection | ClientConnection], far: Far, name: str, depth: int, many: int
) -> None:
    """Send a request `depth` times on each connection and wait for the replies, `many`
    times."""
    request = REQUESTS[name] * depth
    far.word = b"STORED" if name in ("set", "routed") else b"VALUE"
    for _ in range(many):
        far.left = len(connections) * depth
        far.has_all.clear()
        for connection in connections:
            connection.data_received(request)
        await far.has_all.wait()


def open_counter() -> int:
    """Return a descriptor of the kernel that counts user instructions from now on; -1: none."""
    call = {"x86_64": 298, "aarch64": 241}.get(platform.machine())  # perf_event_open
    if sys.platform != "linux" or call is None:
        return -1
    inherit, no_kernel, no_hypervisor = 1 << 1, 1 << 5, 1 << 6
    about = struct.pack("IIQQQQQ", 0, 112, 1, 0, 0, 0, inherit | no_kernel | no_hypervisor)
    buffer = ctypes.create_string_buffer(about + bytes(112 - len(about)), 112)
    opened: int = ctypes.CDLL(None).syscall(call, buffer, 0, -1, -1, 0)
    return opened


def instructions(counter: int) -> int:
    """Return what the counter shows; -1: there is none."""
    return int(struct.unpack("Q", os.read(counter, 8))[0]) if counter >= 0 else -1


async def main(folder: Path, depth: int) -> None:
    """Execute the lines of standard input."""
    counter = open_counter()  # before the threads that it counts as well
    config = load_config(
        None, environ={}, overrides={("server", "data_dir"): str(folder), ("server", "port"): 0,
                                     ("server", "http_port"): "off"},
    )  # fmt: skip
    daemon = Daemon(config, lambda: config, lambda line: None)
    await daemon.start()
    daemon.elapsed = still
    daemon.turn.shares = Shares(still)
    far = Far()
    connections = [Connection(daemon) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.connection_made(cast(asyncio.Transport, far))
    daemon.is_slice = True  # of what comes through the router
    router = cast(RouterPort, Router(daemon))
    clients = [ClientConnection(router) for _ in range(CONNECTIONS)]
    for client in clients:
        client.connection_made(cast(asyncio.Transport, far))
    print("done", instructions(counter), flush=True)
    for line in sys.stdin:  # nothing else happens meanwhile
        name, many = line.split()
        asked = clients if name == "routed" else connections
        await rounds(asked, far, name, 1 if name == "open" else depth, int(many))
        print("done", instructions(counter), flush=True)


if __name__ == "__main__":
    uvloop.run(main(Path(sys.argv[1]), int(sys.argv[2])))
