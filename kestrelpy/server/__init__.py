"""The asyncio shell: sockets, threads, signals and the clock.

One rule: once per turn of the loop it commits the pending records and sends the replies that have
become true. The floors below decide what anything means.
"""

from kestrelpy.server.daemon import HEEDED, Daemon, StartError
from kestrelpy.server.directory import (
    NAME,
    DataDirectory,
    make_server_id,
    new_id,
    note_backup,
    read_server_id,
)
from kestrelpy.server.exposure import Unservable, refuse_unservable
from kestrelpy.server.process import end_with_parent
from kestrelpy.server.reslice import Resliced, locked_folders, reslice
from kestrelpy.server.restart import recover
from kestrelpy.server.slices import MAIL, PARENT, SliceRouter
from kestrelpy.server.supervisor import Supervisor

__all__ = [
    "HEEDED",
    "MAIL",
    "NAME",
    "PARENT",
    "Daemon",
    "DataDirectory",
    "Resliced",
    "SliceRouter",
    "StartError",
    "Supervisor",
    "Unservable",
    "end_with_parent",
    "locked_folders",
    "make_server_id",
    "new_id",
    "note_backup",
    "read_server_id",
    "recover",
    "refuse_unservable",
    "reslice",
]  # fmt: skip
