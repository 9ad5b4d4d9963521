"""The end of a life: when everything is gone, nothing is left that counts or holds anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from journal.files import Disk
from kestrelpy.server.daemon import Daemon
from tests.support.at_rest import Walk, files_left, left_over
from tests.support.rest_table import MAY_HOLD
from tests.support.running import ANSWER_SECONDS, Peer, running

CONFIG = """
[server]
max_open_reads = 3
text_port = 0
[queue_defaults]
lease = "30m"
max_attempts = 2
[queues.moving]
max_attempts = 1
dead_letter_to = "jobs"
[queues.memory]
durable = false
[queues.kept]
retain = "forever"
[aliases.both]
to = ["jobs", "memory"]
[schedules.yearly]
cron = "0 0 1 1 *"
queue = "jobs"
body = "a year"
"""
CLIENTS = ("client.", "kombu.", "wire.")
# Classes that are reachable only while work is under way, or next to a socket.
# The walk meets the products of a LogReader in its place, and the parts of a tuple. Classes of an
# engine belong to a fleet, those of clients to other processes: their own tests look at them.
NOT_MET = {
    *(name for name in MAY_HOLD if name.startswith(("journal.engine.", *CLIENTS))),
    "journal.read.cursor.Cursor", "journal.snapshot.dedupe_pending.PendingEntries",
    "operations.reading.LogReader", "server.assembly.ServerParts",
    "core.transfer.remote.Peer",  # of slices, as the next ones are: tests/process/router
    "protocol.routing.sliced_queues.SlicedQueues", "server.connections.channels.Trunk",
    *(name for name in MAY_HOLD if name.startswith(("server.slices.", "server.mail."))),
}  # fmt: skip


async def put(peer: Peer, key: str, body: str = "x") -> None:
    assert await peer.ask(f"set {key} 0 0 {len(body)}\r\n{body}\r\n".encode()) == b"STORED\r\n"


async def get(peer: Peer, key: str) -> bool:
    """Return whether there was an item."""
    line = await peer.ask(f"gets {key}\r\n".encode())
    found = line.startswith(b"VALUE")
    while line != b"END\r\n":
        line = await peer.line()
    return found


async def work_in_text(peer: Peer) -> None:
    """Use every verb of the text port; an item is open at the end."""
    for request, answer in (
        (b"put jobs:\none\ntwo\n\n", b"+2\n"), (b"put refused\n\n", b"-put needs a colon"),
        (b"get jobs\n", b":"), (b"peek jobs\n", b":"), (b"get absent 1\n", b"*\n"),
        (b"monitor lines 0\n", b"*\n"), (b"get jobs\n", b":"), (b"nonsense\n", b"-Unknown"),
    ):  # fmt: skip
        assert (await peer.ask(request)).startswith(answer)


async def work(peer: Peer) -> None:
    """Do a little of everything."""
    await get(peer, "jobs+audit/open")
    for number in range(4):
        await put(peer, "jobs", f"job {number}")
        await put(peer, f"jobs/key={number % 2}", "keyed")
        await put(peer, f"kept/key={number % 2}", "kept")
    await put(peer, "jobs/id=a")
    await put(peer, "jobs/id=a/scope=w/epoch=1")
    await put(peer, "jobs/delay=1ms")
    await put(peer, "both", "for both")
    await put(peer, "moving")
    await get(peer, "moving/open")
    await get(peer, "moving/abort")
    for options in ("open", "open/lease=1s", "open", "abort", "close"):
        await get(peer, f"jobs/{options}")
    await get(peer, "jobs/peek/after=0/n=3")
    await get(peer, "absent/t=1ms")
    for mode in ("readonly", "up"):
        await peer.ask(f"status {mode}\r\n".encode())


async def empty(peer: Peer, daemon: Daemon) -> None:
    """Fetch and confirm every item."""
    broker = daemon.broker
    while broker.moves.is_active or any(queue.reader.live for queue in broker.queues.values()):
        for name in [*broker.queues]:
            for key in (name.decode(), f"{name.decode()}/dead"):
                while await get(peer, key):
                    pass
        await asyncio.sleep(0.001)


async def until(true: Callable[[], bool]) -> None:
    """Wait until work that is checked again after a moment is over."""
    async with asyncio.timeout(ANSWER_SECONDS):
        while not true():
            await asyncio.sleep(0.01)


async def test_nothing_is_left_when_all_is_gone_nor_after_a_restart(tmp_path: Path) -> None:
    for is_new in (True, False):
        async with running(tmp_path, config=CONFIG) as server:
            daemon = server.daemon
            assert daemon is not None
            if is_new:
                peer = await server.client()
                await work(peer)
                texting = await server.text_client()
                await work_in_text(texting)
                texting.writer.close()
                await until(lambda daemon=daemon: len(daemon._connections) == 1)
                await empty(peer, daemon)
                peer.writer.close()
            try:
                await until(lambda daemon=daemon: not left_over(daemon))
            except TimeoutError:
                assert left_over(daemon) == []
            assert files_left(Disk(), str(tmp_path / "data"), daemon.broker) == []


async def test_the_look_meets_every_class_that_stays(tmp_path: Path) -> None:
    async with running(tmp_path, config=CONFIG) as server:
        daemon, peer = server.daemon, await server.client()
        assert daemon is not None
        await work(peer)
        texting = await server.text_client()
        await work_in_text(texting)
        walk = Walk()
        walk.run(daemon)
        assert sorted(MAY_HOLD.keys() - walk.classes - NOT_MET) == []
