"""Requests for a sliced queue, which is in all slices: one answer of theirs, as of one queue.

    get q/open            each slice in turn, until one has an item
    get q/open/t=5s       then all at once; what a second one gives is given back
    get q/close           the slice of the item that the connection opened first
    delete q/token=N      the slice that issued the token
    flush q, stats q      all slices

What a slice cannot say of the whole queue is refused with one sentence.

One rule: a connection that waits in several slices keeps one item: it has each answer before it
gives any other item back, and nothing is left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import chain
from typing import Final

from kestrelpy.errors import ClientError, Refused
from kestrelpy.protocol.parse import (
    Command,
    Delete,
    Fetch,
    Plain,
    Store,
    Target,
    Touch,
    Withdraw,
)
from kestrelpy.protocol.routing import sums
from kestrelpy.protocol.routing.answer_ends import END
from kestrelpy.protocol.routing.asking import VALUE, AskAtOnce, Asking, AskSlice
from kestrelpy.protocol.routing.sliced_queues import SlicedQueues
from kestrelpy.protocol.verbs import OPEN_FIRST, STORED
from kestrelpy.wire.refusals import CLIENT_ERROR, is_refusal

_DELETED: Final = b"DELETED\r\n"
_NOT_FOUND: Final = b"NOT_FOUND\r\n"
Step = AskSlice | AskAtOnce


class SlicedSeat:
    """What a connection has of sliced queues: the slices of the items that it opened, the oldest
    first, and the slice where it puts items."""

    __slots__ = ("_opened", "producer")

    def __init__(self) -> None:
        self._opened: dict[bytes, list[int]] = {}
        self.producer = 0  # 0: none yet

    def oldest(self, name: bytes) -> int:
        """Return the slice of the item of this queue that was opened first; 0: none is open."""
        found = self._opened.get(name)
        return found[0] if found else 0

    @property
    def count(self) -> int:
        """How many items are open."""
        return sum(map(len, self._opened.values()))

    @property
    def queues(self) -> list[bytes]:
        """The queues with an open item."""
        return [*self._opened]

    def holds(self, slice_: int) -> bool:
        """True if an item of this slice is open."""
        return slice_ in chain.from_iterable(self._opened.values())

    def opened(self, name: bytes, slice_: int) -> None:
        """Note that an item was opened."""
        self._opened.setdefault(name, []).append(slice_)

    def ended(self, name: bytes) -> None:
        """Note that the item of this queue that was opened first is open no more."""
        found = self._opened.get(name)
        if found:
            found.pop(0)
            if not found:
                del self._opened[name]


def slice_of_set(command: Store, queues: SlicedQueues, seat: SlicedSeat) -> int:
    """Return the slice where a set into a sliced queue is stored; raise ClientError."""
    line = command.line
    name = line.target.name
    if line.target.parent:
        raise _refused(name, "has no children")
    if line.only_if_empty:
        raise _refused(name, "knows no add without id= or key=: another slice may have items")
    seat.producer = queues.slice_of_producer(seat.producer)
    return queues.slice_of(name, line.key, command.body, line.id, seat.producer)


def ask(command: Command, raw: bytes, queues: SlicedQueues, seat: SlicedSeat) -> Asking:
    """Return the steps of a request that names a sliced queue, or hands off an item of one."""
    try:
        return (yield from _steps(command, raw, queues, seat))
    except Refused as refused:
        return refused.line() + b"\r\n"


def _steps(command: Command, raw: bytes, queues: SlicedQueues, seat: SlicedSeat) -> Asking:
    if isinstance(command, Fetch):
        target = command.targets[0]
        return (yield from fetch(target, command.token, queues, seat))
    loud = _loud(raw)
    if isinstance(command, Store):
        return (yield from _store(command, loud, queues, seat))
    name = _name(command)
    if b"+" in name:
        raise _refused(name, "has no children")
    if isinstance(command, Delete | Touch):
        if command.token:
            return (yield AskSlice(queues.placement.slice_of_token(name, command.token), loud))
        if isinstance(command, Touch):
            return (yield AskSlice(seat.oldest(name) or queues.order(name)[0], loud))
        answers = yield from _all(loud, queues)
        return _DELETED if _DELETED in answers else answers[0]
    if isinstance(command, Withdraw):
        for number in queues.slices:
            answer = yield AskSlice(number, loud)
            if answer != _NOT_FOUND:
                return answer
        return _NOT_FOUND
    if isinstance(command, Plain) and command.verb in _PLAIN:
        return (yield from _PLAIN[command.verb](command, loud, queues))
    raise _refused(name, f"takes no {_verb(command, raw)}: its items are numbered in each slice")


def _name(command: Command) -> bytes:
    name = getattr(command, "name", None)
    if isinstance(name, bytes):
        return name
    if isinstance(command, Plain):
        return command.words[0].partition(b"/")[0]
    inner = getattr(command, "command", command)
    target = getattr(inner, "target", None) or getattr(inner, "targets", [None])[0]
    return target.name if isinstance(target, Target) else getattr(inner, "name", b"")


def _verb(command: Command, raw: bytes) -> str:
    return raw.split(None, 1)[0].decode("ascii", "replace").lower()


def _refused(name: bytes, why: str) -> ClientError:
    word = name.decode("ascii", "replace")
    return ClientError(f"queue {word} is sliced, and a sliced queue {why}")


def _loud(raw: bytes) -> bytes:
    """Return a request without noreply: each slice says when it is done."""
    line, end, body = raw.partition(b"\n")
    return line.rstrip().removesuffix(b" noreply") + b"\r" + end + body


# -- an item, wherever it is --------------------------------------------------------------------


def fetch(target: Target, token: int, queues: SlicedQueues, seat: SlicedSeat) -> Asking:
    """Return the steps of one key of a get; raise ClientError."""
    name, verb = target.name, b"gets" if target.numbered else b"get"
    if target.parent or target.begin is not None:
        raise _refused(name, "has no children")
    if target.view is not None:
        raise _refused(name, "has no markers: each slice has its own")
    if target.key:
        return (yield AskSlice(queues.slice_of(name, target.key, b"", b"", 0), _get(verb, target)))
    if target.takes and target.wait_ms and target.numbered:
        raise _refused(name, "has no markers, which gets with t= shows: open it, or write get")
    order = queues.order(name)
    if target.ending is not None:
        answer = yield from _end(target, token, order, queues, seat)
        if not target.opens or not answer.startswith(END):
            return answer
    holds_one = bool(seat.oldest(name))
    is_full = target.opens and not target.lease_ms and seat.count >= queues.open_reads_max
    if is_full or (target.takes and holds_one):
        raise ClientError(OPEN_FIRST)
    key, error = _without(target, "t", "close", "token"), b""
    for number in order:
        answer = yield AskSlice(number, b"%b %b\r\n" % (verb, key))
        if answer.startswith(VALUE):
            _note(target, number, seat)
            return _named(answer, target, keeps_number=True)
        if answer.startswith(CLIENT_ERROR):
            return answer
        error = error or (b"" if answer == END else answer)
    if target.wait_ms:
        return (yield from _wait(target, order, seat))
    return error or END


def _end(
    target: Target, token: int, order: list[int], queues: SlicedQueues, seat: SlicedSeat
) -> Asking:
    """End a lease, and open the next item in the same trip if it is the turn of that slice. END:
    it is ended, and nothing was opened."""
    name, verb = target.name, b"gets" if target.numbered else b"get"
    held = seat.oldest(name)
    number = queues.placement.slice_of_token(name, token) if token else held or order[0]
    is_next = target.opens and number == order[0]
    left = seat.count - (not token and held > 0)
    if target.opens and not target.lease_ms and left >= queues.open_reads_max:
        raise ClientError(OPEN_FIRST)
    key = _without(target, "t") if is_next else _without(target, "t", "open", "lease", "full")
    answer = yield AskSlice(number, b"%b %b\r\n" % (verb, key))
    is_ended = answer == END or answer.startswith((VALUE, CLIENT_ERROR))
    if not token and is_ended:
        seat.ended(name)
    if answer.startswith(VALUE):
        _note(target, number, seat)
        return _named(answer, target, keeps_number=True)
    return answer


def _wait(target: Target, slices: list[int], seat: SlicedSeat) -> Asking:
    """Wait in all slices at once, keep the first item, and give back every other one."""
    key = _without(target, "t", "close", "token")
    if target.takes:
        key += b"/open"  # it is confirmed once it is the only one
    race = AskAtOnce(slices, b"gets %b/t=%d\r\n" % (key, target.wait_ms))
    yield race
    found = [(n, each) for n, each in race.answers.items() if each.startswith(VALUE)]
    if not found:
        refusals = (each for each in race.answers.values() if each != END)
        return next(refusals, END)
    number, first = found[0]
    if target.peeks:
        return _named(first, target, keeps_number=target.numbered)
    if target.takes:
        answer = yield AskSlice(number, _by_token(target, b"close", first))
        if answer != END:
            return answer
    else:
        _note(target, number, seat)
    yield _named(first, target, keeps_number=target.numbered)
    ending = b"abort" if target.dead else b"defer"  # neither counts an attempt
    for each, answer in found[1:]:
        yield AskSlice(each, _by_token(target, ending, answer))
    return b""


def _note(target: Target, number: int, seat: SlicedSeat) -> None:
    if target.opens and not target.lease_ms:
        seat.opened(target.name, number)


def _get(verb: bytes, target: Target) -> bytes:
    return b"%b %b\r\n" % (verb, target.raw)


def _without(target: Target, *options: str) -> bytes:
    """Return the key without these options."""
    words = target.raw.split(b"/")
    return b"/".join(
        word for word in words if word.partition(b"=")[0].decode("latin-1") not in options
    )


def _by_token(target: Target, ending: bytes, answer: bytes) -> bytes:
    """Return the request that ends the lease of an item."""
    dead = b"/dead" if target.dead and ending != b"abort" else b""
    return b"get %b%b/%b/token=%b\r\n" % (target.name, dead, ending, _head(answer)[0][4])


def _head(answer: bytes) -> tuple[list[bytes], bytes]:
    """Return the words of a VALUE line, and what follows it."""
    line, _, rest = answer.partition(b"\r\n")
    return line.split(b" "), rest


def _named(answer: bytes, target: Target, *, keeps_number: bool) -> bytes:
    """Return an item under the key that the client sent."""
    words, rest = _head(answer)
    words[1] = target.raw
    if not keeps_number:
        del words[4:]
    return b" ".join(words) + b"\r\n" + rest


# -- hand-offs and declarations -----------------------------------------------------------------


def _store(command: Store, raw: bytes, queues: SlicedQueues, seat: SlicedSeat) -> Asking:
    line = command.line
    if line.declares:
        answers = yield from _all(raw, queues)
        return next((each for each in answers if each != STORED), STORED)
    assert line.handoff is not None, "all others are put at once"
    queue, token = line.handoff
    if queues.has(line.target.name):
        slice_of_set(command, queues, seat)  # it is refused here if it would be there
    if queue:
        there = queues.placement.slice_of_token(queue, token)
        number = there if queues.has(queue) else queues.placement.slice_of(queue)
        return (yield AskSlice(number, raw))
    if seat.count > 1:
        raise ClientError("several items are open: name one of them, confirm=<queue>:<token>")
    name = seat.queues[0]
    answer = yield AskSlice(seat.oldest(name), raw)
    if answer == STORED:
        seat.ended(name)
    return answer


# -- the queue as a whole -----------------------------------------------------------------------


def _all(
    raw: bytes, queues: SlicedQueues, until_end: bool = False
) -> Generator[Step, bytes, list[bytes]]:
    """Return the answers of all slices, or the first error alone; all are asked in any case."""
    answers = []
    for number in queues.slices:
        answers.append((yield AskSlice(number, raw, until_end)))
    return [each for each in answers if is_refusal(each.rstrip())][:1] or answers


def _alike(command: Plain, raw: bytes, queues: SlicedQueues) -> Asking:
    return (yield from _all(raw, queues))[0]


def _count(command: Plain, raw: bytes, queues: SlicedQueues) -> Asking:
    """Return the sum; a slice that does not have the queue adds nothing."""
    answers = yield from _all(raw, queues)
    numbers = [int(each) for each in answers if each.strip().isdigit()]
    return b"%d\r\n" % sum(numbers) if numbers else answers[0]


def _move(command: Plain, raw: bytes, queues: SlicedQueues) -> Asking:
    source = command.words[0]
    if queues.has(source):
        verb = command.verb.decode("ascii")
        raise _refused(source, f"is no source of {verb}: only one slice would be asked")
    return (yield AskSlice(queues.placement.slice_of(source), raw))


def _stats(command: Plain, raw: bytes, queues: SlicedQueues) -> Asking:
    name, _, option = command.words[0].partition(b"/")
    word, _, value = option.partition(b"=")
    if word == b"item":
        raise _refused(name, "takes no stats of an item: its items are numbered in each slice")
    if word == b"token" and value.isdigit() and len(value) <= _TOKEN_DIGITS_MAX:
        number = queues.placement.slice_of_token(name, int(value))
        return (yield AskSlice(number, raw, until_end=True))
    answers = yield from _all(raw, queues, until_end=True)
    if not answers[0].endswith(END):
        return answers[0]
    if word == b"settings":  # the same everywhere, where the queue is
        return max(answers, key=len)
    lines = [each.removesuffix(END) for each in answers]
    return b"".join([*lines, END]) if option else b"".join([*sums.of_stats(lines), END])


_TOKEN_DIGITS_MAX: Final = 16
_PLAIN: Final[dict[bytes, Callable[[Plain, bytes, SlicedQueues], Asking]]] = {
    b"flush": _alike, b"flush_expired": _count, b"pause": _alike, b"resume": _alike,
    b"acknowledge": _count, b"move": _move, b"redrive": _move, b"stats": _stats,
}  # fmt: skip


def fetch_each(command: Fetch, queues: SlicedQueues, seat: SlicedSeat) -> Asking:
    """Return the steps of a get with several keys, which are in several slices."""
    verb = b"gets" if command.targets[0].numbered else b"get"
    for target in command.targets:
        if queues.has(target.name):
            try:
                answer = yield from fetch(target, 0, queues, seat)
            except Refused as refused:
                return refused.line() + b"\r\n"
        else:
            number = queues.placement.slice_of(target.name)
            answer = yield AskSlice(number, b"%b %b\r\n" % (verb, target.raw))
        if not answer.endswith(END):
            return answer
        yield answer.removesuffix(END)
    return END
