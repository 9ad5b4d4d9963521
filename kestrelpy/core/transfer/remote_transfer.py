"""One item on its way to a queue of another server, and the messages between the two servers.

    MARKING ──MOVING on disk──▶ SENT ──stored there──▶ LEFT ──MOVED on disk──▶ SETTLING ──▶ over
       │                         │ │                    ▲                         (told, and known)
       │                         │ └─ no answer ──▶ IN_DOUBT
       └── nothing was sent ─────┴── refused ──▶ returned ◀── not there ──┘

After a restart an item with MOVING and no end is IN_DOUBT.

One rule: an item that may be in the other server returns only when that server has said, for good,
that it is not there.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from journal.format import ItemHeader, ItemTexts, Origin
from kestrelpy.core.index import Former, Lease
from kestrelpy.core.item import Item
from kestrelpy.core.queue import AnyQueue
from kestrelpy.core.transfer.request import TransferRequest
from kestrelpy.errors import Refused


class RemoteState(IntEnum):
    """The state of a transfer to another server."""

    MARKING = 0  # its MOVING record may not be on disk yet
    SENT = 1  # sent, and not answered
    IN_DOUBT = 2  # sent, and no answer will come
    LEFT = 3  # the copy is on disk there, the end of the original may not be
    SETTLING = 4  # the original is gone; the other server may not know it


class Letter(NamedTuple):
    """An item as it is sent: a copy of it, or what replaces it in a hand-off.

    `life_ms` is as in `TransferTarget.receive`, `key` canonical. With `terms` it is a hand-off:
    they are the conditions of its `set`, which the core does not read.
    """

    target: bytes
    origin: Origin
    body: bytes
    flags: int = 0
    expires_ms: int = 0
    life_ms: int | None = None
    key: bytes = b""
    texts: ItemTexts = ()
    terms: bytes = b""

    @property
    def item(self) -> Item:
        """The item, for the queue that gets a copy of it."""
        header = ItemHeader(texts=self.texts) if self.texts else None
        return Item(
            self.origin.item, 0, self.body, self.flags, 0, self.expires_ms, 0, self.key, header
        )


class LetterAnswer(NamedTuple):
    """What another server says of a letter: the copy is on disk; or nothing was stored, because of
    `refused`, or with the answer `word` of a `set`. `is_repeated`: an earlier `set` with its id
    was stored, so the item is done, and no origin is open."""

    copy: Origin | None = None
    refused: Refused | None = None
    word: bytes = b""
    is_repeated: bool = False


class HandOff:
    """A client's hand-off to another server. `owner` belongs to the shell, which notifies it when
    the hand-off `is_over`: with `refused`, or with the answer `word`."""

    __slots__ = ("is_abandoned", "is_over", "owner", "refused", "word")

    def __init__(self, owner: object) -> None:
        self.owner = owner
        self.is_over = False
        self.is_abandoned = False  # True if the client is gone
        self.refused: Refused | None = None
        self.word = b""

    def give_up(self, reason: str) -> None:
        """Note that the client is gone: the transfer takes its course."""
        self.is_abandoned = True

    def end(self, word: bytes = b"", refused: Refused | None = None) -> None:
        """Note the outcome."""
        self.word, self.refused, self.is_over = word, refused, True


class RemoteTransfer:
    """One transfer. `lsn` is the record that it waits for. `former` is what the client's lease was,
    if a client handed the item off. `request` is None once the request counts the item no more."""

    __slots__ = (
        "copy", "former", "handoff", "lease", "letter", "lsn", "origin", "request", "size",
        "source", "state",
    )  # fmt: skip

    def __init__(
        self, source: AnyQueue, lease: Lease, origin: Origin, letter: Letter | None, lsn: int,
        state: RemoteState, request: TransferRequest | None = None,
        handoff: HandOff | None = None, former: Former | None = None,
    ) -> None:  # fmt: skip
        self.source = source
        self.lease = lease
        self.origin = origin
        self.letter = letter  # until it is answered
        self.lsn = lsn
        self.state = state
        self.request = request
        self.handoff = handoff
        self.former = former
        self.copy: Origin | None = None
        self.size = lease.item.size

    @property
    def is_cut_off(self) -> bool:
        """True if the source was deleted, or made again since."""
        source = self.source
        current = source.child if source.child is not None else source.reader
        return source.deleted or self.lease.owner is not current
