"""A data directory on a replicated engine: `Files` over one fenced commit for all journals.

`engine.py` says what an engine promises, `engine_files.py` gives it the verbs of a disk.
"""

from journal.engine.address import (
    FORM,
    S3_FORM,
    SLICE,
    is_address,
    is_engine,
    is_object_store,
    name_of,
    slice_name,
    split_slice,
    why_no_address,
    without_secret,
)
from journal.engine.commits import Commits
from journal.engine.engine import (
    PIECE_BYTES,
    Claim,
    Create,
    DeleteFile,
    Engine,
    EngineAway,
    EngineFull,
    EngineMoment,
    Fenced,
    FileFacts,
    Layout,
    Member,
    Op,
    Owner,
    Piece,
    Rename,
    Seat,
    Takeover,
    Write,
)
from journal.engine.engine_files import EngineFiles
from journal.engine.engines import NeedsExtra, engine_tools
from journal.engine.facts import Facts, Made, Replica
from journal.engine.one_moment import NothingToRead, OneMoment

__all__ = [
    "FORM", "PIECE_BYTES", "S3_FORM", "SLICE", "Claim", "Commits", "Create", "DeleteFile", "Engine",
    "EngineAway", "EngineFiles", "EngineFull", "EngineMoment", "Facts", "Fenced", "FileFacts",
    "Layout", "Made", "Member", "NeedsExtra", "NothingToRead", "OneMoment", "Op", "Owner", "Piece",
    "Rename", "Replica", "Seat", "Takeover", "Write", "engine_tools", "is_address", "is_engine",
    "is_object_store", "name_of", "slice_name", "split_slice", "why_no_address", "without_secret",
]  # fmt: skip
