"""The data directory: its lock, its folders, and the small files next to them."""

from kestrelpy.server.directory.data_directory import DataDirectory, Found
from kestrelpy.server.directory.owner_only import name_what_is_open
from kestrelpy.server.directory.server_id import NAME, make_server_id, new_id, read_server_id

__all__ = [
    "NAME",
    "DataDirectory",
    "Found",
    "make_server_id",
    "name_what_is_open",
    "new_id",
    "read_server_id",
]
