"""A folder, a pipe, a socket or a link in the place of a segment: the queue is served as a damaged
one, every other queue as before, and nothing waits for the other end of a pipe."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.support.running import Peer, running

CONFIG: Final = '[journal]\nsegment_min = "64KiB"\nsegment_max = "64KiB"\n'
ITEMS: Final = 150  # some three segments


def _socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # its whole path may be too long for a socket
    try:
        with socket.socket(socket.AF_UNIX) as each:
            each.bind(path.name)
    finally:
        os.chdir(before)


KINDS: Final[dict[str, Callable[[Path], None]]] = {
    "a folder": Path.mkdir,
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a device": lambda path: path.symlink_to("/dev/zero"),
}


async def put(peer: Peer, queue: bytes) -> None:
    body = b"x" * 1000
    for _ in range(ITEMS):
        answer = await peer.ask(b"set %b 0 0 %d\r\n%b\r\n" % (queue, len(body), body))
        assert answer == b"STORED\r\n"


async def taken(peer: Peer, queue: bytes) -> int:
    """Take all that there is; return how many."""
    count = 0
    while (answer := await peer.ask(b"get %b/open\r\n" % queue)).startswith(b"VALUE"):
        count += 1
        await peer.line()
        assert await peer.line() == b"END\r\n"
        assert await peer.ask(b"get %b/close\r\n" % queue) == b"END\r\n"
    assert answer == b"END\r\n"
    return count


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("kind", KINDS)
async def test_the_others_are_served_and_the_damage_is_reported(
    kind: str, place: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        peer = await server.client()
        for queue in (b"jobs", b"other"):
            await put(peer, queue)
    (folder,) = (tmp_path / "data").glob("jobs.*")
    segments = sorted(folder.glob("*.segment"))
    assert len(segments) > 2
    chosen = segments[{"first": 0, "middle": len(segments) // 2, "last": -1}[place]]
    chosen.unlink()
    KINDS[kind](chosen)
    async with running(tmp_path, config=CONFIG) as server:
        peer = await server.client()
        assert str(chosen) in caplog.text
        assert await taken(peer, b"other") == ITEMS
        assert 0 < await taken(peer, b"jobs") <= ITEMS - (0 if place == "last" else 1)
        assert await peer.ask(b"set jobs 0 0 1\r\na\r\n") == b"STORED\r\n"
