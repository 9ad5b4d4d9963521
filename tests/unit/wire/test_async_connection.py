"""A connection for asyncio: what is asked is answered, or the one that asks hears why not."""

from __future__ import annotations

import asyncio

import pytest

from kestrelpy.wire.async_connection import AsyncConnection
from kestrelpy.wire.dial import Access


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
