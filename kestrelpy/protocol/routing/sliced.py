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
from typing import Final, NamedTuple

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
_GONE: Final = b"STAT state gone\r\n"
Step = AskSlice | AskAtOnce


class Opened(NamedTuple):
    """An item that a connection has opened: its slice, and the token of its lease."""

    slice: int
    token: int


class SlicedSeat:
    """What a connection has of sliced queues: the items that it opened, the oldest first, and the
    slice where it puts items. The lease of such an item may have ended meanwhile."""

    __slots__ = ("opened", "producer")

    def __init__(self) -> None:
        self.opened: dict[bytes, list[Opened]] = {}
        self.producer = 0  # 0: none yet

    def oldest(self, name: bytes) -> int:
        """Return the slice of the item of this queue that was opened first; 0: none is open."""
        found = self.opened.get(name)
        return found[0].slice if found else 0

    @property
    def count(self) -> int:
        """How many items are open."""
        return sum(map(len, self.opened.values()))

    def holds(self, slice_: int) -> bool:
        """True if an item of this slice is open."""
        return any(each.slice == slice_ for each in chain.from_iterable(self.opened.values()))

    def has(self, name: bytes, token: int) -> bool:
        """True if the item with this token is open."""
        return any(each.token == token for each in self.opened.get(name, ()))

    def note(self, name: bytes, opened: Opened) -> None:
        """Note that an item was opened."""
        self.opened.setdefault(name, []).append(opened)

    def ended(self, name: bytes, token: int = 0) -> None:
        """Note that the item with this token is open no more; 0: the one that was opened first."""
        found = self.opened.pop(name, [])
        first = found[0].token if found else 0
        if left := [each for each in found if each.token != (token or first)]:
            self.opened[name] = left


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
            number = queues.placement.slice_of_token(name, command.token)
            answer = yield AskSlice(number, loud)
            if isinstance(command, Delete) and not is_refusal(answer.rstrip()):
                seat.ended(name, command.token)
            return answer
        if isinstance(command, Touch):
            return (yield AskSlice(_slice_of_open(name, queues, seat), loud))
        answers = yield from _all(loud, queues)
        return _DELETED if _DELETED in answers else answers[0]
    if isinstance(command, Withdraw):
        error = b""
        for number in queues.slices:
            answer = yield AskSlice(number, loud)
            if answer == _DELETED:
                return answer
            error = error or (b"" if answer == _NOT_FOUND else answer)
        return error or _NOT_FOUND
    if isinstance(command, Plain) and command.verb in _PLAIN:
        return (yield from _PLAIN[command.verb](command, loud, queues))
    raise _refused(name, f"takes no {_verb(command, raw)}: its items are numbered in each slice")


def _name(command: Command) -> bytes:
    name = getattr(command, "name", None)
    if isinstance(name, bytes):
        return name
    if isinstance(command, Plain):
        return command.words[0].partition(b"/")[0] if command.words else b""
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
    name = target.name
    if target.parent or target.begin is not None:
        raise _refused(name, "has no children")
    if target.view is not None:
        raise _refused(name, "has no markers: each slice has its own")
    if target.key:
        number = queues.slice_of(name, target.key, b"", b"", 0)
        return (yield AskSlice(number, b"%b %b\r\n" % (_verb_of(target), target.raw)))
    if target.takes and target.wait_ms and target.numbered:
        raise _refused(name, "has no markers, which gets with t= shows: open it, or write get")
    if target.ending is not None and not target.opens:
        return (yield from _end(target, token, 0, queues, seat))
    if target.ending is None and _is_full(target, queues, seat):
        yield from _look(seat)
        if _is_full(target, queues, seat):
            raise ClientError(OPEN_FIRST)
    order = queues.order(name, target.peeks)
    if target.ending is not None:
        answer = yield from _end(target, token, order[0], queues, seat)
        if not answer.startswith(END):
            return answer
    key, error = _without(target, "t", "close", "token"), b""
    for number in order:
        answer = yield AskSlice(number, b"%b %b\r\n" % (_verb_of(target), key))
        if answer.startswith(VALUE):
            return _noted(answer, target, number, seat)
        if answer.startswith(CLIENT_ERROR):
            return answer
        error = error or (b"" if answer == END else answer)
    if target.wait_ms:
        return (yield from _wait(target, order, seat))
    return error or END


def _is_full(target: Target, queues: SlicedQueues, seat: SlicedSeat) -> bool:
    """True if the items that the connection has open stand in the way of this request."""
    if _is_held(target):
        return seat.count >= queues.open_reads_max
    return target.takes and bool(seat.oldest(target.name))


def _is_held(target: Target) -> bool:
    """True if an item that is opened is leased to the connection."""
    return target.opens and not target.lease_ms


def _look(seat: SlicedSeat) -> Generator[Step, bytes, None]:
    """Forget the items whose leases are over: by a deadline, by a token, with the queue."""
    for name, found in [*seat.opened.items()]:
        for each in found:
            request = b"stats %b/token=%d\r\n" % (name, each.token)
            answer = yield AskSlice(each.slice, request, until_end=True)
            if answer == END or _GONE in answer:
                seat.ended(name, each.token)


def _slice_of_open(name: bytes, queues: SlicedQueues, seat: SlicedSeat) -> int:
    """Return the slice of the item that the connection opened first. If it has noted none: the home
    of the queue, where it may have one of a time before the queue was sliced."""
    return seat.oldest(name) or queues.placement.slice_of(name)


def _end(
    target: Target, token: int, first: int, queues: SlicedQueues, seat: SlicedSeat
) -> Asking:
    """End a lease, and open the next item in the same trip if it is the turn of that slice: the
    `first` one. END: it is ended, and nothing was opened."""
    name = target.name
    held = seat.has(name, token) if token else seat.oldest(name) > 0
    of_token = queues.placement.slice_of_token(name, token) if token else 0
    number = of_token or _slice_of_open(name, queues, seat)
    is_next = target.opens and number == first
    if _is_held(target) and seat.count - held >= queues.open_reads_max:
        yield from _look(seat)
        held = seat.has(name, token) if token else seat.oldest(name) > 0
        if seat.count - held >= queues.open_reads_max:
            raise ClientError(OPEN_FIRST)
    key = _without(target, "t") if is_next else _without(target, "t", "open", "lease", "full")
    answer = yield AskSlice(number, b"%b %b\r\n" % (_verb_of(target), key))
    if answer == END or answer.startswith((VALUE, CLIENT_ERROR)):
        seat.ended(name, token)
    return _noted(answer, target, number, seat) if answer.startswith(VALUE) else answer


def _wait(target: Target, slices: list[int], seat: SlicedSeat) -> Asking:
    """Wait in all slices at once, keep the first item, and give back every other one."""
    key = _without(target, "t", "close", "token")
    if target.takes:
        key += b"/open"  # it is confirmed once it is the only one
    is_held = target.takes or _is_held(target)
    race = AskAtOnce(slices, b"gets %b/t=%d\r\n" % (key, target.wait_ms), is_held)
    yield race
    found = [(n, each) for n, each in race.answers.items() if each.startswith(VALUE)]
    if not found:
        refusals = (each for each in race.answers.values() if each != END)
        return next(refusals, END)
    number, first = found[0]
    if target.peeks:
        return _named(first, target)
    if target.takes:
        answer = yield AskSlice(number, _by_token(target, b"close", first))
        if answer == END:
            yield _named(first, target)
            del found[0]
        else:
            yield answer  # it is not confirmed, and goes back with the others
    else:
        yield _noted(first, target, number, seat)
        del found[0]
    ending = b"abort" if target.dead else b"defer"  # neither counts an attempt
    for each, answer in found:
        yield AskSlice(each, _by_token(target, ending, answer))
    return b""


def _verb_of(target: Target) -> bytes:
    """Return the verb for a slice; an item that is to be noted comes with its token."""
    return b"gets" if target.numbered or _is_held(target) else b"get"


def _noted(answer: bytes, target: Target, number: int, seat: SlicedSeat) -> bytes:
    """Note the item of an answer, if the connection holds it; return the answer for the client."""
    if _is_held(target):
        seat.note(target.name, Opened(number, int(_head(answer)[0][4])))
    return _named(answer, target)


def _without(target: Target, *options: str) -> bytes:
    """Return the key without these options."""
    name, *words = target.raw.split(b"/")
    left = [word for word in words if word.partition(b"=")[0].decode("latin-1") not in options]
    return b"/".join([name, *left])


def _by_token(target: Target, ending: bytes, answer: bytes) -> bytes:
    """Return the request that ends the lease of an item."""
    dead = b"/dead" if target.dead and ending != b"abort" else b""
    return b"get %b%b/%b/token=%b\r\n" % (target.name, dead, ending, _head(answer)[0][4])


def _head(answer: bytes) -> tuple[list[bytes], bytes]:
    """Return the words of a VALUE line, and what follows it."""
    line, _, rest = answer.partition(b"\r\n")
    return line.split(b" "), rest


def _named(answer: bytes, target: Target) -> bytes:
    """Return an item under the key that the client sent, with the token only if it asked."""
    words, rest = _head(answer)
    words[1] = target.raw
    if not target.numbered:
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
        answer = yield AskSlice(number, raw)
        if answer == STORED:
            seat.ended(queue, token)
        return answer
    if seat.count > 1:
        yield from _look(seat)
    if seat.count > 1:
        raise ClientError("several items are open: name one of them, confirm=<queue>:<token>")
    name = next(iter(seat.opened), b"")
    answer = yield AskSlice(_slice_of_open(name or line.target.name, queues, seat), raw)
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
    source = _name(command)
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
