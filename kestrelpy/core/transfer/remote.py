"""Transfers to queues of other servers: the peers, and each transfer's steps on this side.

    begin ──▶ MOVING ──on disk──▶ `Peer.letters` ──the shell sends──▶ `answered` ──▶ MOVED ──▶
    `Peer.gone` ──the shell says──▶ over

    a connection breaks ──▶ what was sent is in doubt ──▶ `opened`: the peer lists the open origins

One rule: a letter leaves when MOVING is on disk, and the peer hears that an original is gone when
MOVED is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from journal.format import Origin
from kestrelpy.core.index import Lease
from kestrelpy.core.queue import AnyQueue, ChildQueue, Queue
from kestrelpy.core.registry import Registry
from kestrelpy.core.subscription import Subscription
from kestrelpy.core.transfer.arrivals import Arrival, Name, RemoteArrivals, name_of
from kestrelpy.core.transfer.in_flight import InFlight
from kestrelpy.core.transfer.remote_transfer import (
    HandOff,
    Letter,
    LetterAnswer,
    RemoteState,
    RemoteTransfer,
)
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.core.transfer.steps import TransferSource
from kestrelpy.errors import NoRoomYet, NotReachedYet, Refused, ServerError

_STORED: Final = b"STORED\r\n"
_JOURNAL_FAILED: Final = "a journal failed: what is in doubt is settled by a restart"
Refusal = Callable[[TransferRequest, Lease, Refused, int], None]


class Peer:
    """Another server. `letters` are to be sent, `gone` are originals that it is to hear of; the
    shell takes both. `transfers` are all on their way there. `must_list` asks the shell to begin
    again: an origin is open there, and it is not known yet whether its original is gone."""

    __slots__ = (
        "gone", "is_connecting", "is_open", "letters", "must_list", "number", "server", "transfers",
        "waiting", "why",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.number = number
        self.server = b""  # its id, from the first time that it answered
        self.is_open = False
        self.is_connecting = True
        self.must_list = False
        self.why = "it has not answered yet"
        self.waiting: dict[object, None] = {}  # callers that wait for the first answer
        self.letters: list[RemoteTransfer] = []
        self.gone: list[Origin] = []
        self.transfers: dict[Name, RemoteTransfer] = {}

    def take_waiting(self) -> list[object]:
        """Return the callers that waited: none waits any more."""
        waiting = [*self.waiting]
        self.waiting.clear()
        return waiting

    def refuse_unless_open(self) -> None:
        """Raise NoRoomYet while it is being connected to, ServerError while it is away."""
        if self.is_open:
            return
        if self.is_connecting:
            raise NotReachedYet(self.waiting, self.number)
        raise ServerError(f"slice {self.number} does not answer: {self.why}")


class RemoteTransfers:
    """The transfers of one server to others, and the copies that come from them."""

    __slots__ = (
        "_doubts", "_in_flight", "_over", "_refused", "_registry", "_waiting", "arrivals",
        "handed_off", "peers",
    )  # fmt: skip

    def __init__(
        self, registry: Registry, in_flight: InFlight,
        over: Callable[[TransferRequest, int], None], refused: Refusal,
    ) -> None:  # fmt: skip
        """`over` is called once for each item of a request whose transfer ended, with its bytes;
        `refused` for an item that is back, with the reason."""
        self._registry, self._in_flight = registry, in_flight
        self._over, self._refused = over, refused
        self.arrivals = RemoteArrivals(registry, in_flight.unawaited)
        self.peers: dict[int, Peer] = {}
        self.handed_off: list[HandOff] = []  # that are over
        # By state, and by the queue whose log they wait for.
        self._waiting: dict[AnyQueue, deque[RemoteTransfer]] = {}
        self._doubts: dict[bytes, list[RemoteTransfer]] = {}  # since the start, by server

    # -- transfers that begin ---------------------------------------------------------------

    def peer_of(self, name: bytes, word: bytes) -> Peer | None:
        """Return the server where an item of this queue belongs, by its key or its id (b"": it has
        none); None: in this one."""
        return self.peers.get(self._registry.elsewhere(name, word)) if self.peers else None

    def begin(
        self, peer: Peer, request: TransferRequest, lease: Lease, letter: Letter, now_ms: int
    ) -> None:
        """Send a request's item, which the mover has; raise Refused, and nothing has changed."""
        self._check(peer, request.source)
        self._mark(peer, request.source, lease, letter, now_ms, request=request)

    def hand_off(
        self, peer: Peer, source: AnyQueue, lease: Lease, letter: Letter, owner: object,
        now_ms: int,
    ) -> HandOff:  # fmt: skip
        """Send what replaces a client's item; raise Refused, and nothing has changed."""
        self._check(peer, source)
        handoff = HandOff(owner)
        self._mark(peer, source, lease, letter, now_ms, handoff=handoff)
        return handoff

    @staticmethod
    def _check(peer: Peer, source: AnyQueue) -> None:
        peer.refuse_unless_open()
        if source.log.no_room:
            raise ServerError(source.log.no_room)
        if not source.log.has_lease_room():
            raise NoRoomYet(source.log.waiting_room, source.name)

    def _mark(
        self, peer: Peer, source: AnyQueue, lease: Lease, letter: Letter, now_ms: int,
        request: TransferRequest | None = None, handoff: HandOff | None = None,
    ) -> None:  # fmt: skip
        mover = self._in_flight.mover
        former = None if lease.is_moving else TransferSource.of(lease).forward(lease, mover)
        target = peer.server + b":" + letter.target
        lsn = TransferSource.of(lease).mark(lease, target, now_ms)
        transfer = RemoteTransfer(
            source, lease, letter.origin, letter, lsn, RemoteState.MARKING, request, handoff,
            former,
        )  # fmt: skip
        peer.transfers[name_of(letter.origin)] = transfer
        self._wait(transfer)

    def _wait(self, transfer: RemoteTransfer) -> None:
        """Keep a transfer until its record is on disk."""
        transfer.source.log.wait_durable(transfer.lsn)
        self._waiting.setdefault(transfer.source, deque()).append(transfer)

    # -- steps ------------------------------------------------------------------------------

    @property
    def are_any(self) -> bool:
        """True if a transfer waits for a log, or a hand-off is over."""
        return bool(self._waiting or self.handed_off)

    def advance(self, now_ms: int, most: int) -> int:
        """Take the steps that the logs allow, `most` at most; return the number of steps taken."""
        taken = 0
        for queue in [*self._waiting]:
            waiting, log = self._waiting[queue], queue.log
            durable_lsn, has_failed = log.lsn_durable, log.failure is not None
            while waiting and taken < most and (waiting[0].lsn <= durable_lsn or has_failed):
                transfer = waiting.popleft()
                self._step(transfer, transfer.lsn <= durable_lsn, now_ms)
                taken += 1
            if not waiting:
                del self._waiting[queue]
        return taken

    def _step(self, transfer: RemoteTransfer, is_on_disk: bool, now_ms: int) -> None:
        """Take the step after a record that `is_on_disk`, or that never will be."""
        peer = self._peer(transfer)
        if peer is None:
            return
        if not is_on_disk:  # after a restart the item is in doubt, or gone
            self._drop(peer, transfer)
        elif transfer.state is RemoteState.MARKING:
            if not peer.is_open:
                why = ServerError(f"slice {peer.number} does not answer: {peer.why}")
                self._return(peer, transfer, LetterAnswer(refused=why), now_ms)
            else:
                transfer.state = RemoteState.SENT
                peer.letters.append(transfer)
        else:
            self._count_out(transfer, 1)
            transfer.state = RemoteState.SETTLING
            if transfer.copy is None:  # nothing is open there
                del peer.transfers[name_of(transfer.origin)]
            elif peer.is_open:
                peer.gone.append(transfer.origin)

    def _peer(self, transfer: RemoteTransfer) -> Peer | None:
        """Return the peer that has this transfer; None: it was given up."""
        name = name_of(transfer.origin)
        held = (each for each in self.peers.values() if each.transfers.get(name) is transfer)
        return next(held, None)

    def answered(
        self, peer: Peer, transfer: RemoteTransfer, answer: LetterAnswer, now_ms: int
    ) -> None:
        """Take in the answer to a letter."""
        if transfer.state is not RemoteState.SENT:
            return
        if answer.copy is not None or answer.is_repeated:
            self._stored(peer, transfer, answer.copy, now_ms)
        else:
            self._return(peer, transfer, answer, now_ms)

    def told(self, peer: Peer, origins: Iterable[Origin]) -> None:
        """Note that a peer has heard that these originals are gone."""
        for origin in origins:
            transfer = peer.transfers.get(name_of(origin))
            if transfer is not None and transfer.state is RemoteState.SETTLING:
                del peer.transfers[name_of(origin)]

    def _stored(
        self, peer: Peer, transfer: RemoteTransfer, copy: Origin | None, now_ms: int
    ) -> None:
        """End the original: the copy is on disk there. None: an earlier one is."""
        source, lease = transfer.source, transfer.lease
        transfer.copy, transfer.letter = copy, None
        if transfer.request is not None:
            transfer.request.stored()
        if transfer.handoff is not None:
            self._answer(transfer, _STORED)
        if transfer.is_cut_off:  # the end of the queue, or of its subscription, ends the item
            files = source.files
            last = files.log.lsn_appended
            may_tell = files.is_going and not files.is_stuck
            transfer.lsn = files.tell_deleted(now_ms) if may_tell else last
        elif source.log.failure is not None:
            self._drop(peer, transfer)
            return
        else:
            target = copy.as_target if copy is not None else b""
            transfer.lsn = TransferSource.of(lease).leave(lease, target, now_ms)
        transfer.state = RemoteState.LEFT
        self._wait(transfer)

    def _return(
        self, peer: Peer, transfer: RemoteTransfer, answer: LetterAnswer, now_ms: int
    ) -> None:
        """Put an item back that is not there, and never will be by what was sent so far."""
        del peer.transfers[name_of(transfer.origin)]
        lease, request, handoff = transfer.lease, transfer.request, transfer.handoff
        why = answer.refused or ServerError(f"slice {peer.number} does not answer: {peer.why}")
        if transfer.is_cut_off or transfer.source.log.failure is not None:
            self._count_out(transfer, 0)
        elif request is not None:
            transfer.request = None
            self._over(request, transfer.size)
            reader = lease.owner
            assert isinstance(reader, Subscription)
            TransferSource(reader).stay(lease, now_ms)
            self._refused(request, lease, why, now_ms)
        else:
            TransferSource.of(lease).stay_with(
                lease, transfer.former, handoff is not None and handoff.is_abandoned, now_ms
            )
        if handoff is not None and not handoff.is_over:
            self._answer(transfer, answer.word, None if answer.word else why)

    def _drop(self, peer: Peer, transfer: RemoteTransfer) -> None:
        """Leave a transfer to a restart: the journal of its source has failed."""
        del peer.transfers[name_of(transfer.origin)]
        if transfer.handoff is not None and not transfer.handoff.is_over:
            self._answer(transfer, b"", ServerError(_JOURNAL_FAILED))
        if transfer.request is not None:
            transfer.request.give_up(_JOURNAL_FAILED)
        self._count_out(transfer, 0)

    def _count_out(self, transfer: RemoteTransfer, moved: int) -> None:
        request, transfer.request = transfer.request, None
        if request is not None:
            request.moved += moved
            self._over(request, transfer.size)

    def _answer(
        self, transfer: RemoteTransfer, word: bytes, refused: Refused | None = None
    ) -> None:
        handoff = transfer.handoff
        assert handoff is not None
        handoff.end(word, refused)
        self.handed_off.append(handoff)

    # -- peers ------------------------------------------------------------------------------

    def opened(
        self, peer: Peer, server: bytes, arrivals: Iterable[Arrival], now_ms: int
    ) -> list[object]:
        """Begin with a peer that is the server with this id: its `arrivals` are all copies of items
        of this server whose origins are open there.

        Return the callers that waited for it.
        """
        listed = {name_of(each.origin): each for each in arrivals}
        if peer.server and server != peer.server:  # other data: it knows nothing of those
            self._doubts.setdefault(peer.server, []).extend(peer.transfers.values())
            peer.transfers = {}
        peer.server, peer.is_open, peer.is_connecting, peer.must_list = server, True, False, False
        for doubt in self._doubts.pop(server, ()):
            peer.transfers[name_of(doubt.origin)] = doubt
        for name, transfer in [*peer.transfers.items()]:
            arrival = listed.pop(name, None)
            if transfer.state is RemoteState.IN_DOUBT:
                if arrival is None:
                    self._return(peer, transfer, LetterAnswer(), now_ms)
                elif arrival.is_sure:
                    self._stored(peer, transfer, arrival.copy, now_ms)
            elif transfer.state is RemoteState.SETTLING:
                if arrival is None:
                    del peer.transfers[name]
                else:
                    peer.gone.append(transfer.origin)
        for arrival in listed.values():
            if self._is_gone(arrival.origin):
                peer.gone.append(arrival.origin)
            else:
                peer.must_list = True
        return peer.take_waiting()

    def closed(self, peer: Peer, why: str, now_ms: int) -> list[object]:
        """Note that the connection to a peer broke, or that none could be made. What was sent is in
        doubt. Return the callers that waited for it."""
        peer.is_open = peer.is_connecting = False
        peer.why = why
        peer.letters.clear()
        peer.gone.clear()
        refused = ServerError(f"slice {peer.number} does not answer: {why}")
        for transfer in peer.transfers.values():
            if transfer.state is not RemoteState.SENT:
                continue
            transfer.state = RemoteState.IN_DOUBT
            if transfer.handoff is not None and not transfer.handoff.is_over:
                self._answer(transfer, b"", refused)
            if transfer.request is not None and not transfer.request.by_itself:
                transfer.request.give_up(str(refused), refused)
            self._count_out(transfer, 0)
        return peer.take_waiting()

    def _is_gone(self, origin: Origin) -> bool:
        """True if a restart would not find the original of a copy."""
        registry = self._registry
        going = (queue for queue in registry.ending if queue.name == origin.queue)
        for source in (*registry.all_named(origin.queue), *going):
            if source.generation != origin.generation:
                continue
            log = source.log
            if origin.item in source.reader.live or source.files.is_going:
                return False
            if log.lsn_durable < log.lsn_appended:
                log.wait_durable(log.lsn_appended)
                return False
        return True

    # -- a start ----------------------------------------------------------------------------

    def find_all(self, queue: Queue, now_ms: int) -> None:
        """Find the items of a queue and its children that were leaving for another server."""
        sources: list[AnyQueue] = [queue, *ChildQueue.all_of(queue)]
        for source in sources:
            reader = source.reader
            for entry in [*reader.leases.entries.values()]:
                lease = reader.leases.of(entry.item)
                if not entry.target or lease is None:
                    continue
                former = TransferSource(reader).forward(lease, self._in_flight.mover)
                if not entry.token:
                    reader.moving += 1
                origin = Origin(
                    queue.server_id, source.name, entry.item, source.generation, entry.body_bytes
                )
                server = entry.target.partition(b":")[0]
                self._doubts.setdefault(server, []).append(RemoteTransfer(
                    source, lease, origin, None, 0, RemoteState.IN_DOUBT,
                    former=former if entry.token else None,
                ))  # fmt: skip
