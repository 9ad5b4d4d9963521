"""One asyncio connection that connects when it is needed, and again after a break.

One rule: requests are pipelined; after a break every request without an answer raises, and none
ever gets the answer to another one.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Final

from kestrelpy.wire import dial
from kestrelpy.wire.answers import NO_ANSWER, Answer, AnswerReader, BadAnswer
from kestrelpy.wire.dial import NOBODY, Access, Address
from kestrelpy.wire.refusals import is_logged_out

_READ_BYTES: Final = 1 << 16


class AsyncConnection:
    """A connection for any number of tasks of one event loop."""

    def __init__(
        self, server: Address, answer_seconds: float, connect_seconds: float,
        access: Access = NOBODY,
    ) -> None:  # fmt: skip
        self._server = server
        self._access = access
        self._answer_seconds = answer_seconds
        self._connect_seconds = connect_seconds
        self._connecting = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[asyncio.Future[Answer]] = deque()

    async def connect(self) -> None:
        """Connect, and log in, if there is no connection. Raises OSError, LoginRefused."""
        await self._connected()

    async def ask(self, line: str) -> Answer:
        """Send a request without a body, and return its answer.

        Raises OSError (TimeoutError is one) if there is no connection or no answer, and
        LoginRefused.
        """
        answer = await self._ask_once(line)
        if self._access.user is None or not is_logged_out(answer.line):
            return answer
        self.close()  # a reload has changed the user: log in again
        return await self._ask_once(line)

    async def _ask_once(self, line: str) -> Answer:
        writer = await self._connected()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            writer.write(line.encode("ascii", "replace") + b"\r\n")
        except RuntimeError:  # `end_wait` closed the sending direction
            raise ConnectionError("no request is sent any more") from None
        self._waiting.append(answer)
        try:
            # Unlike `wait_for` before Python 3.12 it loses no cancellation to an answer that comes
            # at the same moment.
            async with asyncio.timeout(self._answer_seconds):
                return await answer
        except BaseException:
            # Its answer may still come: nothing else may be read from this connection.
            if writer is self._writer:
                self.close()
            raise

    def end_wait(self) -> None:
        """Close the sending direction: the server ends a wait at once."""
        if self._writer is not None and not self._writer.is_closing():
            if self._writer.can_write_eof():
                with contextlib.suppress(OSError):
                    self._writer.write_eof()
            else:  # TLS ends both directions: an item on its way comes again when its lease ends
                self._writer.close()

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
                reader, self._writer = await self._open()
                self._reading = asyncio.create_task(self._read(reader, self._writer))
            return self._writer

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        server, access = self._server, self._access
        if isinstance(server, str):
            async with asyncio.timeout(self._connect_seconds):
                return await asyncio.open_unix_connection(server)
        try:
            async with asyncio.timeout(self._connect_seconds):
                context = dial.context_of(access)
                reader, writer = await asyncio.open_connection(*server, ssl=context)
            try:
                async with asyncio.timeout(self._answer_seconds):
                    await self._log_in(reader, writer)
            except BaseException:
                writer.close()
                raise
        except OSError as error:
            raise await asyncio.to_thread(dial.explained, error, server, access) from None
        return reader, writer

    async def _log_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        steps = dial.login(self._access)
        with contextlib.suppress(StopIteration):
            request = next(steps)
            while True:
                writer.write(request)
                try:
                    line = await reader.readuntil(b"\r\n")
                except asyncio.IncompleteReadError:
                    raise ConnectionError(dial.NO_LOGIN) from None
                except asyncio.LimitOverrunError:
                    raise ConnectionError(NO_ANSWER) from None
                request = steps.send(line[:-2])

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, is_new = AnswerReader(), True
        why: OSError = ConnectionError("the server closed the connection")
        try:
            while data := await reader.read(_READ_BYTES):
                for answer in answers.feed(data):
                    is_new = False
                    if not self._waiting:  # nothing was asked
                        raise BadAnswer(answer.line)
                    waiting = self._waiting.popleft()
                    if not waiting.done():
                        waiting.set_result(answer)
        except OSError as error:
            why = error
        except BadAnswer as error:
            why = ConnectionError(str(error))
        writer.close()
        if is_new and self._waiting:
            why = await asyncio.to_thread(dial.explained, why, self._server, self._access)
        if writer is self._writer:
            self._writer = self._reading = None
            self._fail(why)

    def _fail(self, why: OSError) -> None:
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if not each.done():
                each.set_exception(why)
