"""The ids of messages, markers and claims, as clients see them.

    message  1789000000-7          generation of the queue, number of the item
    marker   1789000000-7[-9]      the marker looked at last; with delayed ones: the last of these
    claim    1048577-20            the first token, and how many follow each other

One rule: an id of an earlier queue of the name is no id of the present one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

CLAIMED_MAX: Final = 20
_NUMBER_BELOW: Final = 1 << 53
_DIGITS_MAX: Final = 16


class MessageId(NamedTuple):
    """The number of an item in a queue of this generation."""

    generation: int
    number: int

    def __str__(self) -> str:
        return f"{self.generation}-{self.number}"


class Marker(NamedTuple):
    """How far a client has looked: up to a marker, and up to a delayed message."""

    generation: int
    number: int
    delayed: int = 0

    def __str__(self) -> str:
        more = f"-{self.delayed}" if self.delayed else ""
        return f"{self.generation}-{self.number}{more}"


class ClaimId(NamedTuple):
    """`size` tokens from `first` on."""

    first: int
    size: int

    def __str__(self) -> str:
        return f"{self.first}-{self.size}"

    def __contains__(self, token: object) -> bool:
        return isinstance(token, int) and self.first <= token < self.first + self.size

    @property
    def tokens(self) -> range:
        """Its tokens."""
        return range(self.first, self.first + self.size)


def message_id(text: str) -> MessageId | None:
    """Return the id; None: no message has such an id."""
    numbers = _numbers(text, 2)
    return MessageId(*numbers) if numbers and len(numbers) == 2 and numbers[1] else None


def marker(text: str) -> Marker | None:
    """Return the marker; None: it is rubbish."""
    numbers = _numbers(text, 3)
    return Marker(*numbers) if numbers and len(numbers) > 1 else None


def claim_id(text: str) -> ClaimId | None:
    """Return the claim's id; None: no claim has such an id."""
    numbers = _numbers(text, 2)
    if not numbers or len(numbers) != 2:
        return None
    first, size = numbers
    return ClaimId(first, size) if first and 0 < size <= CLAIMED_MAX else None


def _numbers(text: str, most: int) -> list[int]:
    """Return the numbers between the dashes; empty: they are none."""
    parts = text.split("-", most)
    if len(parts) > most:
        return []
    for part in parts:
        if not (part.isascii() and part.isdigit() and len(part) <= _DIGITS_MAX):
            return []
    numbers = [int(part) for part in parts]
    return numbers if max(numbers) < _NUMBER_BELOW else []
