"""Two slices between which items move, over a wire that loses, delays and breaks.

    town = SlicesHarness()
    town.put("a1", b"1")                # queues of the first slice begin with a, others with b
    town.say(1, b"move a1 b1 10")
    town.deliver()                      # all that is under way, until nothing is
    town.crash(1, random)
    town.check()

It stands for two daemons behind a router.
Real: all of both slices, and `Link`, which makes and reads the messages.
Replaced: the sockets and the router. A message is whole, or lost; a late one comes over a
connection of its own, as a router sends it that waited for a slice.

One rule: `check` knows nothing of transfers. It looks up in the queues of both which bodies a
client may get, and compares with what clients were told.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection
from random import Random
from typing import cast

from kestrelpy.core.transfer.remote import Peer
from kestrelpy.protocol.conversation import Conversation
from kestrelpy.protocol.wire import ROUTED
from kestrelpy.server.mail.couriers import Link
from tests.support.memory_disk import Fate
from tests.support.server_harness import Client
from tests.support.transfer_harness import TransferHarness, unmarked

_ROUNDS_MAX = 1000


def slice_of(name: bytes) -> int:
    """Return the slice of a queue."""
    return 1 if name.startswith(b"a") else 2


class Slice(TransferHarness):
    """One slice. Its `number` is known before it starts."""

    number = 0
    permits = 0  # that were given by all processes of all slices

    def begin(self) -> None:
        """Know the other slice."""
        self.broker.elsewhere = self._elsewhere
        Slice.permits += 1000
        self.broker.moves.remote.arrivals.number_from(Slice.permits)
        self.broker.moves.remote.peers[3 - self.number] = Peer(3 - self.number)

    def _elsewhere(self, name: bytes, word: bytes) -> int:
        """The slice of a queue, whatever key or id its item has; 0: it is here."""
        return 0 if slice_of(name) == self.number else slice_of(name)

    @property
    def peer(self) -> Peer:
        """The other slice, as this one sees it."""
        return self.broker.moves.remote.peers[3 - self.number]


class First(Slice):
    number = 1


class Second(Slice):
    number = 2


class Wire:
    """One connection from a slice to the other one. It is the transport of its link."""

    may_answer = None

    def __init__(self, source: Slice, target: Slice, name: str) -> None:
        self.source, self.target, self.name = source, target, name
        self.out: deque[bytes] = deque()
        self.back: deque[bytes] = deque()
        self.is_broken = False
        remote = source.broker.moves.remote
        self.link = Link(
            remote, self, source.peer, source.broker.server_id, lambda: source.now_ms
        )
        source.peer.is_connecting = True
        self.link.connection_made(cast("object", self))  # type: ignore[arg-type]  # a stand-in

    # -- the transport, and the turns ------------------------------------------------------------

    def write(self, data: bytes) -> None:
        self.out.append(data)

    def abort(self) -> None:
        self.is_broken = True

    def schedule(self) -> None:
        pass

    def touch_all(self, callers: Collection[object]) -> None:
        pass

    # -- the router ------------------------------------------------------------------------------

    def carry(self) -> bool:
        """The oldest message arrives; return False if there is none."""
        if not self.out:
            return False
        hear(self.target, self.name, self.out.popleft())
        return True

    def collect(self) -> bool:
        """Take the answers that the other slice has given; return whether there were any."""
        client = self.target.clients.get(self.name)
        data = client.take() if client is not None else b""
        if data:
            self.back.append(data)
        if client is not None and client.closed:
            self.is_broken = True
        return bool(data)

    def answer(self) -> bool:
        """The oldest answer arrives; return False if there is none."""
        if not self.back:
            return False
        self.link.data_received(self.back.popleft())
        self.source.work()
        return True


def hear(target: Slice, name: str, data: bytes) -> None:
    """A message arrives over the connection of this name."""
    if name not in target.clients:
        talk = Conversation(
            target.broker, target, name, target.lines, target.now_ms, ROUTED, None, True
        )
        target.clients[name] = Client(talk)
    target.send(name, data)


class SlicesHarness:
    """Both slices, the wires between them, and the books."""

    def __init__(self) -> None:
        self.slices: dict[int, Slice] = {1: First(), 2: Second()}
        self.wires: dict[int, Wire] = {}
        self.late: list[tuple[int, bytes]] = []  # messages of broken wires, with their target
        self._made = 0
        self.stored: set[bytes] = set()  # bodies that must be there
        self.perhaps: set[bytes] = set()
        self.done: set[bytes] = set()

    # -- clients ---------------------------------------------------------------------------------

    def town_of(self, queue: str) -> Slice:
        """Return the slice of a queue."""
        return self.slices[slice_of(queue.encode())]

    def set_queue(self, name: str, **settings: object) -> None:
        """Give a queue these settings."""
        for town in self.slices.values():
            town.set_queue(name, **settings)

    def say(self, number: int, *lines: bytes, who: str = "client") -> bytes:
        """A client says this to a slice; return what it hears at once."""
        return self.slices[number].say(who, *lines)

    def put(self, queue: str, body: bytes) -> bytes:
        """Set a body."""
        answer = self.town_of(queue).put(queue, body)
        (self.stored if answer == b"STORED\r\n" else self.perhaps).add(body)
        return answer

    def finish(self, queue: str) -> bytes | None:
        """Fetch the first item and confirm it."""
        town = self.town_of(queue)
        body = town.take(queue, "worker")
        if body is None:
            return None
        first = unmarked(body)
        assert first not in self.done, f"{body!r} came back"
        self.stored.discard(first)
        self.perhaps.add(first)
        if town.say("worker", f"get {queue}/close".encode()) == b"END\r\n":
            self.perhaps.discard(first)
            self.done.add(first)
        return body

    # -- the wires -------------------------------------------------------------------------------

    def connect(self, number: int) -> Wire:
        """This slice connects to the other one."""
        self._made += 1
        wire = Wire(self.slices[number], self.slices[3 - number], f"wire {self._made}")
        self.wires[number] = wire
        return wire

    def break_wire(self, number: int, is_late: bool = False) -> None:
        """The connection of this slice breaks; with `is_late` its messages arrive some day."""
        wire = self.wires.pop(number, None)
        if wire is None:
            return
        if is_late:
            self.late += [(wire.target.number, message) for message in wire.out]
        source = self.slices[number]
        if source is wire.source and wire.link is not None:
            source.broker.moves.remote.closed(source.peer, "it broke", source.now_ms)
            source.work()
        wire.target.clients.pop(wire.name, None)

    def hear_late(self, at: int) -> None:
        """A late message arrives, whatever process its target is now; its answer goes nowhere."""
        number, message = self.late.pop(at % len(self.late))
        self._made += 1
        hear(self.slices[number], f"late {self._made}", message)
        del self.slices[number].clients[f"late {self._made}"]

    def step(self, number: int, is_answer: bool) -> bool:
        """One message, or one answer, arrives on the wire of this slice."""
        wire = self.wires.get(number)
        if wire is None:
            return False
        wire.link.send()
        moved = wire.answer() if is_answer else wire.carry()
        moved |= wire.collect()
        wire.link.send()
        if wire.is_broken and not wire.back:
            self.break_wire(number)
        return moved

    def deliver(self, *numbers: int) -> None:
        """All messages and answers arrive, until there are no more."""
        for _ in range(_ROUNDS_MAX):
            for town in self.slices.values():
                town.work()
            moved = [
                self.step(number, is_answer)
                for number in numbers or (1, 2) for is_answer in (False, True)
            ]
            if not any(moved):
                return
        raise AssertionError("the slices do not come to rest")

    def crash(self, number: int, random: Random) -> None:
        """This slice ends, by `kill -9` or with the power, and starts again."""
        town = self.slices[number]
        is_late = random.random() < 0.5
        for each, wire in [*self.wires.items()]:
            if each == number:
                if is_late:
                    self.late += [(wire.target.number, message) for message in wire.out]
                del self.wires[each]
                wire.target.clients.pop(wire.name, None)
            else:
                town.clients.pop(wire.name, None)
                self.break_wire(each, is_late)
        fate: Fate | None = random.choice(("random", "kept", "lost", None))
        if fate is None:
            town.kill()
            return
        town.come_back(town.disk.crash_clone(random, fate), True)
        self.perhaps |= self.done  # what was confirmed may be there again
        self.done = set()

    def come_to_rest(self) -> None:
        """Both connect, all arrives, and time passes until nothing is under way."""
        for number in self.slices:
            self.break_wire(number)
        for number in self.slices:
            self.connect(number)
        self.deliver()
        for _ in range(3):
            for town in self.slices.values():
                town.pass_time(61_000)
            self.deliver()
            for wire in self.wires.values():
                if wire.source.peer.must_list:
                    wire.link.begin()
            self.deliver()

    # -- the books -------------------------------------------------------------------------------

    def bodies(self) -> Counter[bytes]:
        """Count the bodies that a client may get, now or when a lease ends."""
        found = Counter[bytes]()
        for town in self.slices.values():
            found.update(map(unmarked, available(town)))
        return found

    def check(self) -> None:
        """No item can be had twice, and none comes back."""
        found = self.bodies()
        doubled = {body: count for body, count in found.items() if count > 1}
        assert not doubled, f"doubled: {doubled}"
        back = found.keys() & self.done
        assert not back, f"came back: {back}"

    def check_at_rest(self) -> None:
        """All items are there, once; no origin is open, and nothing is under way."""
        self.check()
        lost = self.stored - self.bodies().keys()
        assert not lost, f"lost: {lost}"
        for town in self.slices.values():
            assert town.origins() == 0, f"slice {town.number} has open origins"
            assert town.moving() == [], f"slice {town.number} moves an item"
            assert not town.peer.transfers
            assert not town.broker.moves.remote._doubts


def available(town: Slice) -> list[bytes]:
    """Return the bodies of all items but those on their way out."""
    moving = {
        (lease.owner.name, lease.item.id) for lease in town.moving()  # type: ignore[attr-defined]  # of a reader
    }
    found = []
    for queue in town.broker.queues.values():
        for name, body, id_ in _items(town, queue.name.decode()):
            if (name, id_) not in moving:
                found.append(body)
    return found


def _items(town: Slice, name: str) -> list[tuple[bytes, bytes, int]]:
    queue = town.broker.queues[name.encode()]
    found = []
    for id_ in queue.reader.live:
        one = queue.files.log.store.one(id_)  # type: ignore[union-attr]  # a journal
        assert one is not None, f"{name}: item {id_} is in no segment"
        record = one.run(town.disk)
        assert record is not None, f"{name}: item {id_} cannot be read"
        found.append((queue.name, record.body, id_))
    return found
