"""What `fleet init` makes in a bucket, and whether the store keeps its word.

One rule: a store that writes over an object, where it was asked to write only a new one, is refused
before anything depends on it.
"""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from journal.engine.engine import Layout
from journal.engine.facts import Made
from journal.engine.object_store.bucket import ObjectBucket

STORE_VERSION: Final = 1
_VERSION: Final = "version"
_CONDITION: Final = "condition"  # an object that is there, for the question whether that counts
_SLICES: Final = "slice-count"
_WRITERS: Final = 8
_RACES: Final = 3
HOW_TO_INIT: Final = "make it with `kestrelpy fleet init`"
UNSAFE: Final = (
    "this store writes over an object although it was asked to write only a new one "
    "(If-None-Match: *): two owners could commit; use a store with conditional writes"
)




def why_not_made(bucket: ObjectBucket) -> str:
    """Return why this version cannot use what is there; "": it can. Raise EngineAway."""
    found = bucket.get(_VERSION)
    if found is None:
        return "the store is not made for a fleet"
    try:
        version = int(found.data)
    except ValueError:
        return f"{_VERSION} is an object of another program: take another prefix"
    return "" if version == STORE_VERSION else (
        f"the store has version {version}, and this kestrelpy knows {STORE_VERSION}"
    )  # fmt: skip


def why_unsafe(bucket: ObjectBucket) -> str:
    """Return why this store may lose what it acknowledged; "": nothing was found. Raise
    EngineAway."""
    first, second = (uuid.uuid4().bytes for _ in range(2))
    if bucket.put_new(_CONDITION, first) and bucket.put_new(_CONDITION, second):
        return UNSAFE
    return ""


def make_store(bucket: ObjectBucket) -> Made:
    """Make the store where it is not made, and try its conditional writes; raise EngineAway."""
    unsafe = [*filter(None, [why_unsafe(bucket) or why_lost_races(bucket)])]
    is_new = bucket.get(_VERSION) is None
    if not unsafe:
        bucket.put_new(_VERSION, str(STORE_VERSION).encode())
    why = "" if unsafe else why_not_made(bucket)
    return Made(is_new, unsafe + [why] * bool(why), [])


def why_lost_races(bucket: ObjectBucket) -> str:
    """Let several write one new object at once; return why that is unsafe, or "". Raise
    EngineAway."""
    with ThreadPoolExecutor(_WRITERS) as pool:
        for _ in range(_RACES):
            key = f"races/{uuid.uuid4().hex}"
            bodies = [uuid.uuid4().bytes for _ in range(_WRITERS)]
            won = [*pool.map(lambda body, key=key: bucket.put_new(key, body), bodies)]
            bucket.delete([key])
            if sum(won) != 1:
                return UNSAFE
    return ""


def agreed(bucket: ObjectBucket, layout: Layout) -> Layout:
    """Say how queues are spread, if nobody has; return what holds. Raise EngineAway."""
    bucket.put_new(_SLICES, json.dumps(layout).encode())
    return layout_of(bucket)


def layout_of(bucket: ObjectBucket) -> Layout:
    """Return how queues are spread; no slices: nobody has said it. Raise EngineAway."""
    found = bucket.get(_SLICES)
    return Layout(*json.loads(found.data)) if found is not None else Layout(0)


def policy(address: str) -> str:
    """Return the policy of Amazon S3 that a daemon and `fleet init` need."""
    bucket, _, prefix = address.partition("?")[0].partition("://")[2].partition("/")
    objects, listed = f"arn:aws:s3:::{bucket}/{prefix}/*", f"arn:aws:s3:::{bucket}"
    statements = [
        {"Effect": "Allow", "Resource": objects,
         "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": listed,
         "Condition": {"StringLike": {"s3:prefix": f"{prefix}/*"}}},
    ]  # fmt: skip
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2) + "\n"
