"""The figures of a sliced queue, made of those of its slices.

    STAT queue_jobs_items 3 ┐
    STAT queue_jobs_items 4 ┴─▶ STAT queue_jobs_items 7

One rule: a figure is a sum, unless it has a row here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kestrelpy.operations import HEALTH_STATES

Rule = Callable[[list[bytes]], bytes]
_RANKS: Final[dict[bytes, int]] = {each.encode(): rank for rank, each in enumerate(HEALTH_STATES)}


def worst(words: list[bytes]) -> bytes:
    """Return the worst of these states."""
    return max(words, key=lambda word: _RANKS.get(word, 1))


def _most(words: list[bytes]) -> bytes:
    return max(words, key=int)


def _together(words: list[bytes]) -> bytes:
    return b";".join(dict.fromkeys(words))


_RULES: Final[dict[bytes, Rule]] = {
    b"age": _most, b"paused": _most, b"failed": _most, b"state": worst, b"reason": _together,
}  # fmt: skip


def _figure(name: bytes, words: list[bytes]) -> bytes:
    """Return a figure of the queue. `name` may begin with that of the queue."""
    rule = _RULES.get(name.rpartition(b"_")[2])
    if rule is not None:
        return rule(words)
    return b"%d" % sum(map(int, words)) if all(map(bytes.isdigit, words)) else words[0]


def of_stats(blocks: Iterable[bytes]) -> list[bytes]:
    """Return the lines of one queue, of the lines that each slice has of it."""
    found = dict[bytes, list[bytes]]()
    for block in blocks:
        for line in block.splitlines():
            _, name, word = line.split(None, 2)
            found.setdefault(name, []).append(word)
    return [b"STAT %b %b\r\n" % (name, _figure(name, words)) for name, words in found.items()]


def of_dump(blocks: Iterable[bytes]) -> bytes:
    """Return the block of one queue, of the blocks of `dump_stats` of its slices."""
    begin, found = b"", dict[bytes, list[bytes]]()
    for block in blocks:
        begin, *lines = block.splitlines()
        for line in lines:
            name, equals, word = line.strip().partition(b"=")
            if equals:
                found.setdefault(name, []).append(word)
    inside = [b"  %b=%b\r\n" % (name, _figure(name, words)) for name, words in found.items()]
    return b"".join([begin, b"\r\n", *inside, b"}\r\n"])
