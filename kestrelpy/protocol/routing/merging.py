"""Requests that several slices answer, and the one answer that the router makes of theirs.

    stats                 the figures of the server are added up, and all queues follow by name,
                          each with its slice, and in a fleet with the member that owns that
    flush_all             OK when each slice has said so
    flush_all_expired     the sum
    reload                each slice checks it, then the router; then each slice takes it
    dump_stats, dump_config, stats markers, stats schedules      all blocks of them by name

One rule: an error of a slice is the answer, after the items that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from kestrelpy.operations import MarkerFacts, QueueFacts, ScheduleFacts
from kestrelpy.protocol.parse import Plain
from kestrelpy.protocol.routing import sums
from kestrelpy.protocol.routing.answer_ends import END
from kestrelpy.protocol.routing.asking import Asking, AskSlice, CheckHere
from kestrelpy.protocol.routing.sliced_queues import SlicedQueues
from kestrelpy.wire.refusals import is_refusal

_UP: Final = (b"UP\r\n", b":UP\n")  # and on the text port
_FACT: Final = b"STAT "
_QUEUE: Final = b"STAT queue_"
_DUMPED: Final = b"queue '"


_CHECK_HERE: Final = CheckHere()


class RouterCounts:
    """What the router counts itself, since its start; `connections` are those of now. `http_port`
    is where it listens, None: nowhere."""

    __slots__ = ("connections", "connections_total", "http_port", "refused_noreply")

    def __init__(self) -> None:
        self.connections = self.connections_total = self.refused_noreply = 0
        self.http_port: int | None = None


def merge(command: Plain, queues: SlicedQueues, counts: RouterCounts) -> Asking:
    """Return the steps of a request that no slice can answer alone."""
    if command.verb == b"stats" and not command.words:
        return _stats(command, queues, counts)
    return MERGED[command.verb](command, queues)


def _ask_all(
    command: Plain, queues: SlicedQueues, until_end: bool = False
) -> Generator[AskSlice, bytes, list[bytes]]:
    """Return the answers of all slices, or the first error alone; all are asked in any case."""
    raw = b" ".join([command.verb, *command.words]) + b"\r\n"
    answers = []
    for number in queues.slices:
        answers.append((yield AskSlice(number, raw, until_end)))
    return [each for each in answers if is_refusal(each.rstrip())][:1] or answers


def _alike(command: Plain, queues: SlicedQueues) -> Asking:
    """Return what all slices say, or the first that says something else than that it is up."""
    answers = yield from _ask_all(command, queues)
    return next((each for each in answers if each not in _UP), answers[0])


def _reload(command: Plain, queues: SlicedQueues) -> Asking:
    """Let every slice take the configuration, or none. The router takes it after them."""
    checked = yield from _ask_all(Plain(command.verb, [b"check"]), queues)
    if is_refusal(checked[0].rstrip()):
        return checked[0]
    if refused := (yield _CHECK_HERE):
        return refused
    answers = yield from _ask_all(command, queues)
    if is_refusal(answers[0].rstrip()):  # the file has changed since, or a queue
        return b"SERVER_ERROR not reloaded in every slice: " + answers[0].partition(b" ")[2]
    return answers[0]


def _sum(command: Plain, queues: SlicedQueues) -> Asking:
    answers = yield from _ask_all(command, queues)
    if not all(each.strip().isdigit() for each in answers):
        return answers[0]
    return b"%d\r\n" % sum(map(int, answers))


def _in_turn(command: Plain, queues: SlicedQueues) -> Asking:
    """Return the blocks of all slices by name. A request that names queues asks each one's slice,
    and has its blocks in the order of those names."""
    if not command.words or command.verb == b"stats":
        answers = yield from _ask_all(command, queues, until_end=True)
        if len(answers) == len(queues.slices):
            found: list[Block] = []
            for answer in answers:
                lines = answer.removesuffix(END).splitlines(keepends=True)
                listed = _LISTED.get(command.words[0]) if command.words else None
                found += blocks_of_facts(lines, listed) if listed else _blocks_of_dump(lines)
            whole = _first if listed or command.verb == b"dump_config" else sums.of_dump
            return b"".join([*_by_name(found, whole).values(), END])
    else:
        answers = []
        for name in command.words:
            raw = b"%b %b\r\n" % (command.verb, name)
            is_sum = command.verb == b"dump_stats" and queues.has(name)
            each = queues.slices if is_sum else [queues.placement.slice_of(name)]
            blocks = []
            for number in each:
                answer = yield AskSlice(number, raw, until_end=True)
                if is_refusal(answer.rstrip()):
                    return answer
                blocks.append(answer)
            answers.append(sums.of_dump(blocks) + END if is_sum else blocks[0])
    return _joined(answers)


def _stats(command: Plain, queues: SlicedQueues, counts: RouterCounts) -> Asking:
    answers = yield from _ask_all(command, queues)
    if len(answers) < len(queues.slices):
        return answers[0]
    figures: dict[bytes, list[bytes]] = {}
    found: list[Block] = []
    for answer in answers:
        lines = answer.removesuffix(END).splitlines(keepends=True)
        own = next((at for at, line in enumerate(lines) if _is_of_a_queue(line)), len(lines))
        for line in lines[:own]:
            _, name, word = line.split(None, 2)
            figures.setdefault(name, []).append(word.rstrip())
        found += blocks_of_facts(lines[own:], _OF_QUEUES)
    figures[b"refused_noreply"].append(b"%d" % counts.refused_noreply)
    figures[b"curr_connections"] = [b"%d" % counts.connections]
    figures[b"total_connections"] = [b"%d" % counts.connections_total]
    figures[b"http_port"] = [b"-" if counts.http_port is None else b"%d" % counts.http_port]
    merged = [b"STAT %b %b\r\n" % (name, merged_word(name, each)) for name, each in figures.items()]
    rows = _by_name(found, _whole_stats).items()
    return b"".join([*merged, *(_with_place(name, lines, queues) for name, lines in rows), END])


def _with_place(name: bytes, lines: bytes, queues: SlicedQueues) -> bytes:
    """Return the lines of a queue with its place after the first: its state remains the last."""
    first, end, rest = lines.partition(b"\n")
    place = [
        b"STAT queue_%b_%b %b\r\n" % (name, *pair) for pair in queues.place_of(name).items()
    ]
    return b"".join([first, end, *place, rest])


def _joined(answers: list[bytes]) -> bytes:
    """Return answers as one: each but the last without its END."""
    if not answers[-1].endswith(END):
        return answers[-1]
    return b"".join([*(each.removesuffix(END) for each in answers), END])


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


def _by_name(
    blocks: list[Block], whole: Callable[[list[bytes]], bytes]
) -> dict[bytes, bytes]:
    """Return the blocks by name. Several of one name are those of a sliced queue, and `whole` makes
    one of them."""
    found = dict[bytes, list[bytes]]()
    for name, block in sorted(blocks, key=itemgetter(0)):
        found.setdefault(name, []).append(block)
    return {
        name: each[0] if len(each) == 1 else whole(each) for name, each in found.items()
    }


def _whole_stats(blocks: list[bytes]) -> bytes:
    return b"".join(sums.of_stats(blocks))


def _first(blocks: list[bytes]) -> bytes:
    return blocks[0]


def _is_of_a_queue(line: bytes) -> bool:
    return line.startswith(_QUEUE) and not line.startswith(_OF_SERVER)


# Figures of the server that begin as those of a queue do.
_OF_SERVER: Final = (b"STAT queue_creates ", b"STAT queue_deletes ", b"STAT queue_expires ")
# Figures that are no sums.
_WORDS: Final[dict[bytes, Callable[[list[bytes]], bytes]]] = {
    b"uptime": _least, b"time": _most, b"health": sums.worst, b"http_port": lambda words: words[0],
    b"version": lambda words: words[0], b"server_id": b",".join, b"health_reason": b";".join,
}  # fmt: skip


def merged_word(name: bytes, words: list[bytes]) -> bytes:
    """Return a figure of the whole, of those of the slices."""
    rule = _WORDS.get(name)
    return b"%d" % sum(map(int, words)) if rule is None else rule(words)


MERGED: Final[dict[bytes, Callable[[Plain, SlicedQueues], Asking]]] = {
    b"stats": _in_turn, b"flush_all": _alike, b"flush_all_expired": _sum, b"dump_stats": _in_turn,
    b"dump_config": _in_turn, b"status": _alike, b"reload": _reload,
}  # fmt: skip
