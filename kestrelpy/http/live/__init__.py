"""The live views of the page: sampled once for all viewers."""

from kestrelpy.http.live.changes import changes
from kestrelpy.http.live.route import STREAM, router
from kestrelpy.http.live.watching import COMMENT, QUIET_TICKS, STREAMS_MAX, TICK_SECONDS, Live

__all__ = [
    "COMMENT", "QUIET_TICKS", "STREAM", "STREAMS_MAX", "TICK_SECONDS", "Live", "changes", "router",
]  # fmt: skip
