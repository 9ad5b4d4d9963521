"""Which key an item has: named by its producer, or found in its body.

    set q/key=A,B      ──▶ the values A and B ──┐
    the body, by rule  ──▶ its fields' values ──┴─▶ sorted if `unordered` ──▶ the item's key

One rule: a key is decided once, when its item is stored, and stands in the record of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from journal.format.key import KEY_BYTES_MAX, join
from kestrelpy.errors import ClientError

NO_KEY: Final = b""


class KeyRule(Protocol):
    """What makes the key of a message."""

    def values(self, body: bytes) -> list[bytes]:
        """The values of its key fields, canonical; none: it is free.

        Raises ValueError, a clause without a subject: `does not parse as JSON: ...`.
        """


@dataclass(frozen=True, slots=True)
class KeySettings:
    """How a queue's items get their keys (`rule` None: named by producers only), and which match.

    They change only while the queue is empty: keys that were made otherwise would not meet.
    """

    rule: KeyRule | None = None
    matches_any: bool = False
    unordered: bool = False

    def key_of(self, queue: bytes, named: tuple[bytes, ...], body: bytes) -> bytes:
        """The key of an item, canonical; NO_KEY: it has none. Raises ClientError.

        `named` are the canonical values that the producer names; they win over the body's.
        """
        if len(named) == 1 and len(named[0]) <= KEY_BYTES_MAX:
            return named[0]  # as nearly all are
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
