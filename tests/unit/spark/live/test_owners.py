"""Which member of a fleet is asked, while the engine changes its mind, is away, or was never there.

Promise spark-live: a member that refuses as during a takeover, an engine that is away then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import pytest

from journal.engine import Layout, Member, Owner, Seat
from kestrelpy.placement import Placement
from kestrelpy.spark.errors import KestrelError
from kestrelpy.spark.live import owners, partitions
from kestrelpy.spark.live.wire import ServerUnreachable
from kestrelpy.spark.options import Options, parse_options
from tests.unit.spark.stand_in import Line, StandIn

ENGINE = "postgresql://k:sekret@db/kestrel"
IDS = "5e12,5e13"


class FakeEngine:
    """What the engine says: the address of each slice's owner, and of members that wait."""

    def __init__(self) -> None:
        self.owners: dict[int, Owner] = {}
        self.waiting: list[StandIn] = []
        self.groups = ""
        self.slices = 2
        self.away = 0  # how many more looks fail
        self.looks = 0

    def own(self, member: StandIn, *slices: int, age_s: float = 0.1) -> None:
        for each in slices or (1, 2):
            self.owners[each] = Owner(_member(member), 1, 1, age_s, False, takeover_s=3.0)

    def begin(self, address: str, cache_folder: str) -> FakeMoment:
        self.looks += 1
        if self.away:
            self.away -= 1
            raise OSError(107, "it is away", "postgresql://k@db/kestrel")
        assert address == ENGINE
        return FakeMoment(self)


class FakeMoment:
    """One look."""

    def __init__(self, engine: FakeEngine) -> None:
        self._engine = engine
        self.owners = dict(engine.owners)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        pass

    def seats(self) -> list[Seat]:
        return [Seat(_member(each), 3.0, 0.5) for each in self._engine.waiting]

    def layout(self) -> Layout:
        return Layout(self._engine.slices, self._engine.groups)


def _member(server: StandIn) -> Member:
    return Member("m", str(server.address))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    made = FakeEngine()
    monkeypatch.setattr(owners, "OneMoment", made.begin)
    monkeypatch.setattr(owners, "_known", {})
    monkeypatch.setattr(owners, "_stale", set())
    return made


@pytest.fixture
def start() -> Iterator[Callable[..., StandIn]]:
    with ExitStack() as closing:

        def started(*queues: str, ids: str = IDS) -> StandIn:
            lines = {name: Line() for name in queues}
            for line in lines.values():
                for number in range(5):
                    line.put(b"%d" % number)
            return closing.enter_context(StandIn(lines, ids))

        yield started


def options(**more: str) -> Options:
    return parse_options(
        {"fleet": ENGINE, "fetchRetryInterval": "1ms", "fetchRetries": "3", **more}
    )


def found(wanted: Options) -> dict[tuple[str, str], int]:
    """How many items are read of each queue, by the id of its server."""
    counts: dict[tuple[str, str], int] = {}
    for parts in partitions.plan(wanted):
        for part, values in partitions.read(parts, wanted):
            name = part.server, part.queue
            counts[name] = counts.get(name, 0) + len(values.lines)
    return counts


def test_a_queue_has_the_id_of_its_slice(
    engine: FakeEngine, start: Callable[..., StandIn]
) -> None:
    engine.groups = "shop.*"
    engine.own(start("a", "g", "shop.in", "shop.out"))
    placement = Placement(2, ["shop.*"])

    ids = {queue: server for server, queue in found(options())}

    assert ids == {
        queue: IDS.split(",")[placement.slice_of(queue.encode()) - 1]
        for queue in ("a", "g", "shop.in", "shop.out")
    }
    assert set(ids.values()) == set(IDS.split(","))
    assert engine.looks == 1


def test_the_owner_of_the_slice_is_asked_if_it_lives(
    engine: FakeEngine, start: Callable[..., StandIn]
) -> None:
    one, other, silent = start("a", "g"), start("a", "g"), start("a", "g")
    engine.own(one, 1)
    engine.own(other, 2)
    engine.waiting = [silent]
    parts = partitions.plan(options())
    before = len(one.requests), len(other.requests)

    for each in (part for slices in parts for part in slices):
        list(partitions.read([each], options()))

    assert {len(one.requests) - before[0], len(other.requests) - before[1]} == {4}
    assert silent.requests == []


@pytest.mark.parametrize("refusal", [b"SERVER_ERROR slice 2 has no owner now", b""])
def test_what_a_member_refuses_as_in_a_takeover_is_asked_again_of_the_owner_of_then(
    engine: FakeEngine, start: Callable[..., StandIn], refusal: bytes
) -> None:
    before, after = start("a", "g"), start("a", "g")
    engine.own(before)
    planned = partitions.plan(options())
    engine.own(after)
    engine.away = 2
    if refusal:
        before.refusals["stats markers"] = refusal
    else:
        before.server_id = "-"  # a member that only waits

    slices = [part for parts in planned for part in parts]
    markers = [line[4] for _, values in partitions.read(slices, options()) for line in values.lines]

    assert sorted(markers) == sorted(2 * [b"%d" % number for number in range(1, 6)])
    assert len(after.requests) >= 4


def test_an_engine_that_has_answered_is_waited_for_and_no_other_one(
    engine: FakeEngine, start: Callable[..., StandIn]
) -> None:
    engine.own(start("a", "g"))
    engine.away = 1
    with pytest.raises(KestrelError) as refused:
        partitions.plan(options())
    assert str(refused.value) == (
        "postgresql://k@db/kestrel: the engine cannot be read: it is away."
    )

    assert len(found(options())) == 2
    engine.away = 2
    owners.forget(options().servers[0])
    assert len(found(options())) == 2
    engine.away = 99
    owners.forget(options().servers[0])
    with pytest.raises(ServerUnreachable, match=r"it is away\. Start a member, or correct"):
        partitions.plan(options())


def test_other_slices_than_before_are_looked_at_again(
    engine: FakeEngine, start: Callable[..., StandIn]
) -> None:
    engine.slices = 3
    engine.own(start("a", "g"))
    owners.members_of(owners.FleetAddress.of(ENGINE))
    engine.slices = 2

    assert len(found(options())) == 2


def test_a_fleet_without_an_address_is_one_sentence(engine: FakeEngine) -> None:
    engine.owners = {1: Owner(Member("a", "nowhere"), 1, 1, 0.1, False, takeover_s=3.0)}

    with pytest.raises(ServerUnreachable, match="no member says where it answers"):
        partitions.plan(options(fetchRetries="0"))
