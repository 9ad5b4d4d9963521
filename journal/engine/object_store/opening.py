"""A fleet on an object store, by its address. Needs the extra `object-store`.

These are the names that the package of every engine has.
"""

from __future__ import annotations

import time

from journal.engine.engine import EngineAway
from journal.engine.facts import Facts, Made
from journal.engine.object_store import facts
from journal.engine.object_store.made_store import make_store, policy
from journal.engine.object_store.members import Members
from journal.engine.object_store.moment import ObjectStoreMoment
from journal.engine.object_store.object_store_engine import ObjectStoreEngine
from journal.engine.object_store.s3 import S3Bucket

__all__ = ["ask_release", "drain", "look", "make", "open_engine", "open_moment", "schema"]


def open_engine(address: str, _is_single: bool = False) -> ObjectStoreEngine:
    """Return the engine; how many copies there are is up to the store."""
    return ObjectStoreEngine(S3Bucket(address))


def open_moment(address: str) -> ObjectStoreMoment:
    """Return the engine as of one moment."""
    return ObjectStoreMoment(S3Bucket(address))


def make(address: str, _is_single: bool = False, role: str = "") -> Made:
    """Make the store, and try its conditional writes; raise EngineAway."""
    bucket = S3Bucket(address)
    if role:
        raise EngineAway(bucket.name, "it has no roles; `--print` prints the policy of its key")
    return make_store(bucket)


def schema(address: str) -> str:
    """Return the policy that the key of a member needs."""
    return policy(address)


def look(address: str) -> Facts:
    """Return what is known of a fleet; raise EngineAway."""
    return facts.look(S3Bucket(address))


def ask_release(address: str, number: int, epoch: int) -> bool:
    """Ask the owner of this epoch to release the slice; False: it owns it no more. Raise
    EngineAway."""
    return facts.ask_release(S3Bucket(address), number, epoch)


def drain(address: str, name: str, is_drained: bool) -> list[str]:
    """Say whether the member of this name is to own slices; return the addresses of the processes
    that have the name. Raise EngineAway."""
    return Members(S3Bucket(address), time.monotonic).drain(name, is_drained)
