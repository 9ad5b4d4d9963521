"""A stream from queue to queue of a fleet, while the owners of both queues are killed.

Promise spark-stream: the members that own its queues in a fleet killed.
Promise spark-sink: the members that own its queues in a fleet killed.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal.engine.postgres import make_tables
from kestrelpy.examples.fleet.postgres_server import PostgresServer, folder_of_servers
from kestrelpy.placement import Placement
from kestrelpy.spark.session import what_is_missing
from tests.process.kill.test_kill_spark import BODIES, ROWS, Pipe
from tests.process.router.members import SLICES, Fleet
from tests.process.router.test_slices import is_running
from tests.support.daemon import DaemonProcess
from tests.support.raw import Raw

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


class FleetPipe(Pipe):
    """The members of a fleet, and one driver that reads and writes their queues."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        super().__init__(folder, list(fleet.members.values()))
        self.fleet = fleet

    @property
    def where(self) -> str:
        return self.fleet.address

    @property
    def running(self) -> DaemonProcess:
        return next(each for each in self.daemons if is_running(each.pid))

    def put(self) -> None:
        with Raw((self.running.host, self.running.port)) as raw:
            for n in range(ROWS):
                body = b"line %d" % (n % 1_300)
                raw.ask(b"set in 0 0 %d\r\n%b\r\n" % (len(body), body), b"STORED\r\n")

    def stored(self) -> int:
        with Raw((self.running.host, self.running.port)) as raw:
            return int(raw.stats(b"stats out").get("queue_out_items", 0))

    def bodies(self) -> Counter[bytes]:
        found: Counter[bytes] = Counter()
        with Raw((self.running.host, self.running.port)) as raw:
            after = 0
            while values := raw.values(b"out/peek/after=%d/n=10000" % after):
                found.update(body for _, body in values)
                after = values[-1][0]
        return found

    def kill_owner(self, queue: bytes) -> None:
        """Kill the member that owns the slice of this queue, and start it again."""
        name = self.fleet.owners()[Placement(SLICES).slice_of(queue)]
        member = self.fleet.members[name]
        self.fleet.send(member, signal.SIGKILL)
        self.killed[name] += 1
        member.start()


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[FleetPipe]:
    missing = what_is_missing()
    if missing is not None:
        pytest.skip(missing)
    with folder_of_servers() as folder:
        server = PostgresServer(folder)
        server.make()
        server.start()
        make_tables(server.address)
        fleet = Fleet(tmp_path, server)
        try:
            fleet.start("a", "b", "c")
            made = FleetPipe(tmp_path, fleet)
            made.put()
            try:
                yield made
            finally:
                made.stop()
        finally:
            fleet.close()
            server.stop()


def test_a_stream_over_takeovers_of_both_queues_neither_misses_nor_repeats(
    pipe: FleetPipe,
) -> None:
    pipe.start()
    for wanted, queue in ((1, b"in"), (ROWS // 2, b"out")):
        assert pipe.wait_for(lambda least=wanted: pipe.stored() >= least, "rows come out")
        pipe.kill_owner(queue)

    assert pipe.end() == 0, "the query goes on by itself"
    assert sum(pipe.killed.values()) == 2
    assert pipe.bodies() == BODIES
