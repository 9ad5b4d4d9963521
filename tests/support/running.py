"""A daemon in this process, for tests that hold its disk or look inside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

from journal.files import Files
from kestrelpy.config.reading import load_config
from kestrelpy.config.settings import Config
from kestrelpy.server.daemon import Daemon

ANSWER_SECONDS = 20.0


class Running:
    """A daemon in this process, on a free port, with its configuration in a file."""

    def __init__(
        self, folder: Path, files: Files | None = None, config: str = "", http_port: str = "off"
    ) -> None:
        self._folder = folder
        self._http_port = http_port
        self._files = files
        self.config_file = folder / "kestrelpy.toml"
        self.config_file.write_text(config)
        self.lines: list[str] = []
        self.daemon: Daemon | None = None

    def _load(self) -> Config:
        overrides: dict[tuple[str, str], object] = {
            ("server", "port"): 0,
            ("server", "http_port"): self._http_port,
            ("server", "data_dir"): str(self._folder / "data"),
        }
        return load_config(self.config_file, environ={}, overrides=overrides)

    @property
    def port(self) -> int:
        return int(self.lines[0].rpartition(":")[2])

    def made(self) -> Daemon:
        """A daemon that did not start yet."""
        self.daemon = Daemon(self._load(), self._load, self.lines.append, self._files)
        return self.daemon

    async def start(self) -> Self:
        await self.made().start()
        return self

    async def client(self) -> Peer:
        return Peer(*await asyncio.open_connection("127.0.0.1", self.port))

    async def text_client(self) -> Peer:
        """A client of the text port, which the configuration opens."""
        line = next(line for line in self.lines if line.startswith("listening: text "))
        return Peer(*await asyncio.open_connection("127.0.0.1", int(line.rpartition(":")[2])))


class Peer:
    """A raw client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, request: bytes) -> bytes:
        """Send a request and return the first line of its answer."""
        self.writer.write(request)
        return await self.line()

    async def line(self) -> bytes:
        """The next line."""
        return await asyncio.wait_for(self.reader.readline(), ANSWER_SECONDS)

    def has_heard_nothing(self) -> bool:
        """True if no unread byte has come in."""
        return not self.reader._buffer

    async def closed(self) -> bool:
        """Wait until the daemon ends the connection."""
        return await asyncio.wait_for(self.reader.read(), ANSWER_SECONDS) == b""


@contextlib.asynccontextmanager
async def running(
    folder: Path, files: Files | None = None, config: str = ""
) -> AsyncIterator[Running]:
    """Start one, and stop it at the end."""
    server = await Running(folder, files, config).start()
    try:
        yield server
    finally:
        assert server.daemon is not None
        await server.daemon.stop()
