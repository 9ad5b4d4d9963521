"""The order in which the files of deleted queues go, and what is answered."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from kestrelpy.protocol.replies import Gate
from kestrelpy.server.removals import Removals
from tests.support.memory_disk import Fault
from tests.support.moving import Town, both_deleted_and_the_first_failed


async def removed(town: Town) -> dict[str, Gate]:
    """Every deleted queue's removal, begun at once and waited for; what each is answered."""
    tasks: list[asyncio.Task[None]] = []

    def start(work: Coroutine[object, object, None]) -> None:
        tasks.append(asyncio.get_running_loop().create_task(work))

    removals = Removals(town.broker, town.directory, start)
    nothing: Any = SimpleNamespace(
        committer=SimpleNamespace(is_removing=lambda target: False),
        background=SimpleNamespace(is_busy=lambda target: False),
        files=SimpleNamespace(rested=lambda target: None),
        shortage=SimpleNamespace(patiently=lambda subject, work: work()),
        touch_all=lambda conversations: None, owe=lambda: None,
    )  # fmt: skip
    removals.turn = nothing
    gates = {}
    for queue in town._removing:
        gates[queue.name.decode()] = removals.gate(queue)
        removals.begin(queue)
    await asyncio.gather(*tasks)
    return gates


def renamed(town: Town) -> list[str]:
    """The queues whose folders went, in this order."""
    steps = [step.partition(" ") for step in town.disk.trace]
    return [name.partition(".")[0] for verb, _, name in steps if verb == "rename"]


async def test_the_files_with_an_original_go_before_those_with_its_copy() -> None:
    town = both_deleted_and_the_first_failed()
    gates = await removed(town)
    assert renamed(town) == ["jobs", "next"]
    assert not any(gate.failure for gate in gates.values())


async def test_two_queues_that_would_wait_for_each_other_both_go() -> None:
    town = both_deleted_and_the_first_failed(is_back=True)
    gates = await removed(town)
    assert sorted(renamed(town)) == ["jobs", "next"]
    assert not any(gate.failure for gate in gates.values())


async def test_files_with_a_copy_stay_when_those_with_the_original_cannot_be_removed() -> None:
    town = both_deleted_and_the_first_failed()
    town.disk.faults.append(Fault("rename", "*/jobs.*", error=errno.EIO))
    gates = await removed(town)
    assert [str(gates[name].failure) for name in ("jobs", "next")] == [
        "queue jobs was not removed from disk: Input/output error",
        "queue next was not removed from disk: an item that came here is in doubt until a "
        "restart, for its journal failed",
    ]
    town.come_back(town.disk.kill_clone(), False)
    assert ("jobs", b"0") not in town.places()
    assert ("next", b"0|") in town.places()
