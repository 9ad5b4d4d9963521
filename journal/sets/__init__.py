"""Sets of item numbers and a hash table, compact in memory."""

from journal.sets.hash_table import (
    BARE_ID,
    HASH_BYTES,
    ID,
    KEY,
    Table,
    hash_of,
    keyed,
    time_of,
    with_fingerprints,
)
from journal.sets.id_counts import PAGE_IDS, IdCounts
from journal.sets.id_set import IdSet

__all__ = [
    "BARE_ID",
    "HASH_BYTES",
    "ID",
    "KEY",
    "PAGE_IDS",
    "IdCounts",
    "IdSet",
    "Table",
    "hash_of",
    "keyed",
    "time_of",
    "with_fingerprints",
]
