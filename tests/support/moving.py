"""Queues between which items move, with books about what clients were told.

    town = Town()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("jobs", b"1")
    town.fail("jobs")
    town.crash(random)                  # or `kill -9`, or an orderly end
    town.check()                        # each body is exactly once somewhere

One rule: the books say what must be; where it is, the town looks up in every line of every queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from kestrelpy.core.leases import Lease
from kestrelpy.core.log import JournalLog
from tests.support.memory_disk import Fate, MemoryDisk, PowerCut
from tests.support.stage import Stage


class Town(Stage):
    """`stored`: must be there, once. `perhaps`: once at most. `done`: not there, unless the power
    was cut; then once at most."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: set[bytes] = set()
        self.perhaps: set[bytes] = set()
        self.done: set[bytes] = set()

    # -- clients ----------------------------------------------------------------------------

    def put(self, queue: str, body: bytes, expiry: int = 0) -> bytes:
        """Set it; what was answered."""
        self.perhaps.add(body)
        line = b"set %b 0 %d %d" % (queue.encode(), expiry, len(body))
        answer = self.say("client", line, body)
        if answer == b"STORED\r\n":
            self.perhaps.discard(body)
            self.stored.add(body)
        return answer

    def fail(self, queue: str) -> None:
        """Fetch the first and give it back: with `max_attempts` 1 it dies."""
        self.say("client", b"get %b/open" % queue.encode())
        self.say("client", b"get %b/abort" % queue.encode())

    def finish(self, queue: str) -> bytes | None:
        """Fetch the first and confirm it; what it was."""
        body = body_of(self.say("client", b"get %b/open" % queue.encode()))
        if body is not None:
            self.stored.discard(body)
            self.perhaps.add(body)
            if self.say("client", b"get %b/close" % queue.encode()) == b"END\r\n":
                self.perhaps.discard(body)
                self.done.add(body)
        return body

    def wait(self, queue: str, who: str) -> None:
        """Somebody waits for the next item and takes it, confirmed as it is handed out.

        Whatever is there now may be gone before we hear of it.
        """
        self.perhaps |= self.stored
        self.stored = set()
        self.say(who, b"get %b/t=1h" % queue.encode())

    def heard(self, who: str) -> None:
        """What that was, if it has come."""
        client = self.clients.get(who)
        body = body_of(client.take()) if client is not None else None
        if body is not None:
            self.stored.discard(body)
            self.perhaps.discard(body)
            self.done.add(body)

    # -- ends -------------------------------------------------------------------------------

    def come_back(self, disk: MemoryDisk, cut: bool) -> None:
        """Another process finds this disk; `cut`: after a power cut."""
        for client in self.clients.values():
            client.sent.clear()
        if cut:
            self.perhaps |= self.done
            self.done = set()
        self._removing.clear()
        self._gates.clear()
        self.disk = disk
        self._come_back()

    def crash(self, random: Random) -> None:
        """A power cut, or `kill -9`."""
        fate = random.choice(("random", "kept", "lost", "killed"))
        if fate == "killed":
            self.come_back(self.disk.kill_clone(), False)
        else:
            self.come_back(self.disk.crash_clone(random, fate), True)

    # -- the disk ---------------------------------------------------------------------------

    def segments(self, queue: str) -> list[str]:
        """The files of a queue's journal; what nobody needs is removed first."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        for path in log.take_dead():
            self.disk.remove(path)
        return [n for n in self.disk.names(log.journal.folder) if n.endswith(".segment")]

    def snapshot(self, queue: str) -> None:
        """Its state is written."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        upkeep = log.journal.upkeep
        job = upkeep.begin_snapshot(log.state(), self.wall_ms)
        job.run(self.disk)
        outdated = upkeep.finish_snapshot(job, True)
        if outdated:
            self.disk.remove(outdated)

    # -- the books --------------------------------------------------------------------------

    def bodies(self) -> Counter[bytes]:
        """Every body that is in some line of some queue, or lent; each read from its log."""
        found: Counter[bytes] = Counter()
        for queue in self.broker.queues.values():
            log, reader = queue.log, queue.reader
            for id_ in reader.live:
                if isinstance(log, JournalLog):
                    one = log.journal.backlog.one(id_)
                    assert one is not None, f"{queue.name!r}: item {id_} is in no segment"
                    record = one.run(self.disk)
                    assert record is not None, f"{queue.name!r}: item {id_} cannot be read"
                    found[record.body] += 1
                else:
                    found[body_in_memory(queue.reader, id_)] += 1
        return found

    def check(self) -> None:
        """Nothing is lost, nothing is doubled."""
        found = self.bodies()
        doubled = {body: count for body, count in found.items() if count > 1}
        assert not doubled, f"doubled: {doubled}"
        assert not self.stored - found.keys(), f"lost: {self.stored - found.keys()}"
        back = found.keys() & self.done
        assert not back, f"came back: {back}"
        unknown = found.keys() - self.stored - self.perhaps
        assert not unknown, f"from nowhere: {unknown}"

    def origins(self) -> int:
        """How many are open."""
        return sum(len(queue.origins) for queue in self.broker.queues.values())

    def moving(self) -> list[Lease]:
        """What is lent to the mover."""
        return list(self.broker.moves.mover.leases)


def body_in_memory(reader: Any, id_: int) -> bytes:
    """Of an item of a queue in memory."""
    lease = reader.leases.of(id_)
    item = lease.item if lease is not None else reader.ready.at(id_) or reader.dead.at(id_)
    body: bytes = item.body
    return body


def body_of(answer: bytes) -> bytes | None:
    """Of the one item in an answer to a get."""
    if not answer.startswith(b"VALUE "):
        return None
    line, _, rest = answer.partition(b"\r\n")
    size = int(line.split()[3])
    return rest[:size]


def cut_at_every_step(
    act: Callable[[Town], object], look: Callable[[Town], object], seeds: int = 2
) -> int:
    """`act(town)` with the power cut, and the process killed, before each verb of the disk.

    After each `look(town)`, which also goes on with it. How many verbs there are.
    """
    whole = Town()
    begun = whole.disk.steps
    act(whole)
    steps = whole.disk.steps - begun
    look(whole)
    fates: list[Fate] = ["kept", "lost", *["random"] * seeds]
    for step in range(1, steps + 1):
        for number, fate in enumerate([None, *fates]):
            town = Town()
            town.disk.cut_power_at(step)
            with suppress(PowerCut):
                act(town)
            if fate is None:
                disk = town.disk.kill_clone()
            else:
                disk = town.disk.crash_clone(Random(step * 10 + number), fate)
            town.come_back(disk, fate is not None)
            look(town)
    return steps
