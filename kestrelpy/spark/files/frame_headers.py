"""The headers of verified frames, gathered with numpy.

    bytes of a segment    |header|meta|body|pad|header|body|header|...
    headers               8 words of 8 bytes each, gathered to 8 rows: words[k][frame]

One rule: a field is taken out of the headers only when it is asked for.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from journal.errors import NewerFormat
from journal.format import HEADER_BYTES, Kind, Meta, Record, decode_meta

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]

_ROWS: Final = np.arange(8)[:, None]


class FrameHeaders:
    """Headers of whole frames.

    `at` is where each frame begins in `data`; `base` is where `data` begins in the file.
    """

    def __init__(self, data: bytes, base: int, at: Ints) -> None:
        self.data = data
        self.base = base
        self.at = at
        words = np.frombuffer(data, "<u8", len(data) >> 3)
        self.words: Words = words[_ROWS + (at >> 3)]

    def __len__(self) -> int:
        return len(self.at)

    def pick(self, which: Bools | slice) -> FrameHeaders:
        """Return the headers of some of the frames."""
        made = FrameHeaders.__new__(FrameHeaders)
        made.data, made.base = self.data, self.base
        made.at, made.words = self.at[which], self.words[:, which]
        return made

    @cached_property
    def lengths(self) -> Ints:
        """Bytes of header, meta and body together."""
        made: Ints = (self.words[0] >> np.uint64(32)).astype(np.int64)
        return made

    @cached_property
    def small(self) -> Ints:
        made: Ints = (self.words[2] >> np.uint64(32)).astype(np.int64)
        return made

    @property
    def offsets(self) -> Ints:
        """Where each frame begins in the file."""
        return self.at + self.base

    def _numbers(self, word: int) -> Ints:
        made: Ints = self.words[word].view(np.int64)
        return made

    @property
    def lsn(self) -> Ints:
        return self._numbers(3)

    @property
    def time_ms(self) -> Ints:
        return self._numbers(4)

    @property
    def item(self) -> Ints:
        return self._numbers(5)

    @property
    def number(self) -> Ints:
        return self._numbers(6)

    @cached_property
    def kind(self) -> npt.NDArray[np.uint8]:
        made: npt.NDArray[np.uint8] = self.words[7].astype(np.uint8)
        return made

    @cached_property
    def meta_bytes(self) -> Ints:
        made: Ints = (self.words[7] >> np.uint64(16)).astype(np.uint16).astype(np.int64)
        return made

    @cached_property
    def reader(self) -> npt.NDArray[np.uint16]:
        made: npt.NDArray[np.uint16] = (self.words[7] >> np.uint64(32)).astype(np.uint16)
        return made

    def is_one_of(self, kinds: tuple[Kind, ...]) -> Bools:
        """Return which records are of one of these kinds."""
        found: Bools = self.kind == kinds[0]
        for kind in kinds[1:]:
            found |= self.kind == kind
        return found

    @cached_property
    def marker(self) -> Ints:
        """The marker of the item that each record is about; 0: it is about none."""
        return np.where(self.kind == Kind.PUT, self.number, self.item)

    @cached_property
    def metas(self) -> list[Meta]:
        """Each record's meta; empty if this version cannot read it."""
        cache: dict[bytes, Meta] = {b"": {}}
        made = []
        starts = self.at + HEADER_BYTES
        for start, end in zip(starts.tolist(), (starts + self.meta_bytes).tolist(), strict=True):
            raw = self.data[start:end]
            meta = cache.get(raw)
            if meta is None:
                meta = cache[raw] = _meta(raw)
            made.append(meta)
        return made


def _meta(raw: bytes) -> Meta:
    try:
        return decode_meta(raw)
    except (NewerFormat, ValueError):
        return {}


def headers_of(data: bytes, records: list[Record]) -> FrameHeaders:
    """Return the headers of records that were read one by one from a whole file."""
    return FrameHeaders(data, 0, np.fromiter((r.offset for r in records), np.int64, len(records)))
