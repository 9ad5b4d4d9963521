"""The engine on an object store with conditional writes: `opening.py` has it by its address."""

from journal.engine.object_store.bucket import Found, ListedObject, ObjectBucket
from journal.engine.object_store.made_store import make_store, policy
from journal.engine.object_store.moment import ObjectStoreMoment
from journal.engine.object_store.object_store_engine import ObjectStoreEngine

__all__ = [
    "Found",
    "ListedObject",
    "ObjectBucket",
    "ObjectStoreEngine",
    "ObjectStoreMoment",
    "make_store",
    "policy",
]  # fmt: skip
