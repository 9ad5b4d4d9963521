"""Hand-off: one set stores an item and confirms another, both or neither.

    set later/confirm              and the one item that this connection has open
    set later/confirm=jobs:17      and the lease of jobs that token 17 names

    look (refuses, changes nothing) ──▶ the item is on disk itself ──▶ store ──▶ a transfer

The reply waits for the stored record, which names the confirmed item. (If nothing is stored because
the id was seen before, it waits for the earlier record; the confirm comes after that.)

A target in another slice is a transfer to another server: the reply waits for that one's.

One rule: the item stays with its holder until another is stored in its place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from journal.format import Origin
from kestrelpy.core import AnyQueue, HandOff, Lease, Letter, Peer, Policy, Subscription
from kestrelpy.errors import ClientError, InvalidToken, LeaseExpired, NoRoomYet, Refused
from kestrelpy.operations import Terms
from kestrelpy.protocol.mail import terms_bytes
from kestrelpy.protocol.parse import Handoff, Store
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.steps import Steps

_STORED: Final = b"STORED\r\n"
_new: Final = tuple.__new__  # half the cost of calling a named tuple


class Given(NamedTuple):
    """The item that is handed off, and its source."""

    source: AnyQueue
    reader: Subscription
    lease: Lease

    @property
    def origin(self) -> Origin:
        """The origin, as the record of the stored item names it."""
        source, item = self.source, self.lease.item
        return _new(
            Origin,
            (source.files.server_id, self.reader.name, item.id, source.generation, item.size, 0),
        )


def given(
    talk: Talk, name: bytes, target: AnyQueue | None, handoff: Handoff, now_ms: int
) -> Given:
    """Return the item that this request hands off to the `target` of that name; raise Refused, and
    nothing has changed."""
    if target is None:
        _check(name, talk.broker.policy_of(name, b""), True)
    else:
        _check(name, target.policy, target.log.read_ahead is not None)
    found = _given(talk, handoff, now_ms)
    source = found.source
    if talk.broker.tombstones:
        files = target.files if target is not None else None
        if why := source.files.why_mistaken(source.name, files, name):
            raise ClientError(why)
    return found


def _given(talk: Talk, handoff: Handoff, now_ms: int) -> Given:
    """Return the item that is handed off, wherever it goes; raise Refused."""
    found = _named(talk, handoff, now_ms) if handoff.token else _open(talk)
    source = found.source
    if source.log.failure is not None:
        source.raise_failed()
    _check(source.name, source.policy, source.log.read_ahead is not None)
    return found


def send_away(talk: Talk, command: Store, peer: Peer, terms: Terms, now_ms: int) -> Steps:
    """Store the item in another slice, and confirm the other one here; raise Refused, and nothing
    has changed."""
    line = command.line
    assert line.handoff is not None
    found = _given(talk, line.handoff, now_ms)
    if found.lease.item.lsn > found.source.log.lsn_durable:
        return wait(talk, command, found)
    letter = Letter(
        line.target.name, found.origin, command.body, terms=terms_bytes(line.verb, terms)
    )
    remote = talk.broker.moves.remote
    handoff = remote.hand_off(peer, found.source, found.lease, letter, talk, now_ms)
    talk.await_transfer(handoff)
    return _answer(talk, command, handoff)


def _answer(talk: Talk, command: Store, handoff: HandOff) -> Iterator[bytes]:
    """Reply with the outcome; the hand-off is over."""
    if handoff.refused is not None:
        talk.refuse(handoff.refused, command.noreply)
    elif not command.noreply:
        talk.replies.say(handoff.word)
    elif handoff.word != _STORED:
        talk.broker.counters.refused_quietly += 1
    yield b""


def must_wait(found: Given, target: AnyQueue | None) -> bool:
    """True if a crash might lose the item and give its number to another one.

    (In one log no record after it outlives it.)
    """
    if found.lease.item.lsn <= found.source.log.lsn_durable:
        return False
    return target is None or target.files is not found.source.files


def is_for_nobody(queue: AnyQueue) -> bool:
    """True if the queue stores no record that could name the origin: then it only confirms."""
    return queue.passes_on and not queue.children and queue.retained is None


def wait(talk: Talk, command: Store, found: Given) -> Iterator[bytes]:
    """Execute the request from its beginning once the item is on disk."""
    talk.replies.hold(b"", found.source.log, found.lease.item.lsn)
    return _again(talk, command)


def _again(talk: Talk, command: Store) -> Iterator[bytes]:
    rest: Steps = None
    while True:
        try:
            rest = talk.store(command, talk.last_command_ms)
        except NoRoomYet as none_yet:
            talk.await_room(none_yet.waiting)
            yield b""
            continue
        except Refused as refused:
            talk.refuse(refused, command.noreply)
        break
    yield b""
    if rest is not None:
        yield from rest


def confirm_repeated(
    talk: Talk, command: Store, found: Given, target: AnyQueue, now_ms: int
) -> Steps:
    """Confirm the item of a set that was stored before (or is passed to no child), once that is on
    disk."""
    log = target.log
    if log is found.source.log or log.lsn_durable >= log.lsn_appended:
        _confirm(talk, command, found, now_ms)
        return None
    talk.replies.hold(b"", log, log.lsn_appended)
    return _confirm_later(talk, command, found, target)


def _confirm_later(
    talk: Talk, command: Store, found: Given, target: AnyQueue
) -> Iterator[bytes]:
    try:
        if target.log.failure is not None:
            target.raise_failed()
        if found.source.log.failure is not None:
            found.source.raise_failed()
        if found.lease not in found.lease.holder.leases:
            handoff = command.line.handoff
            if handoff is not None and handoff.token:
                raise InvalidToken(handoff.token, handoff.queue)
            raise LeaseExpired(found.reader.name)
        _confirm(talk, command, found, talk.last_command_ms)
    except Refused as refused:
        talk.refuse(refused, command.noreply)
    yield b""


def _confirm(talk: Talk, command: Store, found: Given, now_ms: int) -> None:
    lsn = found.reader.confirm(found.lease, now_ms)
    if not command.noreply:
        talk.replies.hold(_STORED, found.source.log, lsn)


def _named(talk: Talk, handoff: Handoff, now_ms: int) -> Given:
    source = talk.broker.queues.get(handoff.queue)
    lease = source.reader.by_token.find(handoff.token, now_ms) if source is not None else None
    if source is None or lease is None:
        raise InvalidToken(handoff.token, handoff.queue)
    return Given(source, source.reader, lease)


def _open(talk: Talk) -> Given:
    """Return the one item that this connection has open."""
    leases, overdue = talk.holder.leases, talk.holder.overdue
    if not leases:
        if not overdue:
            raise ClientError("nothing to confirm: no item is open on this connection")
        reader = overdue[-1]  # the mark stands for the close that may still come
        assert isinstance(reader, Subscription)
        raise LeaseExpired(reader.name)
    # If several items may be open, the client may mean one whose lease has expired.
    if len(leases) > 1 or (overdue and talk.host.server_settings.max_open_reads > 1):
        raise ClientError("name it: several items are open, say confirm=<queue>:<token>")
    lease = next(iter(leases))
    reader = lease.owner
    assert isinstance(reader, Subscription)
    return _new(Given, (talk.broker.queues[reader.name], reader, lease))


def _check(name: bytes, policy: Policy, is_on_disk: bool) -> None:
    """Raise ClientError unless this queue can be a side of a hand-off."""
    if policy.durable and is_on_disk and not policy.sync_ms:
        return
    queue = name.decode("ascii")
    if not policy.durable or not is_on_disk:
        raise ClientError(f"confirm needs queues on disk, and {queue} is in memory (durable)")
    raise ClientError(f'confirm needs queues with sync = "always", and {queue} has another')


