"""Reading segments: scan them whole, look up single records, read ahead."""

from journal.read.cursor import Cursor
from journal.read.frames import Frames, Hole, ordered_segments
from journal.read.history import HistoryPart, ItemHistory
from journal.read.lookup import ReadOne, ReadSome
from journal.read.range_scan import Put, PutPlace, RangeScan, Scanned, TimeSearch
from journal.read.readahead import ReadAhead
from journal.read.scan import (
    FEWER_THAN_COUNTED,
    FOOTER_LOST,
    NOT_WHOLE,
    Gap,
    Scan,
    find_identity,
    no_footer,
    read_footer,
    scan,
)
from journal.read.segment_read import SegmentRead

__all__ = [
    "FEWER_THAN_COUNTED",
    "FOOTER_LOST",
    "NOT_WHOLE",
    "Cursor",
    "Frames",
    "Gap",
    "HistoryPart",
    "Hole",
    "ItemHistory",
    "Put",
    "PutPlace",
    "RangeScan",
    "ReadAhead",
    "ReadOne",
    "ReadSome",
    "Scan",
    "Scanned",
    "SegmentRead",
    "TimeSearch",
    "find_identity",
    "no_footer",
    "ordered_segments",
    "read_footer",
    "scan",
]  # fmt: skip
