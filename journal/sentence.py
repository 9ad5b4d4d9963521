"""A record as a sentence: what `journal dump` prints and what tests compare.

One rule: a person who knows queues and not the format understands each line.
"""

from __future__ import annotations

from journal.record import Kind, Record, Tag, decode_meta

_BODY_BYTES_SHOWN = 40


def sentence(record: Record) -> str:
    """For instance `put 1 hello` or `done 1`."""
    try:
        verb = Kind(record.kind).name.lower()
    except ValueError:
        return f"kind {record.kind} item {record.item} (not known to this version)"
    words = [verb]
    if record.item:
        words.append(str(record.item))
    if record.kind == Kind.PUT:
        words.append(_shown(record.body))
    elif record.kind in (Kind.RETURNED, Kind.DEAD):
        words.append(f"attempts {record.small}")
    elif record.kind == Kind.TOKENS:
        words.append(f"below {record.number}")
    try:
        meta = decode_meta(record.meta)
    except ValueError as error:
        return " ".join([*words, f"({error})"])
    for tag, value in meta.items():
        text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)
        words.append(text if tag == Tag.REASON else f"{tag.name.lower()}={text}")
    return " ".join(words)


def _shown(body: bytes) -> str:
    text = body[:_BODY_BYTES_SHOWN].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else "." for c in text)
    return text if len(body) <= _BODY_BYTES_SHOWN else f"{text}... ({len(body)} bytes)"
