"""The listening sockets of the daemon: a TCP port and, if wanted, a Unix socket.

One rule: a socket that another process answers on is left alone.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

# Sockets that were handed over are not ours to remove; before 3.13 no loop does that.
_STAYS: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}


class CannotListen(Exception):
    """The address and the reason."""


class Listeners:
    """The listening sockets of one daemon. `read_ahead`: how many connections may come at once."""

    def __init__(self, protocol: Callable[[], asyncio.BaseProtocol], backlog: int) -> None:
        self._protocol = protocol
        self._backlog = backlog
        self._servers: list[asyncio.AbstractServer] = []
        self._socket: Path | None = None  # the one we listen on

    async def listen(self, host: str, port: int, path: Path | None) -> list[str]:
        """Listen on the port and, with `path`, on a Unix socket; return a line for each.

        Raise CannotListen.
        """
        loop = asyncio.get_running_loop()
        try:
            listener = await loop.create_server(self._protocol, host, port, backlog=self._backlog)
        except OSError as error:
            raise CannotListen(f"cannot listen on {host}:{port}: {_why(error)}") from error
        self._servers.append(listener)
        names = [sock.getsockname()[:2] for sock in listener.sockets]
        lines = [f"listening: memcache on {name[0]}:{name[1]}" for name in names]
        if path is not None:
            await self._listen_unix(path)
            lines.append(f"listening: memcache on {path}")
        return lines

    async def take_over(self, handed: Sequence[socket.socket]) -> list[str]:
        """Listen on sockets that were handed over; return a line for each. Raise CannotListen."""
        loop, lines = asyncio.get_running_loop(), list[str]()
        for sock in handed:
            name = sock.getsockname()
            try:
                if sock.family == socket.AF_UNIX:
                    listener = await loop.create_unix_server(self._protocol, sock=sock, **_STAYS)
                else:
                    name = f"{name[0]}:{name[1]}"
                    listener = await loop.create_server(self._protocol, sock=sock)
            except (OSError, ValueError) as error:
                raise CannotListen(f"cannot listen on {name}, handed over: {error}") from error
            self._servers.append(listener)
            lines.append(f"listening: memcache on {name}, handed over")
        return lines

    async def _listen_unix(self, path: Path) -> None:
        loop = asyncio.get_running_loop()
        try:
            if path.is_socket():
                if await _answers(path):
                    raise CannotListen(f"cannot listen on {path}: another process answers there")
                path.unlink()  # left by a daemon that was killed
            listener = await loop.create_unix_server(
                self._protocol, str(path), backlog=self._backlog
            )
        except OSError as error:
            raise CannotListen(f"cannot listen on {path}: {_why(error)}") from error
        self._servers.append(listener)
        self._socket = path

    def close(self) -> None:
        """Accept no more connections."""
        for listener in self._servers:
            listener.close()

    def remove_socket(self) -> None:
        """Remove the Unix socket's file."""
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)


async def _answers(path: Path) -> bool:
    """True if a process listens on this Unix socket."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    probe.setblocking(False)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(probe, str(path)), 1)
    except (OSError, TimeoutError):
        return False
    finally:
        probe.close()
    return True


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return f"this name has no address: {error.strerror}"
    return os.strerror(error.errno) if error.errno else str(error)
