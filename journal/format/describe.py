"""A record as a sentence: what `journal dump` prints and what tests compare.

One rule: a person who knows queues and not the format understands each line, and no bytes of a
client reach the terminal as control characters.
"""

from __future__ import annotations

import struct
from typing import Final

from journal.errors import NewerFormat
from journal.format.declared import declared_by
from journal.format.key import in_words, is_whole
from journal.format.kinds import OF_MANY, PUTS, TABLE, Kind, Says, Tag
from journal.format.meta import Meta, decode_meta
from journal.format.record import Record
from journal.format.segment import decode_counts
from journal.format.subscription_state import AGAIN
from journal.format.transfer import settled_by

BODY_BYTES_SHOWN: Final = 40
_IDS_SHOWN: Final = 10  # of a list of them, written out
_PIECES: Final = frozenset({Kind.LIVE, Kind.ATTEMPTS})  # of a snapshot
_WORDS: Final = {
    Says.PLACE: "place", Says.ATTEMPTS: "attempts", Says.TOKEN: "token", Says.MARKER: "marker"
}  # fmt: skip


def sentence(record: Record, body_bytes_max: int = BODY_BYTES_SHOWN) -> str:
    """Return for instance `put 1 hello` or `done 1`, with at most `body_bytes_max` bytes of a body.
    """
    try:
        kind = Kind(record.kind)
    except ValueError:
        return f"kind {record.kind} item {record.item} (not known to this version)"
    if kind == Kind.BATCH:
        return f"batch of {record.small}, synced up to {record.number}"
    words = [kind.name.lower().replace("_", " ")]
    if kind == Kind.CHECKPOINT:
        words.append(f"next item {record.item} next place {record.number}")
    elif kind == Kind.FOOTER:
        words.append(f"{record.item} records last place {record.number} live {record.small}")
    elif record.item:
        words.append(str(record.item))
    words.extend(_particulars(kind, record, body_bytes_max))
    if record.reader:
        words.append(f"reader={record.reader}")
    try:
        meta = decode_meta(record.meta)
    except (NewerFormat, ValueError) as error:
        return " ".join([*words, f"({error})"])
    return " ".join([*words, *_meta_words(meta)])


def shown(data: bytes, bytes_max: int) -> str:
    """Return bytes for a person's eye: UTF-8 where they are, escapes and dots elsewhere."""
    text = data[:bytes_max].decode("utf-8", "backslashreplace")
    text = "".join(c if c.isprintable() else "." for c in text)
    return text if len(data) <= bytes_max else f"{text}... ({len(data)} bytes)"


def flush_spared(record: Record) -> tuple[int, ...]:
    """Return the items up to the last flushed one that the flush left alone."""
    whole = len(record.body) // 8
    return struct.unpack_from(f"<{whole}Q", record.body)


def _particulars(kind: Kind, record: Record, body_bytes_max: int) -> list[str]:
    """Return what `number`, `small` and the body say, unless it is only when a delivery began."""
    if kind == Kind.DECLARED:
        settings, metadata = (shown(part, body_bytes_max) for part in declared_by(record))
        return [settings, metadata] if metadata else [settings]
    if kind in PUTS:
        return [shown(record.body, body_bytes_max)]
    words = [*_word(TABLE[kind].number, record.number), *_word(TABLE[kind].small, record.small)]
    if kind in _PIECES:
        return [f"{record.number} {'pages' if record.small else 'entries'}"]
    if kind == Kind.SEGMENTS:
        return [f"{record.small} entries, the log goes on at byte {record.number}"]
    if kind == Kind.TOKENS:
        return [f"below {record.number}"]
    if kind == Kind.READER:
        if record.small == AGAIN:
            return [f"made again behind marker {record.number}"]
        return ["takes nothing more" if record.small else f"behind marker {record.number}"]
    if kind == Kind.PAUSED:
        return ["on" if record.small else "off"]
    if kind in OF_MANY and record.body and TABLE[kind].small is not Says.COUNT:
        words.append(f"sparing {_listed(flush_spared(record))}")
    if kind == Kind.SETTLED and record.small:
        return [_listed(settled_by(record)[1:])]
    return words


def _word(says: Says, value: int) -> list[str]:
    if says is Says.COUNT:
        return [f"{value} entries"]
    return [f"{_WORDS[says]} {value}"] if says in _WORDS else []


def _listed(ids: tuple[int, ...]) -> str:
    rest = f" and {len(ids) - _IDS_SHOWN} more" if len(ids) > _IDS_SHOWN else ""
    return " ".join(map(str, ids[:_IDS_SHOWN])) + rest


def _meta_words(meta: Meta) -> list[str]:
    words = []
    for tag, value in meta.items():
        if tag == Tag.COUNTS and isinstance(value, bytes):
            counts = decode_counts(value).items()
            text = ",".join(f"{_kind_name(kind)}:{count}" for kind, count in counts)
        elif tag == Tag.KEY and isinstance(value, bytes) and is_whole(value):
            text = in_words(value)
        else:
            text = shown(value, len(value)) if isinstance(value, bytes) else str(value)
        words.append(text if tag == Tag.REASON else f"{tag.name.lower()}={text}")
    return words


def _kind_name(kind: int) -> str:
    try:
        return Kind(kind).name.lower()
    except ValueError:
        return f"kind {kind}"
