"""One asyncio connection that connects when it is needed, and again after a break.

One rule: requests are pipelined; after a break every request without an answer raises, and none
ever gets the answer to another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Final

from kestrelpy.client.connection import Address
from kestrelpy.client.wire import Answer, AnswerReader

_READ_BYTES: Final = 1 << 16


class AsyncConnection:
    """A connection for any number of tasks of one event loop."""

    def __init__(self, server: Address, answer_seconds: float, connect_seconds: float) -> None:
        self._server = server
        self._answer_seconds = answer_seconds
        self._connect_seconds = connect_seconds
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Answer]] = deque()

    async def connect(self) -> None:
        """Connect if there is no connection. Raises OSError."""
        await self._connected()

    async def ask(self, line: str) -> Answer:
        """Send a request without a body, and return its answer.

        Raises OSError (TimeoutError is one) if there is no connection or no answer.
        """
        writer = await self._connected()
        answer = asyncio.get_running_loop().create_future()
        try:
            writer.write(line.encode("ascii", "replace") + b"\r\n")
        except RuntimeError:  # `end_wait` closed the sending direction
            raise ConnectionError("no request is sent any more") from None
        self._waiting.append(answer)
        try:
            return await asyncio.wait_for(answer, self._answer_seconds)
        except BaseException:
            # Its answer may still come: nothing else may be read from this connection.
            if writer is self._writer:
                self.close()
            raise

    def end_wait(self) -> None:
        """Close the sending direction: the server ends a wait at once."""
        if self._writer is not None and not self._writer.is_closing():
            with contextlib.suppress(OSError):
                self._writer.write_eof()

    def close(self) -> None:
        """Close the connection. The next request connects again."""
        writer, self._writer = self._writer, None
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
        if writer is not None:
            writer.close()
        self._fail(ConnectionError("the connection was closed"))

    async def _connected(self) -> asyncio.StreamWriter:
        async with self._connecting:  # one at a time
            if self._writer is None:
                async with asyncio.timeout(self._connect_seconds):
                    reader, self._writer = await self._open()
                self._reading = asyncio.create_task(self._read(reader, self._writer))
            return self._writer

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server, str):
            return await asyncio.open_unix_connection(self._server)
        return await asyncio.open_connection(*self._server)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers = AnswerReader()
        why: OSError = ConnectionError("the server closed the connection")
        try:
            while data := await reader.read(_READ_BYTES):
                for answer in answers.feed(data):
                    waiting = self._waiting.popleft()
                    if not waiting.done():
                        waiting.set_result(answer)
        except OSError as error:
            why = error
        except (ValueError, IndexError):
            why = ConnectionError("the server sent bytes that are no answer")
        writer.close()
        if writer is self._writer:
            self._writer = self._reading = None
            self._fail(why)

    def _fail(self, why: OSError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.done():
                each.set_exception(why)
