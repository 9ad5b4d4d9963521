"""Reading in bulk beside reading record by record, for tests that hold the two equal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from journal.errors import Damage, NewerFormat
from journal.files import Files
from journal.format.key import as_text
from journal.format.kinds import Kind, Tag
from journal.format.meta import decode_meta, ended_bytes
from journal.format.record import Record
from kestrelpy.spark.files import decode
from kestrelpy.spark.files.plan import History
from kestrelpy.spark.files.plan_events import plan_events
from kestrelpy.spark.files.split import NO_LIMITS, RowLimits
from kestrelpy.spark.schema import DEFAULT, EXTRA, OP_WORDS, Selection

EVERYTHING = Selection("events", (*DEFAULT["events"], *EXTRA["events"]))
# The columns that a record has by itself; the others are those of its split.
OWN = tuple(
    name
    for name in EVERYTHING.names
    if name not in ("server", "queue", "generation", "journal", "reader")
)
_BEGAN = (Kind.DONE, Kind.RETURNED, Kind.DEAD, Kind.MOVED)
_TOLD = (Kind.FLUSHED, Kind.UPTO, Kind.READER)
_ENDED = (Kind.DONE, Kind.EXPIRED, Kind.DISCARDED, Kind.CANCELLED)


@dataclass
class Bulk:
    """The result of a read in bulk."""

    history: History
    rows: list[dict[str, Any]] = field(default_factory=list)
    damages: list[Damage] = field(default_factory=list)

    @property
    def lsns(self) -> list[int]:
        return [row["lsn"] for row in self.rows]


def in_bulk(
    files: Files, *paths: str, chosen: Selection = EVERYTHING, limits: RowLimits = NO_LIMITS
) -> Bulk:
    """Plan, and read every piece."""
    history = plan_events(paths, files)
    made = Bulk(history, damages=list(history.damages))
    for split in history.splits:
        for batch in decode.read(split, chosen, made.damages.append, limits, files):
            batch.validate(full=True)
            assert batch.schema == chosen.arrow
            made.rows += batch.to_pylist()
    return made


def own(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return the columns of a row that depend on its record alone; times are milliseconds."""
    return tuple(_plain(row[name]) for name in OWN)


def expected(record: Record, version: int = 2) -> tuple[Any, ...]:
    """Return the same columns for a record that was read by itself."""
    kind, small = record.kind, record.small
    try:
        meta = decode_meta(record.meta)
    except (NewerFormat, ValueError):
        meta = {}
    is_put = kind == Kind.PUT
    attempts: int | None = 0 if is_put else None
    if kind == Kind.DONE or (kind == Kind.MOVED and record.number):
        attempts = max((small & 0xFF) - 1, 0)
    elif kind in (Kind.RETURNED, Kind.DEAD):
        attempts = small
    size: Any = meta.get(Tag.BYTES)
    if (kind in _ENDED and version > 1) or (kind == Kind.MOVED and version > 3):
        size = ended_bytes(small, record.meta)
    has_body = kind in (Kind.PUT, Kind.CARRIED, Kind.DECLARED)
    said = {
        "marker": (record.number if is_put else record.item) or None,
        "op": OP_WORDS[kind],
        "timestamp": record.time_ms,
        "attempts": attempts,
        "opened": (record.number or None) if kind in _BEGAN else None,
        "segment": record.segment,
        "position": record.offset,
        "value": record.body if has_body or kind in _TOLD else None,
        "item": record.item or None,
        "lsn": record.lsn,
        "reason": _text(meta.get(Tag.REASON)),
        "flags": small if is_put or kind == Kind.READER else None,
        "expires": meta.get(Tag.EXPIRES_MS) if is_put else None,
        "bytes": len(record.body) if has_body else size,
        "key": as_text(key) if isinstance(key := meta.get(Tag.KEY), bytes) else None,
        "number": record.number,
        "origin": _text(meta.get(Tag.ORIGIN)),
        "of_generation": meta.get(Tag.GENERATION),
        "target": _text(meta.get(Tag.TARGET)),
        "id": _text(meta.get(Tag.ID)),
        "scope": _text(meta.get(Tag.SCOPE)),
        "epoch": meta.get(Tag.EPOCH),
        "version": meta.get(Tag.VERSION),
        "previous": meta.get(Tag.PREVIOUS),
        "due": meta.get(Tag.DUE_MS),
        "reader_number": record.reader,
        "key_bytes": meta.get(Tag.KEY),
        "id_bytes": meta.get(Tag.ID),
        "scope_bytes": meta.get(Tag.SCOPE),
        "of_key": meta.get(Tag.OF_KEY),
    }
    return tuple(said[name] for name in OWN)


def _text(value: Any) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else None


def _plain(value: Any) -> Any:
    if hasattr(value, "timestamp"):
        return round(value.timestamp() * 1000)
    return value
