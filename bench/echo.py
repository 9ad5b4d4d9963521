"""The other ceiling: the most that a Python server can answer, with no queue and no disk.

It finds the ends of requests, keeps the last body, and answers at once: `set` with STORED, `mg`
with that body. So it costs no more than uvloop and the least parsing.

One rule: it does nothing that a real server could leave out.
"""

import argparse
import asyncio
from typing import cast

import uvloop


class Echo(asyncio.Protocol):
    """One connection."""

    body = b""  # the last body that any connection stored

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._unparsed = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        data, at, answers = self._unparsed + data, 0, list[bytes]()
        while (end := data.find(b"\r\n", at)) >= 0:
            if data[at : at + 4] == b"set ":
                size = int(data[data.rfind(b" ", at, end) : end])
                if end + size + 4 > len(data):
                    break
                Echo.body = data[end + 2 : end + 2 + size]
                answers.append(b"STORED\r\n")
                at = end + size + 4
            else:
                answers.append(b"VA %d\r\n%b\r\n" % (len(Echo.body), Echo.body))
                at = end + 2
        self._unparsed = data[at:]
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))


async def serve(port: int) -> None:
    """Answer on this port of the loopback until the process is killed."""
    server = await asyncio.get_running_loop().create_server(Echo, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.echo", description=__doc__)
    parser.add_argument("port", type=int)
    uvloop.run(serve(parser.parse_args().port))
