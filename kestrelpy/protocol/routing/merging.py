"""Requests that several slices answer, and the one answer that the router makes of theirs.

    get orders mails      each key asks its slice; the items, then one END
    stats                 the figures of the server are added up, and all queues follow by name
    flush_all             OK when each slice has said so
    flush_all_expired     the sum
    reload                each slice checks it, then the router; then each slice takes it
    dump_stats, dump_config, stats markers, stats schedules      all blocks of them by name

One rule: an error of a slice is the answer, after the items that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from kestrelpy.operations import HEALTH_STATES, MarkerFacts, QueueFacts, ScheduleFacts
from kestrelpy.placement import Placement
from kestrelpy.protocol.parse import Command, Fetch, Plain
from kestrelpy.protocol.routing.answer_ends import END
from kestrelpy.wire.refusals import is_refusal

_UP: Final = (b"UP\r\n", b":UP\n")  # and on the text port
_FACT: Final = b"STAT "
_QUEUE: Final = b"STAT queue_"
_DUMPED: Final = b"queue '"


class AskSlice(NamedTuple):
    """A request for one slice; with `until_end` its answer has lines of any kind before END."""

    slice: int
    raw: bytes
    until_end: bool = False


class CheckHere:
    """A step that is the router's: it checks whether it would refuse the configuration."""


_CHECK_HERE: Final = CheckHere()


class RouterCounts:
    """What the router counts itself, since its start; `connections` are those of now. `http_port`
    is where it listens, None: nowhere."""

    __slots__ = ("connections", "connections_total", "http_port", "refused_noreply")

    def __init__(self) -> None:
        self.connections = self.connections_total = self.refused_noreply = 0
        self.http_port: int | None = None


# Yields what to ask next, and is sent its answer; bytes are for the client at once. Returns the
# rest of the answer for the client.
Asking = Generator[AskSlice | CheckHere | bytes, bytes, bytes]


def merge(command: Command, placement: Placement, counts: RouterCounts) -> Asking:
    """Return the steps of a request that no slice can answer alone."""
    if isinstance(command, Fetch):
        return _fetch(command, placement)
    assert isinstance(command, Plain)
    if command.verb == b"stats" and not command.words:
        return _stats(command, placement, counts)
    return MERGED[command.verb](command, placement)


def _fetch(command: Fetch, placement: Placement) -> Asking:
    verb = b"gets" if command.targets[0].numbered else b"get"
    for target in command.targets:
        raw = b"%b %b\r\n" % (verb, target.raw)
        answer = yield AskSlice(placement.slice_of(target.name), raw)
        if not answer.endswith(END):
            return answer
        yield answer.removesuffix(END)
    return END


def _ask_all(command: Plain, placement: Placement, until_end: bool = False) -> Generator[
    AskSlice | CheckHere | bytes, bytes, list[bytes]
]:  # fmt: skip
    """Return the answers of all slices, or the first error alone; all are asked in any case."""
    raw = b" ".join([command.verb, *command.words]) + b"\r\n"
    answers = []
    for number in range(1, placement.slices + 1):
        answers.append((yield AskSlice(number, raw, until_end)))
    return [each for each in answers if is_refusal(each.rstrip())][:1] or answers


def _alike(command: Plain, placement: Placement) -> Asking:
    """Return what all slices say, or the first that says something else than that it is up."""
    answers = yield from _ask_all(command, placement)
    return next((each for each in answers if each not in _UP), answers[0])


def _reload(command: Plain, placement: Placement) -> Asking:
    """Let every slice take the configuration, or none. The router takes it after them."""
    checked = yield from _ask_all(Plain(command.verb, [b"check"]), placement)
    if is_refusal(checked[0].rstrip()):
        return checked[0]
    if refused := (yield _CHECK_HERE):
        return refused
    answers = yield from _ask_all(command, placement)
    if is_refusal(answers[0].rstrip()):  # the file has changed since, or a queue
        return b"SERVER_ERROR not reloaded in every slice: " + answers[0].partition(b" ")[2]
    return answers[0]


def _sum(command: Plain, placement: Placement) -> Asking:
    answers = yield from _ask_all(command, placement)
    if not all(each.strip().isdigit() for each in answers):
        return answers[0]
    return b"%d\r\n" % sum(map(int, answers))


def _in_turn(command: Plain, placement: Placement) -> Asking:
    """Return the blocks of all slices by name. A request that names queues asks each one's slice,
    and has its blocks in the order of those names."""
    if not command.words or command.verb == b"stats":
        answers = yield from _ask_all(command, placement, until_end=True)
        if len(answers) == placement.slices:
            found: list[Block] = []
            for answer in answers:
                lines = answer.removesuffix(END).splitlines(keepends=True)
                listed = _LISTED.get(command.words[0]) if command.words else None
                found += blocks_of_facts(lines, listed) if listed else _blocks_of_dump(lines)
            return b"".join([*_by_name(found), END])
    else:
        answers = []
        for name in command.words:
            raw = b"%b %b\r\n" % (command.verb, name)
            answer = yield AskSlice(placement.slice_of(name), raw, until_end=True)
            if is_refusal(answer.rstrip()):
                return answer
            answers.append(answer)
    return _joined(answers)


def _stats(command: Plain, placement: Placement, counts: RouterCounts) -> Asking:
    answers = yield from _ask_all(command, placement)
    if len(answers) < placement.slices:
        return answers[0]
    figures: dict[bytes, list[bytes]] = {}
    queues: list[Block] = []
    for answer in answers:
        lines = answer.removesuffix(END).splitlines(keepends=True)
        own = next((at for at, line in enumerate(lines) if _is_of_a_queue(line)), len(lines))
        for line in lines[:own]:
            _, name, word = line.split(None, 2)
            figures.setdefault(name, []).append(word.rstrip())
        queues += blocks_of_facts(lines[own:], _OF_QUEUES)
    figures[b"refused_noreply"].append(b"%d" % counts.refused_noreply)
    figures[b"curr_connections"] = [b"%d" % counts.connections]
    figures[b"total_connections"] = [b"%d" % counts.connections_total]
    figures[b"http_port"] = [b"-" if counts.http_port is None else b"%d" % counts.http_port]
    merged = [b"STAT %b %b\r\n" % (name, merged_word(name, each)) for name, each in figures.items()]
    return b"".join([*merged, *_by_name(queues), END])


def _joined(answers: list[bytes]) -> bytes:
    """Return answers as one: each but the last without its END."""
    if not answers[-1].endswith(END):
        return answers[-1]
    return b"".join([*(each.removesuffix(END) for each in answers), END])


def _worst(words: list[bytes]) -> bytes:
    known: dict[bytes, int] = {each.encode(): at for at, each in enumerate(HEALTH_STATES)}
    return max(words, key=lambda word: known.get(word, 1))


def _least(words: list[bytes]) -> bytes:
    return min(words, key=int)


def _most(words: list[bytes]) -> bytes:
    return max(words, key=int)


Block = tuple[bytes, bytes]  # the name of a queue or a schedule, and its lines


class Listed(NamedTuple):
    """How a queue or a schedule is listed: `begin`, its name, and one of `fields` in each line.
    With `has_reason` the last field is not in every block."""

    begin: bytes
    fields: tuple[str, ...]
    has_reason: bool = False


_OF_QUEUES: Final = Listed(_QUEUE, QueueFacts._fields, has_reason=True)
_LISTED: Final = {
    b"markers": Listed(_QUEUE, MarkerFacts._fields),
    b"schedules": Listed(b"STAT schedule_", ScheduleFacts._fields),
}  # fmt: skip


def blocks_of_facts(lines: list[bytes], listed: Listed) -> Iterator[Block]:
    """Yield what is listed with its lines, which are counted: one name may begin as another."""
    first, last = f"_{listed.fields[0]}".encode(), f"_{listed.fields[-1]} ".encode()
    least, at = len(listed.fields) - listed.has_reason, 0
    while at < len(lines):
        name = lines[at].split()[1].removeprefix(listed.begin.removeprefix(_FACT))
        name, end = name.removesuffix(first), at + least
        if end < len(lines) and listed.has_reason:
            end += lines[end].startswith(listed.begin + name + last)
        yield name, b"".join(lines[at:end])
        at = end


def _blocks_of_dump(lines: list[bytes]) -> Iterator[Block]:
    begins = [at for at, line in enumerate(lines) if line.startswith(_DUMPED)]
    for at, end in pairwise([*begins, len(lines)]):
        yield lines[at].split(b"'")[1], b"".join(lines[at:end])


def _by_name(blocks: list[Block]) -> list[bytes]:
    return [block for _, block in sorted(blocks)]


def _is_of_a_queue(line: bytes) -> bool:
    return line.startswith(_QUEUE) and not line.startswith(_OF_SERVER)


# Figures of the server that begin as those of a queue do.
_OF_SERVER: Final = (b"STAT queue_creates ", b"STAT queue_deletes ", b"STAT queue_expires ")
# Figures that are no sums.
_WORDS: Final[dict[bytes, Callable[[list[bytes]], bytes]]] = {
    b"uptime": _least, b"time": _most, b"health": _worst, b"http_port": lambda words: words[0],
    b"version": lambda words: words[0], b"server_id": b",".join, b"health_reason": b";".join,
}  # fmt: skip


def merged_word(name: bytes, words: list[bytes]) -> bytes:
    """Return a figure of the whole, of those of the slices."""
    rule = _WORDS.get(name)
    return b"%d" % sum(map(int, words)) if rule is None else rule(words)


MERGED: Final[dict[bytes, Callable[[Plain, Placement], Asking]]] = {
    b"stats": _in_turn, b"flush_all": _alike, b"flush_all_expired": _sum, b"dump_stats": _in_turn,
    b"dump_config": _in_turn, b"status": _alike, b"reload": _reload,
}  # fmt: skip
