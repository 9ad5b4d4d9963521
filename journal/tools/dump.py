"""A whole journal as lines: every record that is in a segment, then the newest snapshot.

A start reads the records after the newest snapshot; a dump reads those before it as well, also of
compacted segments (their records keep their numbers, with gaps where items were done).

One rule: each record once, in order of lsn.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from journal.errors import NewerFormat
from journal.files import Files
from journal.format import BODY_BYTES_SHOWN, Kind, Record, decode_meta, flush_spared, sentence
from journal.snapshot import Snapshot, SnapshotDamaged, snapshot_lsn
from journal.tools.view import JournalView

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WantedRecords:
    """The part of a journal to be printed, and how."""

    lsn_from: int = 0
    body_bytes_max: int = BODY_BYTES_SHOWN
    as_json: bool = False


def dumped(view: JournalView, wanted: WantedRecords) -> Iterator[str]:
    """Yield the lines. Raises JournalError for a file that cannot be read."""
    for record in view.records():
        if record.lsn < wanted.lsn_from:
            continue
        if wanted.as_json:
            yield _record_json(view, record)
        else:
            yield (
                f"{record.segment:010d}:{record.offset:<9d} lsn {record.lsn}  "
                f"{utc(record.time_ms)}  {sentence(record, wanted.body_bytes_max)}"
            )
    if view.snapshot is not None:
        as_text = _snapshot_json(view, view.snapshot) if wanted.as_json else ""
        yield as_text or _snapshot_line(view.snapshot)


def snapshots(files: Files, folder: str) -> Iterator[Snapshot]:
    """Return the readable snapshots, oldest first."""
    for name in files.names(folder):
        if snapshot_lsn(name) is not None:
            path = os.path.join(folder, name)
            try:
                yield Snapshot.decode(files.read(path), path)
            except (FileNotFoundError, SnapshotDamaged):
                continue


def utc(time_ms: int) -> str:
    """Return milliseconds since 1970 as a UTC time; the bare number beyond any calendar."""
    try:
        moment = _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return str(time_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"


def _snapshot_line(snapshot: Snapshot) -> str:
    live = snapshot.live.count
    items = "1 live item" if live == 1 else f"{live} live items"
    delayed = sum(1 for _ in snapshot.delayed)
    more = f", {delayed} delayed" if delayed else ""
    return f"snapshot of lsn {snapshot.lsn}: {items}, {len(snapshot.dead)} dead{more}"


def _snapshot_json(view: JournalView, snapshot: Snapshot) -> str:
    facts = {
        "folder": os.path.basename(os.path.abspath(view.folder)),
        "snapshot": snapshot.lsn,
        "live_items": len(snapshot.live),
        "live_bytes": snapshot.live_bytes,
        "dead_items": [entry.item for entry in snapshot.dead],
        "delayed_items": {entry.item: entry.due_ms for entry in snapshot.delayed},
        "attempts": dict(snapshot.attempts.items()),
        "next_item": snapshot.checkpoint.next_item,
        "segment": snapshot.segment,
        "offset": snapshot.offset,
    }
    return json.dumps(facts)


def _record_json(view: JournalView, record: Record) -> str:
    kind = Kind(record.kind).name.lower() if record.kind in set(Kind) else record.kind
    facts: dict[str, object] = {
        "folder": os.path.basename(os.path.abspath(view.folder)),
        "segment": record.segment, "offset": record.offset, "lsn": record.lsn,
        "time_ms": record.time_ms, "kind": kind, "item": record.item, "number": record.number,
        "small": record.small, "reader": record.reader,
    }  # fmt: skip
    try:
        for tag, value in decode_meta(record.meta).items():
            facts[tag.name.lower()] = _text(value) if isinstance(value, bytes) else value
    except (NewerFormat, ValueError) as error:
        facts["meta_unreadable"] = str(error)
    if record.kind == Kind.FLUSHED:
        facts["spared"] = flush_spared(record)
    elif record.body or record.kind in {Kind.PUT, Kind.CARRIED}:
        try:
            facts["body"] = record.body.decode()
        except UnicodeDecodeError:
            facts["body_base64"] = base64.b64encode(record.body).decode()
    return json.dumps(facts)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
