"""What clients declared for a queue, in one record: settings as TOML, metadata as JSON. No I/O.

    DECLARED small 0   settings
             small 1   settings | metadata      number: the bytes of the settings

One rule: one record has both, so that a crash leaves both as they were or both as they are.
"""

from __future__ import annotations

from typing import Final

from journal.format.kinds import Kind
from journal.format.record import Draft, Record

WITH_METADATA: Final = 1


def declared_draft(settings: bytes, metadata: bytes, time_ms: int) -> Draft:
    """Return the record; without metadata it is what earlier versions write."""
    if not metadata:
        return Draft(Kind.DECLARED, 0, 0, 0, time_ms, b"", settings, 0, 0)
    return Draft(
        Kind.DECLARED, 0, len(settings), WITH_METADATA, time_ms, b"", settings + metadata, 0, 0
    )


def declared_by(record: Record) -> tuple[bytes, bytes]:
    """Return the settings and the metadata."""
    if record.small != WITH_METADATA:
        return record.body, b""
    return record.body[: record.number], record.body[record.number :]
