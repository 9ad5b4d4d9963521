"""An unclean end on a full disk: the tail is written again where it stands.

    [ synced | tail | torn, or zeros ]   ->   [ synced | the same bytes again | zeros ]  and a sync

The page cache is not the disk: bytes that a failed sync left behind look written and are not.
Handing the same bytes to the system again makes its pages dirty again, so the next sync that
succeeds has written them. A power cut in between leaves each sector as it is or as it will be, and
both are the same.

One rule: only where a fresh segment cannot be had; a place that failed before may fail again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from journal.files import Files, Handle
    from journal.recovery.recovery import Recovery

_PIECE_BYTES: Final = 1 << 20


def can_go_on(recovery: Recovery) -> bool:
    """Is the last segment whole, unsealed, and undamaged but for its torn end?"""
    if not recovery.segments:
        return False
    last = recovery.segments[-1]
    torn = [d for d in recovery.damages if d.path == last.path and d.kind == "torn"]
    damaged = any(d.path == last.path and d.kind != "torn" for d in recovery.damages)
    ends_here = bool(torn) or any(r.segment == last.number for r in recovery.tail)
    is_whole = last.header is not None and last.lsn_first and not last.bytes_missing
    return bool(is_whole) and ends_here and not damaged and not recovery.is_sealed


def write_tail_again(recovery: Recovery) -> int:
    """Where the log goes on in its last segment, all before it on disk. Blocks; raises OSError."""
    files, last = recovery.files, recovery.segments[-1]
    end = _end_of_log(recovery)
    for segment in recovery.segments:
        records = [r for r in recovery.tail if r.segment == segment.number]
        if not records and segment is not last:
            continue
        handle = files.open(segment.path)
        try:
            stop = end if segment is last else records[-1].end
            for at in range(records[0].offset if records else end, stop, _PIECE_BYTES):
                handle.write(at, files.read(segment.path, at, min(_PIECE_BYTES, stop - at)))
            if segment is last:
                _clear(files, handle, end, segment.capacity)
            handle.sync()
        finally:
            handle.close()
    return end


def _end_of_log(recovery: Recovery) -> int:
    last = recovery.segments[-1]
    torn = [d.offset for d in recovery.damages if d.path == last.path]
    kept = [r.end for r in recovery.tail if r.segment == last.number]
    return min(torn) if torn else kept[-1]


def _clear(files: Files, handle: Handle, start: int, stop: int) -> None:
    """Zeros for whatever stands behind the log's end."""
    for at in range(start, stop, _PIECE_BYTES):
        data = files.read(handle.path, at, min(_PIECE_BYTES, stop - at))
        if data.strip(b"\0"):
            handle.write(at, bytes(len(data)))
