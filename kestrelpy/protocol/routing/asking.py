"""The steps of a request that more than one slice answers.

    AskSlice      one slice, and then its answer
    AskAtOnce     several slices at the same time, until one of them has an item
    CheckHere     the router itself

One rule: a generator of steps decides what is asked next; the conversation carries it out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from kestrelpy.protocol.routing.answer_ends import END

VALUE: Final = b"VALUE "


class AskSlice(NamedTuple):
    """A request for one slice; with `until_end` its answer has lines of any kind before END."""

    slice: int
    raw: bytes
    until_end: bool = False


class AskAtOnce:
    """The same wait in several slices. The first item, or refusal, ends the waits of the others;
    `answers` are those of all slices, in the order in which they came. `is_held`: an item that
    comes is the connection's, and a slice that dies takes it back."""

    __slots__ = ("_begun", "_is_held", "_is_told", "answers", "open", "raw")

    def __init__(self, slices: list[int], raw: bytes, is_held: bool) -> None:
        self.raw: Final = raw
        self._is_held = is_held
        self.open: Final = dict.fromkeys(slices)  # those that owe their answer
        self.answers: Final[dict[int, bytes]] = {}
        self._begun: dict[int, list[bytes]] = {}
        self._is_told = False  # True if the waits have been ended

    def note(self, slice_: int, piece: bytes, is_whole: bool) -> None:
        """Note a piece of the answer of a slice."""
        self._begun.setdefault(slice_, []).append(piece)
        if is_whole and slice_ in self.open:
            del self.open[slice_]
            self.answers[slice_] = b"".join(self._begun.pop(slice_))

    def fail(self, slice_: int, error: bytes) -> None:
        """Note that a slice is gone before all of its answer has come."""
        self._begun.pop(slice_, None)
        self.note(slice_, error, True)

    def holds(self, slice_: int) -> bool:
        """True if an item of this slice is the connection's."""
        return self._is_held and self.answers.get(slice_, b"").startswith(VALUE)

    def to_tell(self, is_over: bool) -> list[int]:
        """Return the slices whose waits end now: there is an answer, or the client `is_over`."""
        is_over = is_over or any(each != END for each in self.answers.values())
        if self._is_told or not is_over:
            return []
        self._is_told = True
        return [*self.open]


class CheckHere:
    """A step that is the router's: it checks whether it would refuse the configuration."""


# Yields what to ask next, and is sent its answer; bytes are for the client at once. Returns the
# rest of the answer for the client.
Asking = Generator[AskSlice | AskAtOnce | CheckHere | bytes, bytes, bytes]
