"""A real object store: killed, asked with a wrong key; and two members on it.

Promise takeover: an owner and a store killed, on a real object store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import ModuleType

import pytest
from pymemcache.exceptions import MemcacheError

from journal.engine import Create, EngineAway, Fenced, Member, Write
from journal.engine.object_store import ObjectStoreEngine
from tests.support.daemon import DaemonProcess
from tests.support.memory_engine import claimed
from tests.support.object_store import ObjectStore, object_store

SECONDS = 90.0


@pytest.fixture(scope="module")
def opening() -> ModuleType:
    found: ModuleType = pytest.importorskip(
        "journal.engine.object_store.opening", reason="needs the extra object-store"
    )
    return found


@pytest.fixture(scope="module")
def server(opening: ModuleType) -> Iterator[ObjectStore]:
    with object_store() as made:
        yield made


@pytest.fixture
def address(server: ObjectStore, opening: ModuleType, request: pytest.FixtureRequest) -> str:
    """A fleet of its own for each test."""
    found = server.address(f"fleets/{request.node.name}")
    assert opening.make(found) == (True, [], [])
    return found


@pytest.fixture
def engine(address: str, opening: ModuleType) -> Iterator[ObjectStoreEngine]:
    with closing(opening.open_engine(address)) as made:
        yield made


def test_what_was_acknowledged_outlives_the_server(
    server: ObjectStore, engine: ObjectStoreEngine, address: str, opening: ModuleType
) -> None:
    at = claimed(engine, "a")
    engine.commit(at, [Create(1, "a", 0), Write(1, 0, b"one")])
    server.stop()
    with pytest.raises(EngineAway, match="is the store running"):
        engine.commit(at.after(), [Write(1, 3, b"two")])
    server.start()
    engine.commit(at.after(), [Write(1, 3, b"two")])

    later = opening.open_engine(address)
    assert later.read(at.after().after(), 1, 0, 6) == b"onetwo"
    assert later.owners()[1].seq == 2


def test_a_wrong_key_is_named_and_not_shown(
    address: str, opening: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret")
    with pytest.raises(EngineAway, match="AWS_SECRET_ACCESS_KEY is wrong") as found:
        opening.open_engine(address).owners()
    assert "another-secret" not in str(found.value)


def test_what_an_operator_asks_reaches_the_owner(
    engine: ObjectStoreEngine, address: str, opening: ModuleType
) -> None:
    engine.note(Member("a", "there"), 3.0, [2])
    at = claimed(engine, "a")
    assert opening.ask_release(address, 1, at.epoch)
    assert opening.drain(address, "a", True) == ["there"]
    assert opening.open_engine(address).owners()[1].was_asked

    found = opening.look(address)
    assert found.owners[1].epoch == at.epoch
    assert [(each.member.name, each.is_drained, each.waits) for each in found.members] == [
        ("a", True, (2,))
    ]
    assert found.bytes["log"] > 0
    engine.release(at)
    assert not opening.ask_release(address, 1, at.epoch)


def test_many_commits_are_packed_and_read_again(
    engine: ObjectStoreEngine, address: str, opening: ModuleType
) -> None:
    at = claimed(engine, "a")
    engine.commit(at, [Create(1, "a", 0), Create(2, "b", 0), Write(2, 0, b"b")])
    data = os.urandom(1 << 20)
    for turn in range(20):  # more than a pack holds
        at = at.after()
        engine.commit(at, [Write(1, turn << 20, data)])
    engine.close()  # the packs are written
    engine.commit(at.after(), [Write(1, 5, b"later")])
    at = at.after().after()

    later = opening.open_engine(address)
    assert later.read(at, 1, 0, 20 << 20) == data[:5] + b"later" + data[10:] + 19 * data
    assert later.read(at, 2, 0, 1) == b"b"
    with pytest.raises(Fenced):
        taken = claimed(later, "b")
        later.commit(taken, [])
        engine.commit(at, [])


def test_a_standby_takes_over_what_a_killed_owner_has_stored(
    address: str, tmp_path: Path, opening: ModuleType
) -> None:
    def member(name: str) -> DaemonProcess:
        text = f'[fleet]\nengine = "{address}"\nname = "{name}"\ntakeover = "2s"\n'
        return DaemonProcess(tmp_path / name, config=text)

    def is_stored(by: DaemonProcess, body: str) -> bool:
        """Store an item if this member owns the data."""
        with suppress(MemcacheError, OSError), closing(by.client()) as client:
            return client.set("jobs", body) is True
        return False

    lines = [f"line {number}" for number in range(300)]
    with member("a") as first, member("b") as second:
        until(lambda: is_stored(first, lines[0]))
        with closing(first.client()) as client:
            for each in lines[1:]:
                assert client.set("jobs", each)
        first.kill()
        until(lambda: is_stored(second, "after"))
        with closing(second.client()) as client:
            found = [client.get("jobs") for _ in range(len(lines) + 1)]
        assert found == [each.encode() for each in [*lines, "after"]]
        assert second.stop() == 0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
