"""Hand-offs among queues and their children, while these are deleted and made anew, over crashes at
any moment: nothing is lost, nothing is doubled, nothing that was deleted comes back.

The model (`deleting_model`) knows what may be there. Whatever is asked is asked in any state of the
disk: of each log any part was written or synced so far.

Promise: hand-off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from journal.format.folder import parse_folder_name
from kestrelpy.core.log.log import JournalLog
from kestrelpy.core.queue.child_queue import AnyQueue, ChildQueue
from kestrelpy.core.subscription.subscription import Subscription
from tests.model.deleting_model import Books, Deletion, End, Event, Line, Place, Stand, family_of
from tests.support.end_of_life import end
from tests.support.machines import has_failed, run, run_for_long
from tests.support.memory_disk import Fate, PowerCut
from tests.support.soak import Soak
from tests.support.tidying import take_snapshot
from tests.support.transfer_harness import TransferHarness

NAMES = ("one", "one+a", "one+b", "two", "two+a", "two+set", "three")
CHILDREN = tuple(name for name in NAMES if "+" in name)
CONFIGURED = "two+set"
NAME = st.sampled_from(NAMES)
WHO = ("anna", "bert", "carl")
OPTIONS = ("", "", "", "/delay=1s", "/key=A", "/key=B")
BEGIN = ("", "/from=0", "/from=0", "/from=3")
LOG = st.integers(0, 3)
LEASE_MS = 5000
STORED, DELETED = b"STORED\r\n", b"DELETED\r\n"
MISTAKEN = b"CLIENT_ERROR items of"
OVER = (b"CLIENT_ERROR nothing to confirm", b"CLIENT_ERROR lease expired", b"CLIENT_ERROR token ")

# The acts of a while and their weights; then whether the disk goes on by itself meanwhile.
VERBS = {
    "hand_off": 6, "delete": 5, "mention": 3, "put": 2, "close": 1, "write": 6, "snapshot": 1,
    "hang_up": 1, "pass_time": 1,
}  # fmt: skip
HOLDS = st.sampled_from(["", "syncs", "writes", "writes", "writes"])
ENDS = st.sampled_from(["", "go", "crash", "crash", "crash on the way"])
FATE = st.sampled_from(["random", "kept", "lost", "killed"])


@dataclass
class Held:
    """An item that a client has open, by the answers that it had."""

    place: Place
    token: int
    by_token: bool
    until_ms: int


class DeletingMachine(RuleBasedStateMachine):
    """A server on a memory disk, and what its clients know."""

    @initialize(each=st.sampled_from([1, 1, 4, 20]), retains=st.booleans(), memory=st.booleans())
    def begin(self, each: int, retains: bool, memory: bool) -> None:
        self.town = TransferHarness()
        self.town.set_queue(lease=f"{LEASE_MS}ms", max_memory="64MiB" if memory else "1")
        if retains:
            self.town.set_queue("one", retain="forever")
        self.town.set_queue(CONFIGURED, lease=f"{LEASE_MS}ms")
        self.retains, self.looks_each, self.rests = retains, each, 0
        self.books = Books()
        self.held: dict[str, Held] = {}
        self.pending: dict[str, Callable[[bytes], None]] = {}  # who is not answered
        self.deleted: set[str] = set()  # families, since the server was at rest
        self.number = self.lives = 0
        self.mention("one+a", "")
        for name in ("one", "one", "one+b", "two"):
            self.put(name, "")

    # -- clients ----------------------------------------------------------------------------

    @rule(name=NAME, options=st.sampled_from(OPTIONS))
    def put(self, name: str, options: str) -> None:
        self._store(self._new(), name, options, None)

    def open(self, who: str, name: str, by_token: bool) -> None:
        """The first of this line, or of the next one that has something."""
        if who in self.held or self._name(who) in self.pending or not self.is_at_rest:
            return
        options = f"/lease={LEASE_MS}ms" if by_token else ""
        first = NAMES.index(name)
        for each in (*NAMES[first:], *NAMES[:first]):
            if each.encode() not in self.town.broker.queues:
                continue
            body = self.town.take(each, self._name(who), options)
            if body is not None:
                until_ms = self.town.now_ms + LEASE_MS
                self.held[who] = Held(self._place(each, body), self.town.token, by_token, until_ms)
                return

    def _place(self, name: str, body: bytes) -> Place:
        """What somebody was lent there."""
        line = self._line(name)
        found = [p for p in self.books.of(line) if p.body == body and p.is_there]
        assert found, f"{body!r} is lent from {line}"
        found[0].stand = Stand.SURE
        return found[0]

    def hand_off(self, who: str, to: str, options: str, named: bool) -> None:
        held = self.held.pop(who, None)
        if held is None or self._name(who) in self.pending:
            return
        source = held.place.line.name
        which = f"={source}:{held.token}" if named or held.by_token else ""
        self._store(self._name(who), to, f"/confirm{which}{options}", held)

    def _store(self, who: str, to: str, options: str, held: Held | None) -> None:
        """Put it, or hand it off."""
        self.number += 1
        body = b"%d" % self.number
        is_mistaken = held is not None and self._is_mistaken(held.place.line, to)
        answer = self.town.say(who, f"set {to}{options} 0 0 {len(body)}".encode(), body)
        old = held.place if held is not None else None
        if held is not None and (not held.place.is_there or self.town.now_ms >= held.until_ms):
            self._ask(who, answer, _is_over)
            return
        assert answer.startswith(MISTAKEN) == is_mistaken, answer
        if is_mistaken:
            self._hang_up(who)
            return
        self._know_children(to)
        event = self.books.put(body, self._line(to), old)
        families = {family_of(to), family_of(old.line.name) if old is not None else ""}
        self._ask(who, answer, lambda said: self._stored(event, families, said))

    def _stored(self, event: Event, families: set[str], said: bytes) -> None:
        if said == STORED:
            self.books.came(event)
        else:  # it may be there or not, and what it confirmed is not, or is
            assert said.startswith(b"SERVER_ERROR queue"), said
            assert families & self.deleted, said

    def _is_mistaken(self, source: Line, to: str) -> bool:
        """Is it of an earlier generation than what would be stored, or of a later one?"""
        if source.family != family_of(to):
            return False
        queues = self.town.broker.queues
        there = queues.get(to.encode()) or queues.get(family_of(to).encode())
        if there is None:  # then the store makes it again, if its log is there
            waiting = [each for each in self.town.broker.tombstones if not each.is_replaced]
            there = next((each for each in waiting if each.name.decode() == source.family), None)
        return there is None or there.generation != source.generation

    def close(self, who: str) -> None:
        held = self.held.pop(who, None)
        if held is None or self._name(who) in self.pending:
            return
        place, is_over = held.place, self.town.now_ms >= held.until_ms
        name = self._name(who)
        line = f"get {place.line.name}/close/token={held.token}"
        answer = self.town.say(name, line.encode())
        if not place.is_there or is_over:
            self._ask(name, answer, _is_over)
            return
        place.stand = Stand.ASKED
        self._ask(name, answer, lambda said: self._closed(place, said))

    def _closed(self, place: Place, said: bytes) -> None:
        if said == b"END\r\n":
            place.stand = Stand.WRITTEN if place.stand is Stand.ASKED else place.stand
        else:
            assert said.startswith(b"SERVER_ERROR queue"), said
            assert place.line.family in self.deleted, said

    def hang_up(self, who: str) -> None:
        self._hear()
        self.held.pop(who, None)
        self._hang_up(self._name(who))

    def _hang_up(self, name: str) -> None:
        self.pending.pop(name, None)
        if name in self.town.clients:
            self.town.hang_up(name)

    def delete(self, name: str) -> None:
        queue = self.town.broker.queues.get(name.encode())
        eve = self._new()
        line = self._line(name) if queue is not None else None
        answer = self.town.say(eve, f"delete {name}".encode())
        if line is None:
            assert answer == b"NOT_FOUND\r\n", answer
            return
        if not line.number:
            self.deleted.add(name)
        deletion = self.books.delete(line)
        self._ask(eve, answer, lambda said: self._deleted(deletion, said))

    def _deleted(self, deletion: Deletion, said: bytes) -> None:
        assert said == DELETED, said
        self.books.deleted(deletion)

    def mention(self, name: str, begin: str) -> None:
        """Made, if it is not there. (The configured one a start makes, too, with nothing.)"""
        begin = begin if name != CONFIGURED else ""
        if name.encode() in self.town.broker.queues:
            return
        eve = self._new()
        answer = self.town.say(eve, f"get {name}{begin}/peek".encode())
        line = self._line(name)
        retains = self.retains and line.family == "one"
        event = self.books.begin(line, bool(begin), begin == "/from=0", retains)
        self._ask(eve, answer, lambda said: self._mentioned(event, said))

    def _mentioned(self, event: Event, said: bytes) -> None:
        assert event.made is not None
        if said == b"END\r\n" or said.startswith(b"VALUE"):
            self.books.came(event)
        else:
            assert said.startswith(b"SERVER_ERROR queue"), said
            assert event.made.family in self.deleted, said

    # -- asking and hearing -----------------------------------------------------------------

    def _ask(self, who: str, answer: bytes, then: Callable[[bytes], None]) -> None:
        if answer:
            then(answer)
        else:
            self.pending[who] = then

    def _hear(self) -> None:
        """What was answered meanwhile holds, whatever comes next."""
        for who, then in [*self.pending.items()]:
            said = self.town.client(who).take()
            if said:
                del self.pending[who]
                then(said)

    def _name(self, who: str) -> str:
        return f"{who} {self.lives}"

    def _new(self) -> str:
        self.number += 1
        return f"eve {self.number}"

    @property
    def is_at_rest(self) -> bool:
        return self.town.syncs and self.town.removes

    # -- the world --------------------------------------------------------------------------

    @rule(
        seed=st.integers(0, 1 << 32), count=st.integers(1, 16), holds=HOLDS,
        removes=st.booleans(), ends=ENDS, fate=FATE, step=st.integers(1, 40),
    )  # fmt: skip
    def meanwhile(
        self, seed: int, count: int, holds: str, removes: bool, ends: str, fate: str, step: int
    ) -> None:
        """Several things, of which the disk gets to know what somebody says; then an end."""
        random = Random(seed)
        for name in random.sample(NAMES, 2 if self.is_at_rest else 0):
            self.put(name, "")
        for who in WHO:
            self.open(who, random.choice(NAMES), random.random() < 0.3)
        if holds:
            (self.town.hold_writes if holds == "writes" else self.town.hold_syncs)()
            self.town.removes = removes
        for verb in ("hand_off", *random.choices([*VERBS], [*VERBS.values()], k=count)):
            self._act(verb, random)
            self._hear()
        if ends == "go":
            self.go()
        elif ends == "crash":
            self.crash(fate, seed, step)
        elif ends:
            self._cut_on_the_way(step)
            self.crash(fate, seed, 0)

    def _act(self, verb: str, random: Random) -> None:
        """Mostly with what something was done with lately."""
        lately = [place.line.name for event in self.books.events[-3:] for place in event.places]
        lately += [held.place.line.name for held in self.held.values()]
        lately += [family_of(name) for name in lately]
        name = random.choice(lately if lately and random.random() < 0.7 else NAMES)
        who = random.choice([*self.held] or WHO)
        if verb == "hand_off":
            to = random.choice(NAMES)
            self.hand_off(who, to, random.choice(OPTIONS), random.random() < 0.5)
        elif verb == "delete":
            self.delete(name)
            if random.random() < 0.5:
                self._act("mention" if "+" in name else "put", random)
        elif verb == "mention":
            self.mention(name if "+" in name else random.choice(CHILDREN), random.choice(BEGIN))
        elif verb == "put":
            self.put(name, random.choice(OPTIONS))
        elif verb in ("close", "hang_up"):
            getattr(self, verb)(who)
        elif verb == "write":
            self.write(random.randrange(8), random.random() < 0.7)
        elif verb == "snapshot":
            self.snapshot(random.randrange(8))
        else:
            self.pass_time(random.choice((1, 20, LEASE_MS)))

    def _cut_on_the_way(self, step: int) -> None:
        """The power goes while all that was held up is done."""
        self.town.disk.cut_power_at(step)
        with suppress(PowerCut):
            self.town.removes = True
            self.town.go()
        self._hear()

    @rule(ms=st.sampled_from([1, 20, 1000, LEASE_MS]))
    def pass_time(self, ms: int) -> None:
        self.town.pass_time(ms)
        self._hear()

    @rule(log=LOG, syncs=st.booleans())
    def write(self, log: int, syncs: bool) -> None:
        """What one log has to write is written, perhaps synced, and what comes of it."""
        target = self._log(log)
        if target is None or target.failure is not None:
            return
        self.town.write_log(target)
        job = target.journal.begin_sync() if syncs else None
        if job is not None:
            job.run()
            target.journal.finish_sync(None)
            target.advance()
        self.town.work()
        self._hear()

    @rule(log=LOG)
    def snapshot(self, log: int) -> None:
        target = self._log(log)
        if target is None or target.failure is not None or target.journal.active is None:
            return
        if target.lsn_durable < target.lsn_appended:
            return
        take_snapshot(self.town, target)

    def _log(self, number: int) -> JournalLog | None:
        """One of those that are there, or of deleted queues."""
        broker = self.town.broker
        queues = [*broker.logged, *broker.deleted, *self.town._removing]
        logs = [queue.log for queue in queues if isinstance(queue.log, JournalLog)]
        return logs[number % len(logs)] if logs else None

    @rule()
    def go(self) -> None:
        self.town.removes = True
        self.town.go()
        self._hear()
        assert not self.pending, "all is on disk, and somebody is not answered"
        self.books.rest()
        self.deleted.clear()
        self.rests += 1
        if self.rests % self.looks_each == 0:
            self.look(End.REST)

    @rule(fate=FATE, seed=st.integers(0, 1 << 16), step=st.integers(0, 20))
    def crash(self, fate: Fate | Literal["killed"], seed: int, step: int) -> None:
        """`kill -9` or a power cut; with `step` another cut in the start that follows."""
        self._hear()
        if fate == "killed":
            end, disk = End.KILL, self.town.disk.kill_clone()
        else:
            end, disk = End.CUT, self.town.disk.crash_clone(Random(seed), fate)
        self.town.removes = True
        if step:
            disk.cut_power_at(step)
            with suppress(PowerCut):
                self.town.come_back(disk, False)
                self.town.work()
            disk = disk.crash_clone(Random(seed))
            end = End.CUT
        self.town.come_back(disk, False)
        self._begin_again(end)

    @rule()
    def restart(self) -> None:
        self.go()
        for client in self.town.clients.values():
            client.take()
        self.town.restart()
        self._begin_again(End.REST)

    def _begin_again(self, end: End) -> None:
        self.lives += 1
        self.held.clear()
        self.pending.clear()
        self.look(end)

    # -- what is there ----------------------------------------------------------------------

    def _line(self, name: str) -> Line:
        """What is meant by this name now."""
        return line_of(self.town.broker.queues[name.encode()])

    def _know_children(self, to: str) -> None:
        """A child that was made by the set; those that the configuration names come by themselves,
        when nothing is left of an earlier one of their name: before the set, or behind its item."""
        queues = self.town.broker.queues
        for name in {to, CONFIGURED}:
            queue = queues.get(name.encode())
            if queue is None or queue.child is None or queue.files.is_tombstone:
                continue
            if name == to or queue.child.floor < queue.files.last_number:
                self.books.children.add(self._line(name))

    def look(self, end: End) -> None:
        found = Counter[tuple[Line, bytes]]()
        lines, children = set[Line](), set[Line]()
        for line, reader, log, is_child in lines_of(self.town):
            lines.add(line)
            if is_child:
                children.add(line)
            for id_ in reader.live:
                one = log.store.one(id_)
                assert one is not None, f"{line}: item {id_} is in no segment"
                record = one.run(self.town.disk)
                assert record is not None, f"{line}: item {id_} cannot be read"
                found[line, record.body] += 1
        if end is End.REST:
            known = {line for line in self.books.children if line.name != CONFIGURED}
            assert known == {line for line in children if line.name != CONFIGURED}
        self.books.look(found, lines, end)
        self.books.children = children

    def teardown(self) -> None:
        """All that must be there can be fetched, and nothing is left of what was deleted."""
        if not hasattr(self, "books") or has_failed():
            return
        self.go()
        self.look(End.REST)
        self.held.clear()
        self.town.pass_time(10_000)
        left = {place.key for place in self.books.places}
        fetched = True
        while fetched:
            fetched = False
            for name in NAMES:
                body = self._fetch(name)
                fetched |= body is not None
                left -= {(line, b) for line, b in left if line.name == name and b == body}
        assert not left, f"never fetched: {left}"
        self.town.work()
        town = self.town
        for name in [*town.broker.queues]:
            if b"+" in name:
                assert town.say("drain", b"delete %b" % name) == DELETED
        town.pass_time(10)
        town.work()
        assert town.broker.tombstones == []
        assert town.origins() == 0
        assert town.moving() == []
        assert not town.broker.moves.in_flight.mover.leases
        folders = Counter(parse_folder_name(each)[0] for each in town.disk.names("data"))
        assert all(count == 1 for name, count in folders.items() if name), folders
        end(town)

    def _fetch(self, name: str) -> bytes | None:
        if name.encode() not in self.town.broker.queues:
            return None
        body = self.town.take(name, "drain")
        if body is not None:
            assert self.town.say("drain", f"get {name}/close".encode()) == b"END\r\n"
        return body


def _is_over(said: bytes) -> None:
    assert said.startswith(OVER), said


def line_of(queue: AnyQueue) -> Line:
    """Return the line of a queue or child."""
    number = queue.child.number if queue.child is not None else 0
    return Line(queue.name.decode(), queue.generation, number)


def lines_of(town: TransferHarness) -> Iterator[tuple[Line, Subscription, JournalLog, bool]]:
    """Yield every line that is there, also those of earlier generations, and whether it is a child
    that gets the puts of its queue."""
    for queue in town.broker.logged:
        assert isinstance(queue.log, JournalLog)
        if not queue.is_tombstone:
            yield line_of(queue), queue.reader, queue.log, False
        for branch in ChildQueue.all_of(queue):
            yield line_of(branch), branch.reader, queue.log, not queue.is_replaced


@pytest.mark.slow
def test_what_is_deleted_takes_nothing_along_and_leaves_nothing_behind() -> None:
    run(DeletingMachine, 150, 20)


@pytest.mark.soak
def test_the_same_with_deletions_for_long(soak: Soak) -> None:
    run_for_long(DeletingMachine, soak)
