"""The journals of Kestrel 1.x and 2.x: their records, their files, and what a replay leaves.

One rule: bytes and names come in as arguments. This package opens no file, and nothing of
kestrelpy is known here.
"""

from kestrelpy.kestrel.folder import Found, Ignored, Journal, arrange, is_database
from kestrelpy.kestrel.records import KestrelItem, add_record, item_at
from kestrelpy.kestrel.replay import Damage, Replay
from kestrelpy.kestrel.source import DamagedMedium, Piece, Source

__all__ = [
    "Damage", "DamagedMedium", "Found", "Ignored", "Journal", "KestrelItem", "Piece", "Replay",
    "Source", "add_record", "arrange", "is_database", "item_at",
]  # fmt: skip
