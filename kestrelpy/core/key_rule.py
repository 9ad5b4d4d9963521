"""The key of an item: named by its producer, or found in its body.

    set q/key=A,B      ──▶ the values A and B ──┐
    the body, by rule  ──▶ its fields' values ──┴─▶ sorted if `unordered` ──▶ the item's key

One rule: a key is decided once, when its item is stored, and the item's record carries it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from journal.format import KEY_BYTES_MAX, join
from kestrelpy.errors import ClientError

NO_KEY: Final = b""


class KeyRule(Protocol):
    """A rule that finds the key of a message in its body."""

    def values(self, body: bytes) -> list[bytes]:
        """Return the canonical values of the key fields; empty: the message has no key.

        Raise ValueError with a clause that lacks its subject: `does not parse as JSON: ...`.
        """


@dataclass(frozen=True, slots=True)
class KeySettings:
    """How a queue's items get their keys, and which keys match.

    With `rule` None only producers name keys. The settings change only while the queue is empty:
    keys made under other settings would not match.
    """

    rule: KeyRule | None = None
    matches_any: bool = False
    unordered: bool = False

    def key_of(self, queue: bytes, named: tuple[bytes, ...], body: bytes) -> bytes:
        """Return the canonical key of an item; NO_KEY: it has none. Raise ClientError.

        `named` are the canonical values that the producer names; they win over the body's.
        """
        if len(named) == 1 and len(named[0]) <= KEY_BYTES_MAX:
            return named[0]  # the usual case
        values: tuple[bytes, ...] | list[bytes] = named
        if not named and self.rule is not None:
            try:
                values = self.rule.values(body)
            except ValueError as error:
                raise ClientError(f"queue {_word(queue)}: the message {error}") from None
        key = join(values, self.unordered)
        if len(key) > KEY_BYTES_MAX:
            raise ClientError(
                f"queue {_word(queue)}: key too long ({len(key)} bytes, limit {KEY_BYTES_MAX})"
            )
        return key


NAMED_ONLY: Final = KeySettings()


def _word(queue: bytes) -> str:
    return queue.decode("ascii", "backslashreplace")
