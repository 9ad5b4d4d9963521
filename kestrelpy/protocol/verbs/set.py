"""The `set` side of one connection: set, add, cas and replace, also by an alias.

    hand-off? ─▶ its item must be on disk ─▶ put ─▶ STORED when the record is, or the refusal
    an alias? ─▶ put in each of its queues in turn ─▶ STORED if all did, when all are on disk
    a run?    ─▶ put all at once ─▶ STORED as often, when the last is on disk

The replies when nothing was stored:

                    the id was seen   the version is another one   nothing is there   full
    set             STORED            NOT_STORED (expect=)         NOT_STORED         NOT_STORED
    add             NOT_STORED        NOT_STORED                   -                  NOT_STORED
    cas             STORED            EXISTS                       NOT_FOUND          NOT_STORED
    replace         STORED            -                            NOT_STORED         NOT_STORED

With `dedupe = "same body"` an id that was seen with another body or key is a CLIENT_ERROR.

One rule: a reply that rests on a stored item leaves when that item is on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from journal.format import ItemHeader, Origin
from kestrelpy.core import (
    ANY_VERSION,
    DUPLICATE,
    EXISTS,
    NO_KEY,
    NOT_FOUND,
    REUSED,
    AnyQueue,
    Log,
    Peer,
)
from kestrelpy.errors import ClientError, ItemRefused, NoRoomYet, Refused
from kestrelpy.operations import Storing, Terms, why_reused
from kestrelpy.protocol.parse import Parser, Store, StoreLine
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import HELD_BYTES_MAX, HELD_REPLIES_MAX, JointReply
from kestrelpy.protocol.steps import Steps, begin
from kestrelpy.protocol.verbs.declare import declare
from kestrelpy.protocol.verbs.handoff import (
    Given,
    confirm_repeated,
    given,
    is_for_nobody,
    must_wait,
    send_away,
    wait,
)

STORED: Final = b"STORED\r\n"
NOT_STORED: Final = b"NOT_STORED\r\n"
_WORDS: Final = {
    (b"set", DUPLICATE): STORED,
    (b"cas", DUPLICATE): STORED,
    (b"replace", DUPLICATE): STORED,
    (b"cas", EXISTS): b"EXISTS\r\n",
    (b"cas", NOT_FOUND): b"NOT_FOUND\r\n",
}
# The bytes of a noreply set in addition to its body; no reply counts them.
RECORD_BYTES: Final = 256
# Sets that are stored in one step. During a step the server does not look at the clock.
RUN_SETS_MAX: Final = 16
RUN_ITEM_BYTES_MAX: Final = 4096
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_ELSEWHERE_BYTES_MAX: Final = 1 << 30  # the router refuses what no queue takes
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600  # memcached's border between an age and a date


class SetHandler:
    """The `set` side of one conversation. `stored_bytes` are in sets not yet answered."""

    __slots__ = (
        "_counters", "_noreply_bytes", "_queues", "_storing", "_talk", "broker", "host", "replies",
        "stored_bytes",
    )  # fmt: skip

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.broker = talk.broker
        self._counters = talk.broker.counters
        self._queues = talk.broker.queues
        self.host = talk.host
        self.replies = talk.replies
        self._storing = Storing(talk.broker, talk.host)
        self.stored_bytes = 0
        self._noreply_bytes = 0

    def store(self, command: Store, now_ms: int) -> Steps:
        """Store an item, or refuse it; return what is left to do. Raise Refused if nothing has
        changed."""
        line, broker = command.line, self.broker
        if line.form is not None:
            self.replies.form = line.form
        if line.declares:
            declare(self._talk, command, now_ms)
            return None
        self._counters.cmd_set += 1
        if self.host.mode != "up":
            self._storing.check_mode()
        name, found = line.target.name, None
        queue = self._queues.get(name)
        if line.handoff is not None:
            if broker.aliases:
                self._refuse_alias(name, line.handoff.queue)
            if (peer := self._peer_of(line, command.body)) is not None:
                terms = self._terms(line, now_ms)
                return send_away(self._talk, command, peer, terms, now_ms)
            found = given(self._talk, name, queue, line.handoff, now_ms)
            if must_wait(found, queue):
                return wait(self._talk, command, found)
        if queue is None:
            if name in broker.aliases:
                return begin(self._store_in_each(command, broker.aliases[name], now_ms))
            queue = self._storing.queue(name, self._terms(line, now_ms), command.body, now_ms)
            # it expects a version that was never written; a refusal leaves no queue behind
            if queue is None:
                self._say_refused(_refusal(line, NOT_FOUND), command.noreply, None)
                return None
        if line.is_plain and not line.key and queue.policy.keys.rule is None:  # nearly all are
            expires_ms = line.expiry and _expires_ms(line, now_ms + broker.clock.offset_ms)
            delay = line.target.delay
            lsn = queue.put(command.body, line.flags, expires_ms, now_ms, NO_KEY, None, delay)
        # most of those with a key; it overrides a key rule
        elif line.is_plain and len(line.key) == 1:
            expires_ms = line.expiry and _expires_ms(line, now_ms + broker.clock.offset_ms)
            lsn = queue.put(
                command.body, line.flags, expires_ms, now_ms, line.key[0], None, line.target.delay,
                None, line.expected,
            )  # fmt: skip
        else:
            lsn = self._put(queue, line, command.body, found, now_ms)
        self.stored_bytes += len(command.body)
        if found is not None and lsn >= 0 and queue.passes_on and is_for_nobody(queue):
            return confirm_repeated(self._talk, command, found, queue, now_ms)
        if lsn >= 0:
            if command.noreply:
                self._bound_noreply(len(command.body), 1, queue.log, lsn)
            else:
                self.replies.hold(STORED, queue.log, lsn)
        elif found is not None and lsn == DUPLICATE and _refusal(line, lsn) is STORED:
            return confirm_repeated(self._talk, command, found, queue, now_ms)
        elif lsn == REUSED:
            word = ClientError(why_reused(queue.name, line.id)).line() + b"\r\n"
            self._say_refused(word, command.noreply, queue.log)
        else:
            self._say_refused(_refusal(line, lsn), command.noreply, queue.log)
        return None

    def store_run(self, first: Store, parser: Parser, most: int, now_ms: int) -> int:
        """Store a simple set and the sets that follow it and are like it, as one step.

        Return how many follow it, at most `most`; 0: nothing is stored, `store` has to do it.
        """
        line, replies = first.line, self.replies
        queue = self._queues.get(line.target.name)
        if queue is None or not queue.takes_runs or self.host.mode != "up":
            return 0
        limit = queue.policy.max_item_bytes
        if line.size > limit or line.form is not None or replies.form is not None:
            return 0
        most = min(most, RUN_SETS_MAX - 1, HELD_REPLIES_MAX - 1 - replies.in_flight)
        # The last one of a run may go over its bytes.
        limit = min(limit, max(line.size, RUN_ITEM_BYTES_MAX))
        room = queue.log.run_bytes(most + 1) - limit
        most_bytes = min(HELD_BYTES_MAX - self.stored_bytes, room) - line.size
        others, size = parser.run(line, most, most_bytes, limit)
        if not others:
            return 0
        bodies = [first.body, *others]
        count, size = len(bodies), line.size + size
        self._counters.cmd_set += count
        lsn = queue.files.put_run(bodies, size, line.flags, now_ms)
        self.stored_bytes += size
        if line.noreply:
            self._bound_noreply(size, count, queue.log, lsn)
        else:
            replies.hold_run(STORED, queue.log, lsn, count)
        return count - 1

    def _store_in_each(
        self, command: Store, names: tuple[bytes, ...], now_ms: int
    ) -> Iterator[bytes]:
        """Store in each queue of an alias; a refusal by one does not stop the others. If one
        refuses for good, the answer says why: after `NOT_STORED` a producer tries for ever.

        Stop at a queue that has no room yet, and go on with it. Raise Refused before the first
        queue.
        """
        line, broker, body = command.line, self.broker, command.body
        if line.expected is not None or line.verb not in (b"set", b"add"):
            raise ClientError("an alias has no versions: each of its queues has its own")
        terms = self._terms(line, now_ms)
        for name in names:
            Storing.refuse_in_child(name, terms)
        done, did, errors, is_reused = JointReply(), 0, list[Refused](), False
        for name in names:
            while True:
                try:
                    queue = self._storing.queue(name, terms, body, now_ms)
                    assert queue is not None
                    lsn = self._put(queue, line, body, None, now_ms)
                    break
                except NoRoomYet as none_yet:
                    self._talk.await_room(none_yet.waiting)
                except Refused as refused:
                    errors.append(refused)
                    queue = None
                    break
                yield b""
                now_ms = self._talk.last_command_ms
            if queue is None:
                continue
            if lsn == REUSED:
                is_reused = True
                errors.append(ClientError(why_reused(name, line.id)))
            did += lsn >= 0 or _refusal(line, lsn) is STORED
            done.hold(b"", queue.log, lsn if lsn >= 0 else queue.log.lsn_appended)
            if command.noreply and lsn >= 0:
                self._bound_noreply(len(body), 1, queue.log, lsn)
        if len(errors) == len(names) and not is_reused:
            self._talk.refuse(errors[0], command.noreply)
            return
        self.stored_bytes += len(body) * len(names)
        if not command.noreply:
            word = STORED if did == len(names) else NOT_STORED
            for_good = [each for each in errors if isinstance(each, ClientError | ItemRefused)]
            if for_good:
                word = for_good[0].line() + b"\r\n"
            self.replies.hold(word, done, 1)
        elif did < len(names):
            broker.counters.refused_quietly += 1

    def _refuse_alias(self, *names: bytes) -> None:
        """Raise ClientError for an alias: a hand-off promises both or neither for two queues
        only."""
        for name in names:
            if name in self.broker.aliases:
                alias = name.decode("ascii")
                raise ClientError(f"confirm needs queues, and {alias} is an alias of several")

    def _say_refused(self, word: bytes, noreply: bool, log: Log | None) -> None:
        """Reply that nothing was stored, after the records that this answer rests on."""
        if noreply:
            self.broker.counters.refused_quietly += word is not STORED
        elif log is None:
            self.replies.say(word)
        else:
            self.replies.hold(word, log, log.lsn_appended)

    def _bound_noreply(self, body_bytes: int, count: int, log: Log, lsn: int) -> None:
        """Bound the memory of sets with noreply: from time to time an empty reply holds the
        connection back until the disk has caught up."""
        self._noreply_bytes += body_bytes + count * RECORD_BYTES
        if self._noreply_bytes >= HELD_BYTES_MAX:
            self._noreply_bytes = 0
            self.stored_bytes = HELD_BYTES_MAX
            self.replies.hold(b"", log, lsn)

    def _peer_of(self, line: StoreLine, body: bytes) -> Peer | None:
        """Return the slice where a hand-off stores this item, by its key or its id; None: it is
        this one. Raise ClientError."""
        name, broker = line.target.name, self.broker
        if not broker.has_peers:
            return None
        keys = broker.policy_of(name, broker.declared_of(name)).keys
        word = keys.key_of(name, line.key, body) or line.id
        return broker.moves.remote.peer_of(name, word)

    def limit_of(self, name: bytes) -> int:
        """Return the item limit of this queue in bytes; an alias has the largest of its limits."""
        broker = self.broker
        if name in broker.aliases:
            return max(self.limit_of(each) for each in broker.aliases[name])
        if broker.elsewhere(name, b""):
            return _ELSEWHERE_BYTES_MAX
        queue = broker.queues.get(name)
        policy = queue.policy if queue is not None else broker.policy_of(name, b"")
        return policy.max_item_bytes

    def _put(
        self, queue: AnyQueue, line: StoreLine, body: bytes, found: Given | None, now_ms: int
    ) -> int:
        """Put the item in this queue and complete its hand-off; return the result of
        `Queue.put`."""
        number, origin = queue.next_number, found.origin if found is not None else None
        lsn = Storing.put(queue, body, self._terms(line, now_ms, origin), now_ms)
        if found is not None and lsn >= 0 and not (queue.passes_on and is_for_nobody(queue)):
            moves = self.broker.moves
            moves.in_flight.hand_off(found.source, found.lease, queue, number, lsn, now_ms)
        if lsn == REUSED and not queue.policy.dedupe_same_body:
            return DUPLICATE
        return lsn

    def _terms(self, line: StoreLine, now_ms: int, origin: Origin | None = None) -> Terms:
        header = line.header
        if origin is not None:
            header = (header or ItemHeader())._replace(origin=origin)
        unix_ms = now_ms + self.broker.clock.offset_ms
        return _new(
            Terms,
            (
                line.flags, _expires_ms(line, unix_ms) if line.expiry else 0, line.key,
                line.target.delay, header, _expected_version(line), line.only_if_empty,
            ),
        )  # fmt: skip


def _expected_version(line: StoreLine) -> int | None:
    """Return the version that its key must have; None if any will do."""
    if not line.key:
        return None
    if line.verb == b"add":
        return 0
    return ANY_VERSION if line.verb == b"replace" else line.expected


def _refusal(line: StoreLine, why: int) -> bytes:
    """Return the reply for an item that was not stored."""
    return word_of(line.verb, why)


def word_of(verb: bytes, why: int) -> bytes:
    """Return the reply of this verb for an item that was not stored."""
    return _WORDS.get((verb, why), NOT_STORED)


def _expires_ms(line: StoreLine, unix_ms: int) -> int:
    """Memcached's rule: up to 30 days relative, above that a date, negative: expired already."""
    if line.lifetime_ms:
        return unix_ms + line.lifetime_ms
    expiry = line.expiry
    if expiry < 0:
        return max(1, unix_ms - 1)
    return unix_ms + expiry * 1000 if expiry <= _RELATIVE_SECONDS_MAX else expiry * 1000
