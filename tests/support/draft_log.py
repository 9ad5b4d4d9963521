"""A log in memory that keeps every draft it is given, for tests of the parts that write records."""

from __future__ import annotations

import pytest

from journal.format.record import Draft, RawDraft
from kestrelpy.compiled import IS_COMPILED
from kestrelpy.core.log.memory_log import MemoryLog

if IS_COMPILED:
    pytest.skip("pure Python only: a compiled class has no subclass", allow_module_level=True)


class DraftLog(MemoryLog):
    """Every record is true at once; `drafts` has them."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Draft] = []

    def append(self, draft: RawDraft) -> int:
        self.drafts.append(Draft(*draft))
        self.lsn_appended = len(self.drafts)
        return self.lsn_appended
