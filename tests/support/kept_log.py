"""A log in memory that keeps every draft it is given, for tests of the parts that write records."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from journal.format.record import Draft
from journal.sets.id_set import IdSet
from kestrelpy.compiled import IS_COMPILED
from kestrelpy.core.log.memory_log import MemoryLog
from kestrelpy.core.log.records import Records

if IS_COMPILED:
    pytest.skip("pure Python only: no class has two compiled bases", allow_module_level=True)


# ignore: both bases declare the same attributes, and mypy wants one of them to give way. The order
# of the bases decides: the records of the one, kept in the memory of the other.
class KeptLog(Records, MemoryLog):  # type: ignore[misc]
    """Every record is true at once; `drafts` has them, `recounted` the ids that were counted."""

    def __init__(self) -> None:
        super().__init__()
        self.drafts: list[Draft] = []
        self.recounted: list[list[int]] = []
        self.puts: list[tuple[int, int]] = []  # item and reader
        self.full = False

    @property
    def is_full(self) -> bool:
        return self.full

    def write(self, draft: Draft) -> int:
        self.drafts.append(draft)
        self.lsn_appended = len(self.drafts)
        return self.lsn_appended

    def write_lazily(self, draft: Draft) -> int:
        return self.write(draft)

    def write_recounted(self, draft: Draft, readable: Callable[[], IdSet]) -> int:
        self.recounted.append(list(readable()))
        return self.write(draft)

    def _without_room(self) -> int | None:
        return self.lsn_appended if self.full else None
