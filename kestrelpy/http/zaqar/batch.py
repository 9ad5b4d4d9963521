"""The body of a post: its messages, checked as a whole before the first is stored.

    {"messages": [{"ttl": 300, "body": {…}}, …]} ──▶ Batch ──▶ no member twice ──▶ checked

One rule: the body of a message is never inspected.
"""

from __future__ import annotations

from collections.abc import Generator
from re import compile as pattern
from typing import Any, Final

import msgspec

from kestrelpy.http.answers import HttpError
from kestrelpy.http.routing import of_msgspec
from kestrelpy.http.values import members, refuse_half_characters, refuse_repeated
from kestrelpy.http.zaqar.metadata import DELAY_MAX, TTL_MAX, TTL_MIN, Metadata
from kestrelpy.operations import PAUSE

_CHECKED_PER_SLICE: Final = 2000
_ESCAPED_LETTERS: Final = (b"\\u006", b"\\u007")
_INT64_DIGITS: Final = 19
_MANY_DIGITS: Final = pattern(rb"[0-9]{%d}" % _INT64_DIGITS)


class Posted(msgspec.Struct, forbid_unknown_fields=True):
    """One message as it is posted."""

    body: msgspec.Raw = msgspec.Raw()
    ttl: int | None = None
    delay: int | None = None


class PostedBatch(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a post."""

    messages: list[Posted]


class _Envelopes(msgspec.Struct):
    """The body of a post, its messages unread."""

    messages: list[msgspec.Raw]


def batch_of(body: bytes) -> PostedBatch:
    """Return the batch; raise HttpError. The caller looks whether a member is there twice."""
    try:
        batch = msgspec.json.decode(body, type=PostedBatch)
        if _MANY_DIGITS.search(body):
            _check_numbers(msgspec.json.decode(body))
    except RecursionError:
        raise HttpError(400, "the body is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        refuse_half_characters(body)  # msgspec does not name them
        raise HttpError(400, of_msgspec(str(error), PostedBatch)) from None
    return batch


def _check_numbers(value: Any) -> None:
    """Raise HttpError for an integer beyond 64 bits."""
    rest = [value]
    while rest:
        each = rest.pop()
        if isinstance(each, dict):
            rest += each.values()
        elif isinstance(each, list):
            rest += each
        elif isinstance(each, int) and not -(1 << 63) <= each < 1 << 63:
            raise HttpError(400, f"{each} does not fit into 64 bits")


def may_repeat(body: bytes, batch: PostedBatch) -> bool:
    """True if a member of the batch or of a message may be there twice. Members within the bodies
    do not count, but may look the same."""
    if body.count(b'"messages"') != 1 or any(each in body for each in _ESCAPED_LETTERS):
        return True
    messages = batch.messages
    return (
        body.count(b'"body"') > len(messages)
        or body.count(b'"ttl"') > sum(each.ttl is not None for each in messages)
        or body.count(b'"delay"') > sum(each.delay is not None for each in messages)
    )


def refuse_repeats(body: bytes) -> Generator[bytes, None, None]:
    """Raise HttpError if a member of the batch or of one of its messages is there twice."""
    try:
        refuse_repeated(members(body.decode().strip()))
        found = msgspec.json.decode(body, type=_Envelopes).messages
        for at, each in enumerate(found, 1):
            refuse_repeated(members(bytes(each).decode()))
            if not at % _CHECKED_PER_SLICE:
                yield PAUSE
    except (RecursionError, ValueError):
        raise HttpError(400, "the body is nested too deeply") from None


def checked(
    messages: list[Posted], meta: Metadata
) -> Generator[bytes, None, list[tuple[bytes, int, int]]]:
    """Return the body, the ttl and the delay of each, in seconds; raise HttpError."""
    found = list[tuple[bytes, int, int]]()
    for at, each in enumerate(messages):
        ttl = meta["_default_message_ttl"] if each.ttl is None else each.ttl
        delay = meta["_default_message_delay"] if each.delay is None else each.delay
        body = bytes(each.body)
        if not body:
            raise HttpError(400, f"message {at} has no body")
        if not TTL_MIN <= ttl <= TTL_MAX:
            raise HttpError(400, f"ttl is {ttl}: {TTL_MIN} to {TTL_MAX} seconds are allowed")
        if not 0 <= delay <= DELAY_MAX:
            raise HttpError(400, f"delay is {delay}: 0 to {DELAY_MAX} seconds are allowed")
        if ttl <= delay:
            raise HttpError(400, f"message {at} would expire after {ttl} s, before it is due")
        found.append((body, ttl, delay))
        if at % _CHECKED_PER_SLICE == _CHECKED_PER_SLICE - 1:
            yield PAUSE
    return found
