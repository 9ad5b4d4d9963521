"""Spark's reads and writes of a fleet, without Spark: real members, and takeovers in the middle.

Promise spark-live: an owner in a fleet killed in the middle of a read.
Promise spark-stream: an owner in a fleet killed between the plan of a batch and its read.
Promise spark-sink: an owner in a fleet killed between the rows of a task.
"""

from __future__ import annotations

import signal
from collections import Counter
from contextlib import closing

import pytest

from kestrelpy.examples.fleet.postgres_server import PostgresServer
from kestrelpy.placement import Placement
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import owners, partitions
from kestrelpy.spark.live.wire import ServerUnreachable
from kestrelpy.spark.offsets import FleetAddress
from kestrelpy.spark.options import Options, parse_options
from kestrelpy.spark.streaming import BatchLimits, LiveQueues, read
from kestrelpy.spark.write.lane import Lane
from kestrelpy.spark.write.write_options import parse_write_options
from tests.process.router.members import SLICES, Fleet
from tests.process.router.test_slices import eventually, is_running
from tests.support.daemon import DaemonProcess
from tests.unit.spark.files.test_places import rows as rows_of_journals

QUEUES = ("a", "b", "g", "l")  # one in each slice
ITEMS = 12
BODY_BYTES = 1_000_000  # an answer stops at 4 MiB, so that a queue takes several


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know nothing of the fleet before, at the same address."""
    monkeypatch.setattr(owners, "_known", {})


def options(fleet: Fleet, **more: str) -> Options:
    return parse_options({"fleet": fleet.address, "queues": "a,b,g,l", **more})


def put(member: DaemonProcess, *queues: str, size: int = 100) -> None:
    with closing(member.client(30.0)) as client:
        for number in range(ITEMS):
            for queue in queues:
                assert client.set(queue, f"{queue} {number} ".ljust(size, "."))


def kill_owner(fleet: Fleet, queue: str) -> None:
    name = fleet.owners()[Placement(SLICES).slice_of(queue.encode())]
    fleet.send(fleet.members[name], signal.SIGKILL)


def test_each_row_names_the_slice_as_its_journals_do(fleet: Fleet) -> None:
    a, b = fleet.start("a", "b")
    put(a, *QUEUES)
    wanted = options(fleet)

    slices = [each for part in partitions.plan(wanted) for each in part]
    found = {
        (part.server, part.queue, int(line[4]))
        for part, values in partitions.read(slices, wanted) for line in values.lines
    }  # fmt: skip

    assert len(found) == len(QUEUES) * ITEMS
    journals = rows_of_journals(fleet.address, "items")
    assert found == {(row["server"], row["queue"], row["marker"]) for row in journals}
    (at,) = wanted.servers
    assert isinstance(at, FleetAddress)
    owners_now = owners.members_of(at).owners
    names = {member.port: name for name, member in fleet.members.items()}
    assert {number: names[each.port] for number, each in owners_now.items()} == fleet.owners()
    assert {a.port, b.port} == {each.port for each in owners_now.values()}


def test_a_read_goes_on_with_the_next_owner_after_the_last_item_that_it_has(fleet: Fleet) -> None:
    a, _ = fleet.start("a", "b")
    put(a, "a", size=BODY_BYTES)
    wanted = options(fleet, queues="a")
    slices = [each for part in partitions.plan(wanted) for each in part]

    markers = list[int]()
    for _, values in partitions.read(slices, wanted):
        if not markers:
            kill_owner(fleet, "a")
        markers += [int(line[4]) for line in values.lines]

    assert markers == list(range(1, ITEMS + 1))


def test_a_stream_goes_on_over_a_takeover_from_marker_to_marker(fleet: Fleet) -> None:
    a, b = fleet.start("a", "b")
    put(a, *QUEUES)
    wanted = parse_options(
        {"fleet": fleet.address, "queues": "a,b,g,l", "cursor": "spark"}, streams=True
    )
    found, queues = Counter[tuple[str, int]](), LiveQueues(wanted)
    position = queues.begin()

    for batch in range(3):
        if batch:
            put(next(each for each in (a, b) if is_running(each.pid)), *QUEUES)
        end = queues.advance(position, BatchLimits())
        if batch == 1:
            kill_owner(fleet, "a")  # planned, and not read
        for part in queues.slices(end):
            for each, values in read(part, wanted):
                found.update((each.queue, int(line[4])) for line in values.lines)
        queues.confirm(end)
        position = end

    every = Counter((queue, marker) for queue in QUEUES for marker in range(1, 3 * ITEMS + 1))
    assert found == every
    assert not queues.lag(position)


def test_the_sink_stores_each_row_once_over_a_takeover(fleet: Fleet) -> None:
    fleet.start("a", "b")
    said = parse_write_options({"fleet": fleet.address, "queue": "a"}, streams=False)
    lane = Lane(said.servers[0], said)
    lane.know()
    body = b"." * 2_000
    for number in range(3_000):
        if number == 1_500:
            kill_owner(fleet, "a")
        lane.put(b"set a/id=%d 0 0 %d\r\n%b\r\n" % (number, len(body), body))
    lane.finish()
    lane.close()

    assert lane.stored + lane.repeated == 3_000
    running = next(each for each in fleet.members.values() if is_running(each.pid))
    with closing(running.client(30.0)) as client:
        assert client.stats("a")[b"queue_a_total_items"] == 3_000


def test_of_a_fleet_of_one_slice_the_owner_alone_is_asked(fleet: Fleet) -> None:
    a = fleet.member("a", slices=1).start()
    b = fleet.member("b", slices=1).start()
    put(a, "a", size=BODY_BYTES)
    wanted = options(fleet, queues="a")
    said = parse_write_options({"fleet": fleet.address, "queue": "a"}, streams=False)
    lane = Lane(said.servers[0], said)
    lane.know()
    (slices,) = partitions.plan(wanted)

    markers = list[int]()
    for _, values in partitions.read(slices, wanted):
        if not markers:
            a.kill()
        markers += [int(line[4]) for line in values.lines]
    assert markers == list(range(1, ITEMS + 1))
    lane.put(b"set a/id=7 0 0 1\r\nx\r\n")
    lane.finish()
    lane.close()

    assert (lane.stored, fleet.owners()) == (1, {1: "b"})
    assert any("ready" in line for line in b.lines)


def test_what_a_fleet_lacks_is_one_sentence(fleet: Fleet, server: PostgresServer) -> None:
    none = options(fleet, fetchRetries="0")
    with pytest.raises(ServerUnreachable, match=r"cannot be read: no member says where it answe"):
        partitions.plan(none)
    member = fleet.member("a", slices=1).start()
    put(member, "a")
    planned = partitions.plan(options(fleet, queues="a"))
    with pytest.raises(KestrelError, match=r"no queue aa on postgresql://.*Did you mean a\?"):
        partitions.plan(options(fleet, queues="aa"))
    member.stop()
    eventually(lambda: not fleet.owners())
    with pytest.raises(ServerUnreachable) as found:
        list(partitions.read(planned[0], none))
    assert "Start a member, or correct the option fleet." in str(found.value)
    owners.forget(none.servers[0])
    server.ask("UPDATE kestrelpy.version SET number = number + 1")
    with pytest.raises(ServerUnreachable, match="install the newer kestrelpy that made them"):
        partitions.plan(none)
