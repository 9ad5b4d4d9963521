"""Transfers between queues, exactly once: their requests, and how many are begun.

    dead letters for another queue ──▶ outbox ─▶ request ─▶ taken ─▶ put there ─▶ `in_flight`
    a client's command ──────────────────────▶     ▲          │ (leased to the mover)
                                                   └──────────┴── refused: put back; tried again
                                                                  later (by itself), or over

One rule: an item moves only once it is on disk itself. Else a crash might take it away here, and
the item that it was made of would return.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from journal.format import Origin, split
from kestrelpy.core.index import Lease
from kestrelpy.core.item import Item
from kestrelpy.core.queue import AnyQueue
from kestrelpy.core.registry import Lifecycle
from kestrelpy.core.subscription import onward
from kestrelpy.core.transfer.in_flight import InFlight
from kestrelpy.core.transfer.remote import Peer, RemoteTransfers
from kestrelpy.core.transfer.remote_transfer import HandOff, Letter
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import TransferSource, TransferTarget
from kestrelpy.errors import ClientError, ItemRefused, NoRoomYet, Refused

# The limits of items in flight at once, by number and bytes, and of items begun, and of their
# further steps, in one turn: about 5 ms of work each.
MOVES_MAX: Final = 1024
BYTES_MAX: Final = 8 << 20
BEGUN_MAX: Final = 128
STEPS_MAX: Final = 256


class Transfers:
    """All transfer requests of one server.

    `over` are requests that ended, `refusals` lines for the server's log.
    """

    __slots__ = (
        "_bytes",
        "_count",
        "_outboxes",
        "_registry",
        "_requests",
        "has_more",
        "in_flight",
        "over",
        "refusals",
        "remote",
    )  # fmt: skip

    def __init__(self, registry: Lifecycle) -> None:
        self._registry = registry
        self.in_flight = InFlight(registry, self._over)
        self.remote = RemoteTransfers(registry, self.in_flight, self._over, self._take_back)
        self.over: list[TransferRequest] = []
        self.refusals: list[str] = []
        self.has_more = False  # True if the next turn can go on at once
        self._requests: dict[TransferRequest, None] = {}  # the requests that do not rest
        self._outboxes: dict[tuple[AnyQueue, bytes], TransferRequest] = {}
        self._count = self._bytes = 0  # of the requests' items in flight

    # -- requests ---------------------------------------------------------------------------

    def request(self, request: TransferRequest) -> None:
        """Begin a client's request; it is added to `over` when it has ended."""
        self._requests[request] = None

    def refuse(self, refused: Refused) -> None:
        """Begin no more items for clients; those in flight arrive."""
        for request in self._requests:
            if not request.by_itself:
                request.give_up(str(refused), refused)

    def send(self, source: AnyQueue) -> None:
        """Request the dead letters that the policy of `source` moves, in the order of deaths."""
        reader = source.reader
        outgoing, reader.outgoing = reader.outgoing, []
        for id_ in outgoing:
            death = reader.dead.deaths.get(id_)
            target = onward(reader.policy, death.reason) if death is not None else b""
            if not target:
                continue
            request = self._outboxes.get((source, target))
            if request is None:
                request = TransferRequest(source, target, deque(), by_itself=True)
                self._outboxes[source, target] = request
            request.ids.append(id_)
            if not request.is_resting:
                self._requests[request] = None

    def wake(self, request: TransferRequest) -> None:
        """Try a request again whose target refused an item."""
        request.is_resting = False
        if request.has_shuffled:
            request.sort()
        self._requests[request] = None

    @property
    def is_active(self) -> bool:
        """True if any transfer is in flight, or to be begun."""
        return bool(self._requests or self.in_flight.are_any or self.remote.are_any)

    def advance(self, now_ms: int) -> int:
        """Take the steps that have become possible, up to a bound; return how many."""
        taken = self.in_flight.advance(now_ms, STEPS_MAX) if self.in_flight.are_any else 0
        if self.remote.are_any:
            taken += self.remote.advance(now_ms, STEPS_MAX)
        self.has_more = taken >= STEPS_MAX
        steps = BEGUN_MAX
        for request in [*self._requests]:
            steps -= self._begin(request, steps, now_ms)
            if request.is_done and request in self._requests:
                self._end(request)
        return taken + BEGUN_MAX - steps

    def take_over(self) -> list[TransferRequest | HandOff]:
        """Return the requests, and hand-offs to other servers, that have ended since the last call.
        """
        over: list[TransferRequest | HandOff] = [*self.over, *self.remote.handed_off]
        self.over, self.remote.handed_off = [], []
        return over

    # -- steps of a request -----------------------------------------------------------------

    def _begin(self, request: TransferRequest, steps: int, now_ms: int) -> int:
        """Take and store items, up to the limits; return how many were begun."""
        for begun in range(steps):
            if request.is_lost or request.source.log.failure is not None:
                request.give_up("its journal failed or it was deleted")
                return begun
            if self._count >= MOVES_MAX or self._bytes >= BYTES_MAX:
                return begun
            lease = self._take(request, now_ms)
            if lease is None:
                return begun
            if lease.item.lsn > request.source.log.lsn_durable:
                request.source.log.wait_durable(lease.item.lsn)
                self._put_back(request, lease)
                return begun
            try:
                self._store(request, lease, now_ms)
            except NoRoomYet:  # the target's next segment brings the next turn
                self._put_back(request, lease)
                return begun
            except Refused as refused:
                self._put_back(request, lease)
                if self._stops(request, lease, refused, now_ms):
                    return begun
        self.has_more = True
        return steps

    def _put_back(self, request: TransferRequest, lease: Lease) -> None:
        TransferSource(request.source.reader).put_back(lease)
        if request.of_dead:
            request.ids.appendleft(lease.item.id)
        else:
            request.left += 1

    def _take(self, request: TransferRequest, now_ms: int) -> Lease | None:
        """Lease a request's next item; None: there is none, or it has to be read back first."""
        reader = request.source.reader
        if not request.of_dead:
            if not request.left:
                return None
            lease = TransferSource(reader).take_first(now_ms, self.in_flight.mover)
            if lease is not None:
                request.left -= 1
            elif not (request.under_way or reader.is_busy(now_ms, leases=False)):
                request.left = 0  # (an item in flight holds its key until it has left)
            else:
                # Expired items are being cleared away, or the next item is being read.
                self.has_more |= not reader.needs_read and reader.ready.resident > 0
            return lease
        while request.ids:
            id_ = request.ids[0]
            if request.wants(id_):
                lease = TransferSource(reader).take_dead(id_, self.in_flight.mover)
                if lease is not None:
                    request.ids.popleft()
                return lease
            request.ids.popleft()
        return None

    def _store(self, request: TransferRequest, lease: Lease, now_ms: int) -> None:
        """Store a copy of the item in the target. Raise Refused if the target refuses it."""
        if (peer := self._peer_of(request.target, lease.item)) is not None:
            self._send(peer, request, lease, now_ms)
            return
        source, item = request.source, lease.item
        there = self._registry.queues.get(request.target)
        if self._registry.tombstones:
            files = there.files if there is not None else None
            why = source.files.why_mistaken(source.name, files, request.target)
            if why:
                raise ClientError(why)
        target = there or self._make(request.target, item.size, now_ms)
        if target is source:
            raise ClientError("a queue does not move to itself")
        origin = Origin(
            source.files.server_id, source.name, item.id, source.generation, item.size
        )
        copy, lsn = TransferTarget(target).receive(item, origin, now_ms, _life_ms(request))
        request.stored()
        self._count_in(request, item.size)
        self.in_flight.stored(request, lease, target, copy, lsn)

    def _peer_of(self, target: bytes, item: Item) -> Peer | None:
        """Return the server where the copy of an item belongs, by the key that the target gives it;
        None: in this one."""
        if not self.remote.peers:
            return None
        keys = self._registry.policy_of(target, b"").keys
        try:
            word = keys.key_of(target, tuple(split(item.key)), item.body)
        except ClientError:
            word = b""  # the target refuses it
        return self.remote.peer_of(target, word)

    def _send(self, peer: Peer, request: TransferRequest, lease: Lease, now_ms: int) -> None:
        """Send the item to another server. Raise Refused if that is away."""
        source, item = request.source, lease.item
        origin = Origin(
            source.files.server_id, source.name, item.id, source.generation, item.size
        )
        letter = Letter(
            request.target, origin, item.body, item.flags, item.expires_ms, _life_ms(request),
            item.key, item.texts,
        )  # fmt: skip
        self.remote.begin(peer, request, lease, letter, now_ms)
        self._count_in(request, item.size)

    def _count_in(self, request: TransferRequest, bytes_: int) -> None:
        request.under_way += 1
        self._count += 1
        self._bytes += bytes_

    def _take_back(
        self, request: TransferRequest, lease: Lease, refused: Refused, now_ms: int
    ) -> None:
        """Note that an item is back which another server refused."""
        if request.of_dead:
            request.ids.appendleft(lease.item.id)
            request.has_shuffled = True
        else:
            request.left += 1
        if not request.is_resting:
            self._stops(request, lease, refused, now_ms)
            if not request.is_resting:
                self._requests[request] = None

    def _make(self, name: bytes, size: int, now_ms: int) -> AnyQueue:
        """Create a queue of this name; raise ItemRefused if it would refuse an item of `size`."""
        limit = self._registry.policy_of(name, b"").max_item_bytes
        if size > limit:
            raise ItemRefused(f"item too large ({size} bytes, limit {limit})")
        return self._registry.create(name, now_ms)

    def _over(self, request: TransferRequest, bytes_: int) -> None:
        """Count out an item of a request, with a body of `bytes_`: its transfer has ended."""
        self._count -= 1
        self._bytes -= bytes_
        request.under_way -= 1
        if not request.is_resting:
            self._requests[request] = None  # it may be done now

    # -- refusals and ends ------------------------------------------------------------------

    def _stops(
        self, request: TransferRequest, lease: Lease, refused: Refused, now_ms: int
    ) -> bool:
        """Handle a refusal by the target; True if no more items are begun for now."""
        reason = str(refused)
        if not request.by_itself:
            request.give_up(reason, refused)
            return True
        item = lease.item.id if isinstance(refused, ItemRefused) else 0
        if request.is_news(reason, item):
            source, target = request.source.name.decode("ascii"), request.target.decode("ascii")
            self.refusals.append(
                f"queue {source}: items for {target} stay among its dead letters: {reason}"
            )
        if item and request.skip():
            return False
        self._requests.pop(request, None)
        self._registry.call_later(now_ms + request.rest(), request)
        return True

    def _end(self, request: TransferRequest) -> None:
        self._requests.pop(request, None)
        if request.by_itself:
            self._outboxes.pop((request.source, request.target), None)
        else:
            request.is_over = True
            self.over.append(request)


def _life_ms(request: TransferRequest) -> int | None:
    """Return how long a copy lives; 0: it does not expire, None: as long as its original."""
    policy = request.source.reader.policy
    is_death = request.by_itself and request.target == policy.dead_letter_to
    # Dead letters and expired items start without the life that they had.
    return (is_death and policy.dead_letter_age_ms) or (0 if request.of_dead else None)
