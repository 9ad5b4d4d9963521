"""The place of a queue: which slice of the data has it.

    orders, orders+audit        the group "orders"           a child lives with its queue
    orders{7}, refunds{7}       the group "7"                what is between braces
    shop.in, shop.out           the group "shop.*"           the first pattern of [fleet] groups

A queue with `sliced = true` is in all slices. There its items have places, by their key or id, and
its lease tokens say which slice has issued them.

A slice is a data directory with one owner at a time. The hash of a group names its slice, so that
every process comes to the same place without asking.

One rule: queues of one group are in one slice, whatever the number of slices is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from hashlib import blake2b
from typing import Final

from kestrelpy.wire.names import NAME_BYTES_MAX

SLICES_MAX: Final = 64
_HASH_BYTES: Final = 8
# Tokens of a queue that is away from home begin at so many times the number of their slice: they
# stay below 2^53, and no slice issues so many.
_TOKENS_PER_SLICE: Final = 1 << 46
# Names whose slice is remembered: a client names the same few queues again and again.
_KNOWN_MAX: Final = 4096


class Placement:
    """Where queues live: among `slices` slices, which have the numbers from 1 on."""

    __slots__ = ("_known", "_patterns", "slices")

    def __init__(self, slices: int, groups: Iterable[str] = ()) -> None:
        """Each of `groups` is a pattern of queue names, in which * stands for any characters."""
        self.slices: Final = slices
        self._patterns = [(each.encode(), _expression(each)) for each in groups]
        self._known: dict[bytes, int] = {}

    @property
    def layout(self) -> str:
        """A short word that differs if any queue may have another place."""
        groups = b" ".join(pattern for pattern, _ in self._patterns)
        return blake2b(b"%d %b" % (self.slices, groups), digest_size=_HASH_BYTES).hexdigest()

    def group_of(self, name: bytes) -> bytes:
        """Return the group of a queue or a child."""
        queue = name.partition(b"+")[0]
        _, brace, rest = queue.partition(b"{")
        tag, end, _ = rest.partition(b"}")
        if brace and end and tag:
            return tag
        for pattern, expression in self._patterns:
            if expression.match(queue):
                return pattern
        return queue

    def slice_of(self, name: bytes) -> int:
        """Return the number of the slice that has a queue or a child."""
        found = self._known.get(name)
        if found is None:
            found = self._slice_by(self.group_of(name))
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            if len(name) <= NAME_BYTES_MAX:
                self._known[name] = found
        return found

    def slice_of_item(self, name: bytes, word: bytes) -> int:
        """Return the slice of an item of a sliced queue, by its key or its id."""
        return self._slice_by(b"%b\0%b" % (self.group_of(name), word))

    def first_token(self, name: bytes, number: int) -> int:
        """Return the lowest lease token of a queue in the slice of this number."""
        return 1 if self.slice_of(name) == number else number * _TOKENS_PER_SLICE

    def slice_of_token(self, name: bytes, token: int) -> int:
        """Return the slice of a sliced queue that may have issued a token."""
        number = token // _TOKENS_PER_SLICE
        return number if 1 <= number <= self.slices else self.slice_of(name)

    def _slice_by(self, word: bytes) -> int:
        digest = blake2b(word, digest_size=_HASH_BYTES).digest()
        return int.from_bytes(digest, "big") % self.slices + 1


def _expression(pattern: str) -> re.Pattern[bytes]:
    """Return a pattern as a regular expression: only * is special in it."""
    return re.compile(translate(pattern.replace("[", "[[]").replace("?", "[?]")).encode())
