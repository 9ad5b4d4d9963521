"""The listening sockets of the daemon: a TCP port and, if wanted, a Unix socket and a text port.

One rule: a socket that another process answers on is left alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import stat
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

from kestrelpy.protocol import MEMCACHE, Wire, wire_named
from kestrelpy.server.connections.channels import Trunk

log = logging.getLogger("kestrelpy")

HANDSHAKE_SECONDS: Final = 10.0
# How long a router may take to read the last answers: one second.
_LAST_LOOKS: Final = 100
_LOOK_SECONDS: Final = 0.01
# The loop removes no socket: before 3.13 none does.
_STAYS: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class CannotListen(Exception):
    """The address and the reason."""


class Listeners:
    """The listening sockets of one daemon. `backlog`: how many connections may come at once.

    `connect` makes a connection that speaks one protocol.
    """

    def __init__(
        self, connect: Callable[[Wire], asyncio.BaseProtocol], backlog: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        """`tls` is for all but Unix sockets."""
        # uvloop refuses a time limit for handshakes without TLS.
        self._tls: dict[str, Any] = {} if tls is None else {
            "ssl": tls, "ssl_handshake_timeout": HANDSHAKE_SECONDS,
        }  # fmt: skip
        self._connect = connect
        self._backlog = backlog
        self._servers: list[asyncio.AbstractServer] = []
        self._trunks: set[Trunk] = set()  # of the router, if this is a slice
        # The file of the one we listen on, and which file it is.
        self._socket: tuple[Path, tuple[int, int]] | None = None
        self.address: tuple[str, int] | None = None  # of the first memcache port

    async def listen(
        self, host: str, port: int | None, path: Path | None, text_port: int | None = None
    ) -> list[str]:
        """Listen on the port, on a Unix socket and on a port for the text protocol, those of them
        that are given; return a line for each.

        Raise CannotListen.
        """
        lines = [] if port is None else await self._listen_tcp(MEMCACHE, host, port)
        if path is not None:
            await self._listen_unix(path)
            lines.append(f"listening: memcache on {path}")
        return lines + await self.listen_text(host, text_port)

    async def listen_text(self, host: str, port: int | None) -> list[str]:
        """Listen on the port for the text protocol, unless it is None; return a line for each
        address. Raise CannotListen."""
        return [] if port is None else await self._listen_tcp(wire_named("text"), host, port)

    async def listen_channels(self, path: str) -> None:
        """Listen on a Unix socket for the router of this slice, whose clients are channels of one
        connection. Raise CannotListen."""
        loop, make = asyncio.get_running_loop(), partial(self._connect, MEMCACHE)
        try:
            listener = await loop.create_unix_server(
                lambda: Trunk(self._trunks.add, self._trunks.discard, make), path
            )
        except OSError as error:
            raise CannotListen(f"cannot listen on {path}: {_why(error)}") from error
        self._servers.append(listener)

    async def take_over(self, handed: Sequence[tuple[str, socket.socket]]) -> list[str]:
        """Listen on sockets that were handed over, each with its name; return a line for each.

        A socket of the name `text` speaks the text protocol. Raise CannotListen.
        """
        loop, lines = asyncio.get_running_loop(), list[str]()
        for title, sock in handed:
            wire = wire_named("text") if title == "text" else MEMCACHE
            connect, name = partial(self._connect, wire), sock.getsockname()
            try:
                if sock.family == socket.AF_UNIX:
                    listener = await loop.create_unix_server(connect, sock=sock, **_STAYS)
                else:
                    self._note(wire, name)
                    name = f"{name[0]}:{name[1]}"
                    listener = await loop.create_server(connect, sock=sock, **self._tls)
            except (OSError, ValueError) as error:
                raise CannotListen(f"cannot listen on {name}, handed over: {error}") from error
            self._servers.append(listener)
            lines.append(f"listening: {wire.name} on {name}, handed over")
        return lines

    async def _listen_tcp(self, wire: Wire, host: str, port: int) -> list[str]:
        loop, connect = asyncio.get_running_loop(), partial(self._connect, wire)
        try:
            listener = await loop.create_server(
                connect, host, port, backlog=self._backlog, **self._tls
            )
        except OSError as error:
            raise CannotListen(f"cannot listen on {host}:{port}: {_why(error)}") from error
        self._servers.append(listener)
        names = [sock.getsockname()[:2] for sock in listener.sockets]
        self._note(wire, names[0])
        return [f"listening: {wire.name} on {name[0]}:{name[1]}" for name in names]

    def _note(self, wire: Wire, name: tuple[str, int]) -> None:
        if wire is MEMCACHE and self.address is None:
            self.address = name[0], name[1]

    async def _listen_unix(self, path: Path) -> None:
        loop, own = asyncio.get_running_loop(), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        new = path.with_name(f".{token_hex(3)}")  # short: the path of a socket has little room
        try:
            own.bind(str(new))
            own.listen(self._backlog)
            try:
                await _show(new, path)
            finally:
                new.unlink(missing_ok=True)
            connect = partial(self._connect, MEMCACHE)
            listener = await loop.create_unix_server(
                connect, sock=own, backlog=self._backlog, **_STAYS
            )
            self._socket = path, _identity(path)
            _name_what_is_open(path)
        except OSError as error:
            own.close()
            raise CannotListen(f"cannot listen on {path}: {_why(error)}") from error
        except CannotListen:
            own.close()
            raise
        self._servers.append(listener)

    def close(self) -> None:
        """Accept no more connections."""
        for listener in self._servers:
            listener.close()

    async def end_channels(self) -> None:
        """Let the last answers leave over the channels."""
        for trunk in list(self._trunks):
            trunk.close()
        for _ in range(_LAST_LOOKS):
            if not self._trunks:
                break
            await asyncio.sleep(_LOOK_SECONDS)

    def remove_socket(self) -> None:
        """Remove the Unix socket's file, unless another process has made one there since."""
        if self._socket is None:
            return
        path, identity = self._socket
        try:
            if _identity(path) == identity:
                path.unlink()
        except OSError:
            return  # it is gone, or its folder is


async def _show(new: Path, path: Path) -> None:
    """Give a listening socket its name; a socket that a killed daemon left loses it. Raise OSError,
    CannotListen.

    So a socket of that name always listens, and no other daemon takes it for one that was left. If
    several daemons start at once, one of them gets the name.
    """
    taken = CannotListen(f"cannot listen on {path}: another process answers there")
    if path.is_socket():
        left, aside = _identity(path), new.with_suffix(".old")
        if await _answers(path):
            raise taken
        path.rename(aside)
        is_left = _identity(aside) == left
        if not is_left:  # another daemon took the name in between: give it back
            os.link(aside, path)
        aside.unlink()
        if not is_left:
            raise taken
    try:
        os.link(new, path)
    except FileExistsError:
        if path.is_socket():
            raise taken from None
        raise


async def _answers(path: Path) -> bool:
    """True unless it is known that no process listens on this Unix socket."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    try:
        async with asyncio.timeout(1):
            await asyncio.get_running_loop().sock_connect(probe, str(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return False
    except TimeoutError:
        return True  # it is busy, or stopped
    finally:
        probe.close()
    return True


def _name_what_is_open(path: Path) -> None:
    """Log that every local user may use the socket, and do everything: it asks for no login."""
    mode, above = path.lstat().st_mode, path.parent.stat().st_mode
    if mode & stat.S_IWOTH and above & stat.S_IXOTH:
        log.warning(
            "%s: every user of this machine may use this socket, which asks for no login (mode "
            "%04o): start the daemon with umask 007 or 077, or close the folder to others",
            path, stat.S_IMODE(mode),
        )  # fmt: skip


def _identity(path: Path) -> tuple[int, int]:
    """Return which file it is; raise OSError."""
    found = path.lstat()
    return found.st_dev, found.st_ino


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"this name has no address: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)
