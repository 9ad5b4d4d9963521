"""A server between whose queues items move, with books about what clients were told.

    town = TransferHarness()
    town.set_queue("jobs", max_attempts=1, dead_letter_to="failed")
    town.put("jobs", b"1")
    town.fail("jobs")
    town.crash(random)                  # or `kill`, or an orderly end
    town.check()                        # each body is exactly once somewhere

It stands for a daemon with dead-letter queues, expiry queues and hand-offs.
Real and replaced parts: as in a `ServerHarness`.

One rule: the books follow from the replies; `check` looks up in every line of every queue where
each body really is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

from journal.errors import JournalFailed
from journal.format.record import Record
from journal.tools.view import JournalView
from kestrelpy.core.index.leases import Lease
from kestrelpy.core.log.log import JournalLog
from tests.support.memory_disk import Fate, MemoryDisk, PowerCut
from tests.support.server_harness import ServerHarness
from tests.support.tidying import take_snapshot

MARK = b"|"  # one more with each hand-off, so that each stored body is another one


class TransferHarness(ServerHarness):
    """`stored`: must be there, once. `perhaps`: once at most. `done`: not there, unless the power
    was cut; then once at most."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: set[bytes] = set()
        self.perhaps: set[bytes] = set()
        self.done: set[bytes] = set()
        self.token = 0

    # -- clients ----------------------------------------------------------------------------

    def put(self, queue: str, body: bytes, expiry: int = 0) -> bytes:
        """Set the body; return the answer."""
        self.perhaps.add(body)
        self._hear_out("client")
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
        """Fetch the first item and confirm it; return its body."""
        self._hear_out("client")
        body = body_of(self.say("client", b"get %b/open" % queue.encode()))
        if body is not None:
            body = unmarked(body)
            self.stored.discard(body)
            self.perhaps.add(body)
            if self.say("client", b"get %b/close" % queue.encode()) == b"END\r\n":
                self.perhaps.discard(body)
                self.done.add(body)
        return body

    def take(self, queue: str, who: str = "client", options: str = "") -> bytes | None:
        """Fetch the first item as the client `who`; return its body. Its token is `token`.

        The first item may have to be read back from disk: that takes a moment.
        """
        answer = self.say(who, f"gets {queue}/open{options}".encode())
        if not answer and self.syncs:
            self.pass_time(1)
            answer = self.client(who).take()
        if answer.startswith(b"VALUE"):
            self.token = int(answer.split(b"\r\n")[0].rpartition(b" ")[2])
        return body_of(answer)

    def hand(
        self, queue: str, to: str, who: str = "client", options: str = "", verb: str = "set"
    ) -> bytes:
        """Fetch the first item and hand it off, with a mark more; return the answer (b"": none).

        In every outcome the item exists once. (Unless `options` have it expire.)
        """
        body = self.take(queue, who)
        if body is None:
            return b""
        return self.pass_on(to, body, who, options, verb)

    def pass_on(
        self, to: str, body: bytes, who: str = "client", options: str = "", verb: str = "set"
    ) -> bytes:
        """Hand off what is open, as this body with a mark more."""
        body += MARK
        line = f"{verb} {to}/confirm{options} 0 0 {len(body)}"
        return self.say(who, line.encode(), body)

    def _hear_out(self, who: str) -> None:
        """Take late answers of this client, so that they do not answer its next request."""
        if who in self.clients:
            self.clients[who].take()

    def wait(self, queue: str, who: str) -> None:
        """Let the client `who` wait for the next item with a `get`, which confirms it at once.

        From now on any stored item may be gone before the books hear of it.
        """
        self.perhaps |= self.stored
        self.stored = set()
        self.say(who, b"get %b/t=1h" % queue.encode())

    def heard(self, who: str) -> None:
        """Note in the books the item that the waiting client was given, if it has come."""
        client = self.clients.get(who)
        body = body_of(client.take()) if client is not None else None
        if body is not None:
            body = unmarked(body)
            self.stored.discard(body)
            self.perhaps.discard(body)
            self.done.add(body)

    # -- ends -------------------------------------------------------------------------------

    def kill(self) -> None:
        """Restart after `kill -9`; replies that clients have not read by then are lost."""
        self.come_back(self.disk.kill_clone(), False)

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
        """Restart after a power cut or `kill -9`, by chance."""
        fate = random.choice(("random", "kept", "lost", "killed"))
        if fate == "killed":
            self.kill()
        else:
            self.come_back(self.disk.crash_clone(random, fate), True)

    # -- the disk ---------------------------------------------------------------------------

    def segments(self, queue: str) -> list[str]:
        """Remove the segments that are no longer needed; return those that are left."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        for path in log.take_dead():
            self.disk.remove(path)
        return [n for n in self.disk.names(log.journal.folder) if n.endswith(".segment")]

    def write_queue(self, queue: str) -> None:
        """Write the journal of this queue, and no other one."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        self.write_log(log)

    def sync_queue(self, queue: str) -> None:
        """Sync the journal of this queue, and no other one."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        job = log.journal.begin_sync()
        if job is not None:
            job.run()
            log.journal.finish_sync(None)
            log.advance()

    def records(self, queue: str) -> list[Record]:
        """Return the records of a queue's journal."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        return list(JournalView(self.disk, log.journal.folder, live=True).records())

    def is_at_rest(self, queue: str) -> bool:
        """Return True if all records of this queue are on disk."""
        log = self.queue(queue).log
        return log.lsn_durable == log.lsn_appended

    def snapshot(self, queue: str) -> None:
        """Its state is written, if there is any."""
        log = self.queue(queue).log
        assert isinstance(log, JournalLog)
        if log.journal.active is not None:  # else nothing was ever written
            take_snapshot(self, log)

    # -- the books --------------------------------------------------------------------------

    def bodies(self) -> Counter[bytes]:
        """Count every body that is in a line of a queue, or leased; each is read from its log."""
        return Counter(unmarked(body) for _, body in self.stored_bodies())

    def stored_bodies(self) -> list[tuple[str, bytes]]:
        """The queue of each item that is there, and its body as it stands in the log."""
        found = []
        for queue in self.broker.queues.values():
            log, reader, name = queue.files.log, queue.reader, queue.name.decode()
            for id_ in reader.live:
                if isinstance(log, JournalLog):
                    one = log.store.one(id_)
                    assert one is not None, f"{name}: item {id_} is in no segment"
                    record = one.run(self.disk)
                    assert record is not None, f"{name}: item {id_} cannot be read"
                    found.append((name, record.body))
                else:
                    found.append((name, body_in_memory(queue.reader, id_)))
        return found

    def check(self) -> None:
        """Check that no item is lost, doubled, or back after its confirm."""
        assert not self.broker.moves.in_flight.mover.leases, "it would only grow"
        found = self.bodies()
        doubled = {body: count for body, count in found.items() if count > 1}
        assert not doubled, f"doubled: {doubled}"
        assert not self.stored - found.keys(), f"lost: {self.stored - found.keys()}"
        back = found.keys() & self.done
        assert not back, f"came back: {back}"
        unknown = found.keys() - self.stored - self.perhaps
        assert not unknown, f"from nowhere: {unknown}"

    def origins(self) -> int:
        """Return how many origins are open in all queues."""
        queues = {queue.files for queue in self.broker.queues.values()}
        return sum(len(queue.origins) for queue in queues)

    def moving(self) -> list[Lease]:
        """Return the leases of the mover."""
        leases = (lease for queue in self.broker.queues.values() for lease in queue.reader.leases)
        return [lease for lease in leases if lease.is_moving]


def both_deleted_and_the_first_failed(is_back: bool = False) -> TransferHarness:
    """An item was handed off from jobs to next; both are deleted, and jobs cannot say so.

    The files of next are the first to go. `is_back`: another was handed off the other way.
    """
    town = TransferHarness()
    for queue in ("jobs", "next"):
        town.put(queue, b"made")
        town.finish(queue)
    town.put("jobs", b"0")
    assert town.take("jobs") == b"0"
    if is_back:
        town.put("next", b"1")
        assert town.take("next", "other") == b"1"
    town.removes = False
    town.hold_writes()
    assert town.pass_on("next", b"0") == b""
    if is_back:
        assert town.pass_on("jobs", b"1", "other") == b""
    for queue in ("next", "jobs") if is_back else ("next",):
        town.write_queue(queue)
        town.sync_queue(queue)
    logs = [town.queue(queue).log for queue in (("jobs", "next") if is_back else ("jobs",))]
    # Before the copy is known to be stored, so nothing is said of the original yet.
    assert town.say("eve", b"delete jobs") == b""
    assert town.say("eva", b"delete next") == b""
    for log in logs:
        assert isinstance(log, JournalLog)
        log.journal.commit.fail(JournalFailed("Input/output error"))
    town.go()
    town._removing.sort(key=lambda queue: queue.name, reverse=True)
    assert [queue.name for queue in town._removing] == [b"next", b"jobs"]
    town.removes = True
    return town


def check_after_a_crash(town: TransferHarness) -> None:
    """After a crash: everything is exactly once, at once and when all has come to rest."""
    town.check()
    town.work()
    town.check()
    assert town.origins() == 0
    assert town.moving() == []


def unmarked(body: bytes) -> bytes:
    """Return the first body of an item that was handed off any number of times."""
    return body.rstrip(MARK)


def body_in_memory(reader: Any, id_: int) -> bytes:
    """Return the body of an item of a queue in memory."""
    body: bytes = reader.item(id_).body
    return body


def body_of(answer: bytes) -> bytes | None:
    """Return the body of the one item in an answer to a get; None: it has none."""
    if not answer.startswith(b"VALUE "):
        return None
    line, _, rest = answer.partition(b"\r\n")
    size = int(line.split()[3])
    return rest[:size]


def cut_at_every_step(
    act: Callable[[TransferHarness], object],
    look: Callable[[TransferHarness], object],
    seeds: int = 2,
) -> int:
    """`act(town)` with the power cut, and the process killed, before each verb of the disk.

    After each `look(town)`, which also goes on with it. How many verbs there are.
    """
    whole = TransferHarness()
    begun = whole.disk.steps
    act(whole)
    steps = whole.disk.steps - begun
    look(whole)
    fates: list[Fate] = ["kept", "lost", *["random"] * seeds]
    for step in range(1, steps + 1):
        for number, fate in enumerate([None, *fates]):
            town = TransferHarness()
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


def cut_twice(act: Callable[[TransferHarness], object], starts: int) -> None:
    """`act(town)` with the power cut before each verb of the disk, and then once more before each
    of the first `starts` verbs of the start that follows."""
    whole = TransferHarness()
    begun = whole.disk.steps
    act(whole)
    for step in range(1, whole.disk.steps - begun + 1):
        for second in range(1, starts + 1):
            town = TransferHarness()
            town.disk.cut_power_at(step)
            with suppress(PowerCut):
                act(town)
            disk = town.disk.crash_clone(Random(step), "kept")
            disk.cut_power_at(second)
            with suppress(PowerCut):
                town.come_back(disk, True)
                town.work()
            town.come_back(town.disk.crash_clone(Random(second)), True)
            check_after_a_crash(town)
