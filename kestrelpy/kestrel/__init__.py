"""The journals of Kestrel 1.x and 2.x: their records, their files, and what a replay leaves.

One rule: bytes and names come in as arguments. This package opens no file, and nothing of
kestrelpy is known here.
"""

from kestrelpy.kestrel.folder import FolderContents, Ignored, JournalFiles, arrange, is_database
from kestrelpy.kestrel.records import KestrelItem, add_record, item_at
from kestrelpy.kestrel.replay import FileDamage, KestrelReplay
from kestrelpy.kestrel.source import DamagedMedium, FilePiece, JournalSource

__all__ = [
    "DamagedMedium",
    "FileDamage",
    "FilePiece",
    "FolderContents",
    "Ignored",
    "JournalFiles",
    "JournalSource",
    "KestrelItem",
    "KestrelReplay",
    "add_record",
    "arrange",
    "is_database",
    "item_at",
]  # fmt: skip
