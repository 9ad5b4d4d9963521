"""The last claims that came to serve, for operators: takeovers/3-000000000007 for each.

One rule: nothing rests on them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from operator import attrgetter
from typing import Final

from journal.engine.engine import Member, Takeover
from journal.engine.object_store.bucket import ObjectBucket

_KEPT_MAX: Final = 20  # of each slice
_SHOWN_MAX: Final = 50
_FOLDER: Final = "takeovers"


def note_takeover(bucket: ObjectBucket, takeover: Takeover) -> None:
    """Keep this, and forget the oldest of its slice; raise EngineAway."""
    begin = f"{_FOLDER}/{takeover.slice}-"
    bucket.put(f"{begin}{takeover.epoch:012}", json.dumps(takeover).encode())
    names = [each.key for each in bucket.listed(_FOLDER) if each.key.startswith(begin)]
    if names[:-_KEPT_MAX]:
        bucket.delete(names[:-_KEPT_MAX])


def takeovers(
    bucket: ObjectBucket, unix_time: Callable[[], float] = time.time
) -> list[Takeover]:
    """Return the last ones, the newest first; raise EngineAway. Their age is by the clock of this
    machine."""
    listed = sorted(bucket.listed(_FOLDER), key=attrgetter("written_at", "key"), reverse=True)
    noted = []
    for each in listed[:_SHOWN_MAX]:
        if (found := bucket.get(each.key)) is not None:
            read = Takeover(*json.loads(found.data))
            age_s = max(unix_time() - found.written_at.timestamp(), 0.0)
            noted.append(read._replace(member=Member(*read.member), age_s=age_s))
    return noted
