"""The data directory: its lock, its folders, and the small files next to them."""

from kestrelpy.server.directory.beat import NAME as BEAT_NAME
from kestrelpy.server.directory.beat import Beat, Heart
from kestrelpy.server.directory.data_directory import REMOVED_SUFFIX, DataDirectory
from kestrelpy.server.directory.joining import (
    directory_of,
    engine_of,
    layout_of,
    member_of,
    seat_of,
)
from kestrelpy.server.directory.last_backup import NAME as BACKUP_NAME
from kestrelpy.server.directory.last_backup import last_backup_ms, note_backup
from kestrelpy.server.directory.owner_only import name_what_is_open
from kestrelpy.server.directory.removed import Removed
from kestrelpy.server.directory.server_id import (
    NAME,
    make_server_id,
    new_id,
    read_server_id,
    take_server_id,
)
from kestrelpy.server.directory.token_file import NAME as TOKENS_NAME
from kestrelpy.server.directory.token_file import TokenFile
from kestrelpy.server.directory.watch import DirectoryWatch

__all__ = [
    "BACKUP_NAME",
    "BEAT_NAME",
    "NAME",
    "REMOVED_SUFFIX",
    "TOKENS_NAME",
    "Beat",
    "DataDirectory",
    "DirectoryWatch",
    "Heart",
    "Removed",
    "TokenFile",
    "directory_of",
    "engine_of",
    "last_backup_ms",
    "layout_of",
    "make_server_id",
    "member_of",
    "name_what_is_open",
    "new_id",
    "note_backup",
    "read_server_id",
    "seat_of",
    "take_server_id",
]
