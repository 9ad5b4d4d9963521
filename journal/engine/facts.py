"""What an operator may know of a fleet, whatever its engine is."""

from __future__ import annotations

from typing import NamedTuple

from journal.engine.engine import Owner, Seat, Takeover


class Replica(NamedTuple):
    """A standby of the server."""

    name: str
    state: str  # "sync", "quorum", "async", "potential"; "": this role may not see it
    lag_bytes: int | None
    lag_s: float | None


class Facts(NamedTuple):
    """A fleet at one moment."""

    server: str  # its version; "": it says none
    tables: int  # the version of what `fleet init` made
    owners: dict[int, Owner]
    members: list[Seat]
    replicas: list[Replica] | None  # None: the engine keeps its copies to itself
    bytes: dict[str, int]  # by table, or by kind of object
    slices: int  # 0: no member has said how many
    takeovers: list[Takeover]  # the newest first


class Made(NamedTuple):
    """What `fleet init` found: what a daemon refuses, and what its operator should know."""

    is_new: bool
    unsafe: list[str]
    doubtful: list[str]
