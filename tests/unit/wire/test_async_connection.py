"""A connection for asyncio: each request gets its answer, or an error that says why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from kestrelpy.wire.async_connection import AsyncConnection
from kestrelpy.wire.dial import Access

ASKS_FOR_A_LOGIN = b"CLIENT_ERROR unauthenticated\r\n"


@asynccontextmanager
async def answering(answers: Sequence[bytes]) -> AsyncIterator[tuple[str, int]]:
    """Run a server that gives these answers on each connection, then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await reader.read(4096)
            writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield host, port
    finally:
        server.close()


@pytest.mark.parametrize(
    "answers",
    [
        [b""],
        [b"CLIENT_ERROR unauth"],
        [ASKS_FOR_A_LOGIN, b""],
        [ASKS_FOR_A_LOGIN, b"STOR"],
    ],
)
async def test_a_server_that_hangs_up_during_the_login_is_an_error_of_the_connection(
    answers: list[bytes]
) -> None:
    """A worker dials again after that error; after a login that was refused it would not."""
    async with answering(answers) as address:
        connection = AsyncConnection(address, 20, 20, Access(user="anna", password="let me in"))

        with pytest.raises(ConnectionError, match="before a login"):
            await connection.connect()


async def test_a_cancellation_that_comes_with_the_answer_is_not_lost() -> None:
    """`wait_for` before Python 3.12 returned the answer then, and its caller went on for ever."""
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        asked.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    connection = AsyncConnection(server.sockets[0].getsockname(), 60, 60, Access())
    asking = asyncio.create_task(connection.ask("get jobs/open"))
    await asked.wait()
    (answer,) = connection._waiting

    answer.set_result(object())
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    connection.close()
    server.close()


@pytest.mark.parametrize("answers", [[b"x" * 200_000], [ASKS_FOR_A_LOGIN, b"S" * 200_000]])
async def test_a_line_without_an_end_during_the_login_is_an_error_of_the_connection(
    answers: list[bytes]
) -> None:
    async with answering(answers) as address:
        connection = AsyncConnection(address, 20, 20, Access(user="anna", password="let me in"))

        with pytest.raises(ConnectionError, match="the server sent bytes that are no answer"):
            await connection.connect()


async def test_an_answer_to_no_request_ends_the_connection() -> None:
    async with answering([b"END\r\nSTORED\r\n"]) as address:
        connection = AsyncConnection(address, 20, 20, Access())
        for _ in range(2):
            assert (await connection.ask("get jobs")).line == b"END"
            assert connection._writer is None  # the next request connects again
        connection.close()
