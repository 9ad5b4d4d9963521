"""Where the configuration says that the data is: a folder, or a slice of an engine.

One rule: the secret in an address is never shown.
"""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import Final

from journal.engine import (
    Engine,
    EngineFiles,
    Layout,
    Member,
    NeedsExtra,
    engine_tools,
    slice_name,
)
from journal.files import Disk, Files
from journal.store import Sizes
from kestrelpy.config import Config
from kestrelpy.fleet import SLICE, FleetMember
from kestrelpy.server.directory.data_directory import DataDirectory
from kestrelpy.server.exposure import Unservable

CACHE_BYTES: Final = 1 << 30  # of the local disk, for what was read from the engine
# A takeover reads the records of a queue after its newest snapshot, and has all of the newest
# segment in memory: this many bytes of items of 100 B take 0.15 s of a processor.
SNAPSHOT_BYTES: Final = 4 << 20
SEGMENT_BYTES_MAX: Final = 8 << 20


def data_path(config: Config) -> str:
    """Return the name of the data directory, for the log: a folder, or a slice of an engine."""
    if config.fleet.engine is None:
        return str(config.server.data_dir)
    return slice_name(config.fleet.engine, config.fleet.slice or SLICE)


def directory_of(config: Config, files: Files) -> DataDirectory:
    """Return the data directory that the configuration names; nothing is opened yet."""
    journal = config.journal
    sizes = Sizes(journal.segment_min_bytes, journal.segment_max_bytes, journal.batch_max_bytes)
    if config.fleet.engine is not None:
        most = max(min(sizes.segment_max, SEGMENT_BYTES_MAX), sizes.segment_min)
        sizes = replace(sizes, segment_max=most, snapshot_bytes=SNAPSHOT_BYTES)
    return DataDirectory(files, data_path(config), sizes)


def layout_of(config: Config) -> Layout:
    """Return how this process spreads queues over slices; without slices groups mean nothing."""
    slices, groups = config.fleet.slices, config.fleet.groups
    return Layout(slices, " ".join(groups) if slices > 1 else "")


def seat_of(config: Config) -> Member:
    """Return the name and the address of this process in its fleet."""
    fleet = config.fleet
    return Member(fleet.name or socket.gethostname(), fleet.address or "")


def engine_of(config: Config) -> Engine | None:
    """Return the engine that the configuration names, if it does; raise Unservable."""
    fleet = config.fleet
    if fleet.engine is None:
        return None
    try:
        engine: Engine = engine_tools(fleet.engine).open_engine(fleet.engine, fleet.single)
    except NeedsExtra as error:
        raise Unservable(f"[fleet] engine {error}") from None
    return engine


def member_of(config: Config) -> FleetMember | None:
    """Return this process as a member of the fleet that the configuration names, if it does; raise
    Unservable."""
    engine, fleet = engine_of(config), config.fleet
    if engine is None:
        return None
    number = fleet.slice or SLICE
    cache = str(config.server.data_dir / f"cache-{number}")
    files = EngineFiles(engine, data_path(config), cache, CACHE_BYTES, Disk())
    return FleetMember(
        engine, files, seat_of(config), fleet.takeover_ms / 1000, number=number,
        layout=layout_of(config),
    )  # fmt: skip
