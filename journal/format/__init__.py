"""The bytes in the files: encode, decode, describe. No I/O, except that `folder` lists folders.

Each thing that records carry has a file of its own; other packages import all of it from here.
"""

from journal.format.checkpoint import TOKENS_SKIPPED, Checkpoint
from journal.format.declared import WITH_METADATA, declared_by, declared_draft
from journal.format.describe import BODY_BYTES_SHOWN, flush_spared, sentence, shown
from journal.format.folder import folder_name, is_cut_name, journal_folders, parse_folder_name
from journal.format.item_header import ItemHeader, item_header_of, says_only_expiry
from journal.format.key import (
    KEY_BYTES_MAX,
    as_text,
    in_words,
    join,
    named_text,
    split,
    text_of,
    texts,
    texts_in,
    value_of,
)
from journal.format.kinds import (
    COUNTED,
    ENDS,
    ENDS_DELIVERY,
    IN_LOG,
    ITEM_TEXTS,
    OF_MANY,
    PLACING,
    PUTS,
    SENT_TEXTS,
    STANDING,
    TABLE,
    UNNUMBERED,
    WITH_TEXT,
    Effect,
    Kind,
    Tag,
    kinds_with,
)
from journal.format.lease import LeaseEntry, heard_ms, lease_entries
from journal.format.meta import (
    DELIVERY_MAX,
    NUMBER_TAG,
    TEXT_TAG,
    ItemTexts,
    Meta,
    PutMeta,
    decode_meta,
    encode_meta,
    ended,
    ended_bytes,
    said_of_put,
    text_tagged,
)
from journal.format.out_of_order import DelayedEntry, PlacedEntry, delayed_entries, placed_entries
from journal.format.record import (
    ALIGN_BYTES,
    CRC_BYTES,
    FRAME,
    FRAME_BYTES_MAX,
    HEADER_BYTES,
    META_BYTES_MAX,
    SMALL_BYTES,
    Draft,
    RawDraft,
    Record,
    decode,
    encode,
    frame_bytes,
    is_older_frame,
    number_given,
    padded,
)
from journal.format.schedule import (
    Watermark,
    raise_watermark,
    watermark_drafts,
    watermark_of_ids,
    watermark_of_put,
    watermarks_in,
)
from journal.format.segment import (
    CHUNK,
    COMPACTED,
    FILE_HEADER_BYTES,
    FOOTER_SPACE_BYTES,
    LOG,
    SNAPSHOT,
    SUFFIX,
    SUFFIX_RECYCLED,
    SegmentHeader,
    Tally,
    decode_counts,
    segment_name,
    segment_number,
    segment_path,
    usable_bytes,
)
from journal.format.subscription_state import (
    AGAIN,
    GONE,
    STOPS,
    TAKES,
    Beginning,
    DeadEntry,
    ReaderState,
    ageless_of,
    attempts_of,
    dead_of,
    line_drafts,
    live_of,
    named,
    number_in,
    reader_states,
    retained_of,
)
from journal.format.transfer import (
    Origin,
    have_one_log,
    moved,
    opened,
    origin_of,
    settled,
    settled_by,
    settled_many,
    target_of,
)

__all__ = [
    "AGAIN", "ALIGN_BYTES", "BODY_BYTES_SHOWN", "CHUNK", "COMPACTED", "COUNTED", "CRC_BYTES",
    "DELIVERY_MAX", "ENDS", "ENDS_DELIVERY", "FILE_HEADER_BYTES", "FOOTER_SPACE_BYTES", "FRAME",
    "FRAME_BYTES_MAX", "GONE", "HEADER_BYTES", "IN_LOG", "ITEM_TEXTS", "KEY_BYTES_MAX", "LOG",
    "META_BYTES_MAX", "NUMBER_TAG", "OF_MANY", "PLACING", "PUTS", "SENT_TEXTS", "SMALL_BYTES",
    "SNAPSHOT", "STANDING", "STOPS", "SUFFIX", "SUFFIX_RECYCLED", "TABLE", "TAKES", "TEXT_TAG",
    "TOKENS_SKIPPED", "UNNUMBERED", "WITH_METADATA", "WITH_TEXT", "Beginning", "Checkpoint",
    "DeadEntry", "DelayedEntry", "Draft", "Effect", "ItemHeader", "ItemTexts", "Kind", "LeaseEntry",
    "Meta", "Origin", "PlacedEntry", "PutMeta", "RawDraft", "ReaderState", "Record",
    "SegmentHeader", "Tag", "Tally", "Watermark", "ageless_of", "as_text", "attempts_of", "dead_of",
    "declared_by", "declared_draft", "decode", "decode_counts", "decode_meta", "delayed_entries",
    "encode", "encode_meta", "ended", "ended_bytes", "flush_spared", "folder_name", "frame_bytes",
    "have_one_log", "heard_ms", "in_words", "is_cut_name", "is_older_frame", "item_header_of",
    "join", "journal_folders", "kinds_with", "lease_entries", "line_drafts", "live_of", "moved",
    "named", "named_text", "number_given", "number_in", "opened", "origin_of", "padded",
    "parse_folder_name", "placed_entries", "raise_watermark", "reader_states", "retained_of",
    "said_of_put", "says_only_expiry", "segment_name", "segment_number", "segment_path", "sentence",
    "settled", "settled_by", "settled_many", "shown", "split", "target_of", "text_of",
    "text_tagged", "texts", "texts_in", "usable_bytes", "value_of", "watermark_drafts",
    "watermark_of_ids", "watermark_of_put", "watermarks_in",
]  # fmt: skip
