"""The bytes in the files: encode, decode, describe. No I/O, except that `folder` lists folders.

The package hands out the names of records; each thing that records carry has a file of its own.
"""

from journal.format.kinds import PLACING, UNNUMBERED, Kind, Tag
from journal.format.meta import (
    DELIVERY_MAX,
    NUMBER_TAG,
    TEXT_TAG,
    Meta,
    decode_meta,
    encode_meta,
    ended,
    ended_bytes,
    said_of_put,
)
from journal.format.record import (
    ALIGN_BYTES,
    CRC_BYTES,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    META_BYTES_MAX,
    Draft,
    RawDraft,
    Record,
    decode,
    encode,
    find_next,
    frame_bytes,
    frame_end,
    is_older_frame,
    number_given,
    padded,
)

__all__ = [
    "ALIGN_BYTES", "CRC_BYTES", "DELIVERY_MAX", "FRAME_BYTES_MAX", "HEADER_BYTES",
    "META_BYTES_MAX", "NUMBER_TAG", "PLACING", "TEXT_TAG", "UNNUMBERED", "Draft", "Kind", "Meta",
    "RawDraft", "Record", "Tag", "decode", "decode_meta", "encode", "encode_meta", "ended",
    "ended_bytes", "find_next", "frame_bytes", "frame_end", "is_older_frame", "number_given",
    "padded", "said_of_put",
]  # fmt: skip
