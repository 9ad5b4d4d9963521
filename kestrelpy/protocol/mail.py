"""The messages between slices, as bytes: `mail <slice> <bytes>`, answered by `VA <bytes>`.

    MailBegin ──▶ MailBegun        what the sender may send from now on, and what is open here
    MailSend  ──▶ MailSent         a letter: stored, or why not
    MailGone  ──▶ MailHeard        originals that are gone on the sender's disk

One rule: an answer of another form means that the sender does not know what became of its message.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Struct

from journal.format import ItemHeader, ItemTexts, Origin
from kestrelpy.core import Arrival, Delay, Letter, LetterAnswer
from kestrelpy.errors import ClientError, ItemRefused, Refused, ServerError
from kestrelpy.operations import Terms


class MailBegin(Struct, tag="begin"):
    """The server with this id begins."""

    server: bytes


class MailBegun(Struct, tag="begun"):
    """The server with this id answers. The permit goes with each letter."""

    server: bytes
    permit: int
    arrivals: list[Arrival]


class MailSend(Struct, tag="send"):
    """A letter under a permit."""

    permit: int
    letter: Letter


class MailSent(Struct, tag="sent"):
    """The answer to a letter, see `LetterAnswer`. `kind` is the class of a refusal, `why` its text.
    """

    copy: Origin | None = None
    word: bytes = b""
    is_repeated: bool = False
    kind: str = ""
    why: str = ""

    @classmethod
    def refused(cls, refused: Refused) -> MailSent:
        """Return the answer that a letter is refused."""
        kind = next(kind for kind, made in _KINDS.items() if isinstance(refused, made))
        return cls(kind=kind, why=str(refused))

    def answer(self) -> LetterAnswer:
        """Return it as the sender's core takes it."""
        refused = _KINDS[self.kind](self.why) if self.kind else None
        return LetterAnswer(self.copy, refused, self.word, self.is_repeated)


class MailGone(Struct, tag="gone"):
    """These originals are gone."""

    origins: list[Origin]


class MailHeard(Struct, tag="heard"):
    """They are known to be gone."""


class HandOffHeader(Struct):
    """The header of the item that a hand-off stores; the other slice gives it the rest."""

    id: bytes
    scope: bytes
    epoch: int
    texts: ItemTexts
    of_key: bool


class HandOffTerms(Struct):
    """The conditions of the `set` of a hand-off, which are `Terms`; the verb decides the answers.

    Each field is named: the compiled build keeps no types in the class of a named tuple.
    """

    verb: bytes
    flags: int
    expires_ms: int
    key: tuple[bytes, ...]
    delay: Delay | None
    header: HandOffHeader | None
    expects: int | None
    only_if_empty: bool

    @classmethod
    def of(cls, verb: bytes, terms: Terms) -> HandOffTerms:
        """Return them as a letter carries them."""
        said = terms.header
        header = said and HandOffHeader(said.id, said.scope, said.epoch, said.texts, said.of_key)
        return cls(
            verb, terms.flags, terms.expires_ms, terms.key, terms.delay, header, terms.expects,
            terms.only_if_empty,
        )  # fmt: skip

    @property
    def terms(self) -> Terms:
        """Return them as they were said."""
        said = self.header
        header = None if said is None else ItemHeader(
            said.id, said.scope, said.epoch, texts=said.texts, of_key=said.of_key
        )  # fmt: skip
        return Terms(
            self.flags, self.expires_ms, self.key, self.delay, header, self.expects,
            self.only_if_empty,
        )  # fmt: skip


MailRequest = MailBegin | MailSend | MailGone
MailReply = MailBegun | MailSent | MailHeard
_KINDS: Final[dict[str, type[Refused]]] = {
    "item": ItemRefused, "server": ServerError, "client": ClientError,
}  # fmt: skip
_encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(MailRequest).decode
_reply: Final = msgspec.msgpack.Decoder(MailReply).decode
_terms: Final = msgspec.msgpack.Decoder(HandOffTerms).decode


def request_bytes(number: int, request: MailRequest) -> bytes:
    """Return a message to this slice."""
    body = _encode(request)
    return b"mail %d %d\r\n%b\r\n" % (number, len(body), body)


def request_of(body: bytes) -> MailRequest:
    """Return the message in these bytes; raise ClientError."""
    try:
        request: MailRequest = _request(body)
    except msgspec.MsgspecError as error:
        raise ClientError(f"a message that cannot be read: {error}") from None
    return request


def reply_bytes(reply: MailReply) -> bytes:
    """Return the answer to a message."""
    body = _encode(reply)
    return b"VA %d\r\n%b\r\n" % (len(body), body)


def reply_of(body: bytes) -> MailReply:
    """Return the answer in these bytes; raise ValueError."""
    try:
        reply: MailReply = _reply(body)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    return reply


def terms_bytes(verb: bytes, terms: Terms) -> bytes:
    """Return the conditions of a `set` as a letter carries them."""
    return _encode(HandOffTerms.of(verb, terms))


def terms_of(data: bytes) -> HandOffTerms:
    """Return the conditions in a letter; raise ClientError."""
    try:
        return _terms(data)
    except msgspec.MsgspecError as error:
        raise ClientError(f"a hand-off that cannot be read: {error}") from None
