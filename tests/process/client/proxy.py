"""A wire between a client and the daemon that remembers what was said, and that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """Listens on a port of its own and passes everything on to the daemon's."""

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self.address: tuple[str, int] = self._listener.getsockname()
        self.said: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection there is; new ones may come."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Cut all connections, and accept no more."""
        # A thread in accept() would keep a socket open that is only closed.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    server = socket.create_connection(self._target)
                except OSError:  # the server is down, so the proxy is as well
                    client.close()
                    continue
                self._pairs.append((client, server))
                for source, target in ((client, server), (server, client)):
                    threading.Thread(
                        target=self._pass_on, args=(source, target, source is client), daemon=True
                    ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, remembers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if remembers:
                    self.said += data.decode("utf-8", "replace").splitlines()
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
