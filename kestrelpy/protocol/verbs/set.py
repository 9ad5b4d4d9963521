"""What one connection stores: a set, an add, a cas, a replace; also by an alias.

    hands off? ─▶ what it confirms, on disk ─▶ put ─▶ STORED when that is, or the word for why not
    an alias?  ─▶ put in each of its queues in turn ─▶ STORED if all did, when all are on disk

One rule: an answer that rests on a stored item is said when that item is on disk.
"""

from __future__ import annotations

from typing import Final

from journal.format.item_header import ItemHeader
from kestrelpy.core.broker import Broker
from kestrelpy.core.key_rule import NO_KEY
from kestrelpy.core.log.log import Log
from kestrelpy.core.queue.put import DUPLICATE, NOT_FOUND
from kestrelpy.core.queue.queue import Queue
from kestrelpy.errors import ClientError, Refused, ServerError
from kestrelpy.protocol.parse.commands import Store, StoreLine
from kestrelpy.protocol.parse.names import parent_of
from kestrelpy.protocol.ports import Talk
from kestrelpy.protocol.replies import HELD_BYTES_MAX, Together
from kestrelpy.protocol.verbs.children import child_to_store_in
from kestrelpy.protocol.verbs.declare import declare
from kestrelpy.protocol.verbs.handoff import (
    Given,
    confirm_repeated,
    given,
    is_for_nobody,
    must_wait,
    wait,
)
from kestrelpy.protocol.verbs.stored import NOT_STORED, STORED, expectation, refusal

# What a set costs beside its body, where nobody counts the answers.
RECORD_BYTES: Final = 256
_new: Final = tuple.__new__  # half the cost of calling a named tuple
_RELATIVE_SECONDS_MAX: Final = 30 * 24 * 3600  # memcached's border between an age and a date


class Storing:
    """The `set` side of one conversation. `stored_bytes` are in sets not yet answered."""

    __slots__ = ("_quiet_bytes", "_talk", "broker", "host", "replies", "stored_bytes")

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.broker = talk.broker
        self.host = talk.host
        self.replies = talk.replies
        self.stored_bytes = 0
        self._quiet_bytes = 0

    def store(self, command: Store, now_ms: int) -> None:
        """Store an item, or say why not; raises Refused, and nothing has changed."""
        line, broker = command.line, self.broker
        if line.declares:
            declare(self._talk, command, now_ms)
            return
        broker.counters.cmd_set += 1
        if self.host.mode != "up":
            raise ServerError(f"{self.host.mode}: this server stores nothing now")
        name, found = line.target.name, None
        queue = broker.queues.get(name)
        if line.handoff is not None:
            if broker.aliases:
                self._refuse_alias(name, line.handoff.queue)
            found = given(self._talk, name, queue, line.handoff, now_ms)
            if must_wait(found, queue):
                wait(self._talk, command, found)
                return
        if queue is None:
            if name in broker.aliases:
                self._store_in_each(command, broker.aliases[name], now_ms)
                return
            queue = _made(broker, line, name, command.body, now_ms)
            if queue is None:  # of what nobody wrote; and a refusal leaves nothing behind
                self._say_refused(refusal(line, NOT_FOUND), command.quiet, None)
                return
        if line.is_plain and not line.key and queue.policy.keys.rule is None:  # nearly all are
            expires_ms = line.expiry and _expires_ms(line.expiry, now_ms + broker.wall.offset_ms)
            delay = line.target.delay
            lsn = queue.put(command.body, line.flags, expires_ms, now_ms, NO_KEY, None, delay)
        elif line.is_plain and len(line.key) == 1:  # and most with a key, which wins over a rule
            expires_ms = line.expiry and _expires_ms(line.expiry, now_ms + broker.wall.offset_ms)
            lsn = queue.put(
                command.body, line.flags, expires_ms, now_ms, line.key[0], None, line.target.delay,
                None, line.expected,
            )  # fmt: skip
        else:
            lsn = _put(broker, queue, line, command.body, found, now_ms)
        self.stored_bytes += len(command.body)
        if found is not None and lsn >= 0 and queue.passes_on and is_for_nobody(queue):
            confirm_repeated(self._talk, command, found, queue, now_ms)
        elif lsn >= 0:
            if command.quiet:
                self._bound_quiet(len(command.body), queue.log, lsn)
            else:
                self.replies.hold(STORED, queue.log, lsn)
        elif found is not None and lsn == DUPLICATE and refusal(line, lsn) is STORED:
            confirm_repeated(self._talk, command, found, queue, now_ms)
        else:
            self._say_refused(refusal(line, lsn), command.quiet, queue.log)

    def _store_in_each(self, command: Store, names: tuple[bytes, ...], now_ms: int) -> None:
        """By an alias: whoever refuses does not keep the others from it.

        Raises Refused if all did with an error.
        """
        line, broker, body = command.line, self.broker, command.body
        if line.expected is not None or line.verb not in (b"set", b"add"):
            raise ClientError("an alias has no versions: each of its queues has its own")
        for name in names:
            if parent_of(name):
                _refuse_child(line, name)
        done, did, errors = Together(), 0, list[Refused]()
        for name in names:
            try:
                queue = broker.queues.get(name) or _made(broker, line, name, body, now_ms)
                assert queue is not None
                lsn = _put(broker, queue, line, body, None, now_ms)
            except Refused as refused:
                errors.append(refused)
                continue
            did += lsn >= 0 or refusal(line, lsn) is STORED
            done.hold(b"", queue.log, lsn if lsn >= 0 else queue.log.lsn_appended)
            if command.quiet and lsn >= 0:
                self._bound_quiet(len(body), queue.log, lsn)
        if len(errors) == len(names):
            raise errors[0]
        self.stored_bytes += len(body) * len(names)
        if not command.quiet:
            self.replies.hold(STORED if did == len(names) else NOT_STORED, done, 1)
        elif did < len(names):
            broker.counters.refused_quietly += 1

    def _refuse_alias(self, *names: bytes) -> None:
        """Both or neither is promised of two queues, not of several."""
        for name in names:
            if name in self.broker.aliases:
                alias = name.decode("ascii")
                raise ClientError(f"confirm needs queues, and {alias} is an alias of several")

    def _say_refused(self, word: bytes, quiet: bool, log: Log | None) -> None:
        """Nothing was stored. That rests on what is: it is not said before that is on disk."""
        if quiet:
            self.broker.counters.refused_quietly += word is not STORED
        elif log is None:
            self.replies.say(word)
        else:
            self.replies.hold(word, log, log.lsn_appended)

    def _bound_quiet(self, body_bytes: int, log: Log, lsn: int) -> None:
        """noreply promises nothing, but neither may it fill the memory: now and then an empty
        reply holds this connection back until the disk has caught up."""
        self._quiet_bytes += body_bytes + RECORD_BYTES
        if self._quiet_bytes >= HELD_BYTES_MAX:
            self._quiet_bytes = 0
            self.stored_bytes = HELD_BYTES_MAX
            self.replies.hold(b"", log, lsn)


def limit_of(broker: Broker, name: bytes) -> int:
    """How large an item of this name may be; of an alias, for the queue that takes the largest."""
    if name in broker.aliases:
        return max(limit_of(broker, each) for each in broker.aliases[name])
    queue = broker.queues.get(name)
    policy = queue.policy if queue is not None else broker.policy_of(name, b"")
    return policy.max_item_bytes


def _put(
    broker: Broker, queue: Queue, line: StoreLine, body: bytes, found: Given | None, now_ms: int
) -> int:
    """Put it in this queue, and hand off what was found; as `Queue.put` answers."""
    expires_ms = _expires_ms(line.expiry, now_ms + broker.wall.offset_ms) if line.expiry else 0
    keys, key = queue.policy.keys, NO_KEY
    if line.key or keys.rule is not None:
        key = keys.key_of(queue.name, line.key, body)
    stamp = None
    if found is not None:
        stamp = _new(ItemHeader, (line.id, line.scope, line.epoch, 0, 0, found.origin))
    elif line.id:
        stamp = _new(ItemHeader, (line.id, line.scope, line.epoch, 0, 0, None))
    number, delay, expects = queue.next_number, line.target.delay, line.expected
    if line.verb == b"set":
        lsn = queue.put(body, line.flags, expires_ms, now_ms, key, None, delay, stamp, expects)
    elif line.only_if_empty:
        lsn = queue.add(body, line.flags, expires_ms, now_ms, key, delay=delay, stamp=stamp)
    else:
        expects = expectation(line) if line.key else None
        lsn = queue.put(body, line.flags, expires_ms, now_ms, key, None, delay, stamp, expects)
    if found is not None and lsn >= 0 and not (queue.passes_on and is_for_nobody(queue)):
        broker.moves.passages.hand_off(found.source, found.lease, queue, number, lsn, now_ms)
    return lsn


def _made(
    broker: Broker, line: StoreLine, name: bytes, body: bytes, now_ms: int
) -> Queue | None:
    """A queue for a set that will not be refused; None: it expects what nobody wrote."""
    if parent_of(name):
        _refuse_child(line, name)
    if line.key and expectation(line):
        return None
    policy, size = broker.policy_of(name, b""), len(body)
    if size > policy.max_item_bytes:
        raise ServerError(f"item too large ({size} bytes, limit {policy.max_item_bytes})")
    policy.keys.key_of(name, line.key, body)
    if parent_of(name):
        return child_to_store_in(broker, name, now_ms)
    return broker.create(name, now_ms)


def _refuse_child(line: StoreLine, name: bytes) -> None:
    """Raises ClientError for what only a queue itself can remember; nothing has been made."""
    if line.id or (line.key and expectation(line) is not None):
        raise ClientError(
            f"{name.decode('ascii')} is a child: ids and versions are its parent's, name that "
            "instead"
        )


def _expires_ms(expiry: int, wall_ms: int) -> int:
    """Memcached's rule: up to 30 days from now, above a date, negative: already gone."""
    if expiry < 0:
        return max(1, wall_ms - 1)
    return wall_ms + expiry * 1000 if expiry <= _RELATIVE_SECONDS_MAX else expiry * 1000
