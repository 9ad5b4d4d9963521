"""The conditions of a set: ids, versions, and the item it confirms in the same step.

    set jobs/id=4711                         unless that id was seen within the window
    set jobs/id=4711/scope=s1/epoch=7        ids of a scope's newest epoch only
    set acc/key=A/expect=3                   if three items were written under A
    set done/confirm                         and confirm the item that this connection has open
    set done/confirm=jobs:1048577            and confirm the item of this token
    set jobs/<name>=<text>                   with a text of `journal.format.kinds.ITEM_TEXTS`

One rule: options that do not go together are refused with those that do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from journal.format import SENT_TEXTS, ItemHeader
from kestrelpy.durations import shown
from kestrelpy.errors import ClientError
from kestrelpy.operations import check_name, texts_sent
from kestrelpy.protocol.parse.option_values import MARKER_BELOW, TOKEN_BELOW

_TEXTS: Final = tuple(row.name for row in SENT_TEXTS)
WORDS: Final = frozenset({"id", "scope", "epoch", "expect", "confirm", *_TEXTS})
_DIGITS_MAX: Final = 16


class Handoff(NamedTuple):
    """The item confirmed by a set; an empty queue means the one that this connection has open."""

    queue: bytes
    token: int


class Once(NamedTuple):
    """`header` has the id and the texts, None if there are none; None: the option is absent."""

    header: ItemHeader | None = None
    expected: int | None = None
    handoff: Handoff | None = None


NOTHING: Final = Once()


def parse_once(values: Mapping[str, str | None], raw: Mapping[str, bytes]) -> Once:
    """Parse these options, each of them `raw` as it was sent; raise ClientError."""
    id_ = _text("id", raw) if "id" in values else b""
    scope = _text("scope", raw) if "scope" in values else b""
    epoch = parse_whole("epoch", values["epoch"]) if "epoch" in values else 0
    if ("scope" in values) != ("epoch" in values):
        there, missing = ("scope", "epoch") if "scope" in values else ("epoch", "scope")
        raise ClientError(
            f"option {there} needs {missing}, for instance jobs/id=4711/scope=s1/epoch=7"
        )
    if scope and not id_:
        raise ClientError(
            "option scope needs id, for instance jobs/id=4711/scope=s1/epoch=7"
        )
    expected = parse_whole("expect", values["expect"]) if "expect" in values else None
    if expected is not None and "key" not in values:
        raise ClientError("option expect needs key, for instance acc/key=A/expect=3")
    handoff = None
    if "confirm" in values:
        _, equals, value = raw["confirm"].partition(b"=")
        handoff = parse_handoff(value) if equals else Handoff(b"", 0)
    texts = texts_sent({word: _text(word, raw) for word in _TEXTS if word in values})
    header = ItemHeader(id_, scope, epoch, texts=texts) if id_ or texts else None
    return Once(header, expected, handoff)


def parse_whole(word: str, text: str | None) -> int:
    """Return a number that may be 0; raise ClientError."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > _DIGITS_MAX:
        was = "needs a value" if text is None else f"is {shown(text)}"
    elif int(text) < MARKER_BELOW:
        return int(text)
    else:
        was = f"is {text}"
    raise ClientError(
        f"option {word} {was}: it must be a whole number from 0 to {MARKER_BELOW - 1}"
    )


def parse_version(word: bytes) -> int:
    """Return the version that a cas expects; raise ClientError."""
    if not word.isdigit() or len(word) > _DIGITS_MAX or int(word) >= MARKER_BELOW:
        raise ClientError(
            "bad version: a whole number is allowed, how many items were written under the key"
        )
    return int(word)


def parse_handoff(value: bytes) -> Handoff:
    """Return the lease that `confirm=<queue>:<token>` names; raise ClientError."""
    queue, colon, number = unquote_to_bytes(value).rpartition(b":")
    if not colon:
        raise ClientError(
            "option confirm names a queue and a token, for instance confirm=jobs:1048577, or "
            "nothing: the item that this connection has open"
        )
    check_name(queue)
    token = int(number) if number.isdigit() and len(number) <= _DIGITS_MAX else 0
    if not 0 < token < TOKEN_BELOW:
        raise ClientError(
            "option confirm: its token, after the last colon, must be the number that gets q/open "
            f"answered, from 1 to {TOKEN_BELOW - 1}"
        )
    return Handoff(queue, token)


def refuse_verb(verb: bytes, once: Once, key: tuple[bytes, ...]) -> None:
    """Raise ClientError for an option that does not go with this verb."""
    word = verb.decode()
    if once.expected is not None and verb != b"set":
        raise ClientError(f"option expect goes with set, and {word} says itself what it expects")
    if not key and verb in (b"cas", b"replace"):
        version = " <version>" if verb == b"cas" else ""
        raise ClientError(
            f"{word} needs key=, for instance {word} acc/key=A <flags> <expiry> <bytes>{version}"
        )


def _text(word: str, raw: Mapping[str, bytes]) -> bytes:
    value = unquote_to_bytes(raw[word].partition(b"=")[2])
    if not value:
        raise ClientError(f"option {word} needs a value, for instance {word}=4711")
    return value
