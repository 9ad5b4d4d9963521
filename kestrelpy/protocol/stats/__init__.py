"""The replies to `stats`."""

from kestrelpy.protocol.stats.item import dead_lines, item_lines, token_lines
from kestrelpy.protocol.stats.stats import (
    delayed_lines,
    dump_lines,
    marker_lines,
    one_queue_lines,
    open_lines,
    schedule_lines,
    stats_lines,
)

__all__ = [
    "dead_lines",
    "delayed_lines",
    "dump_lines",
    "item_lines",
    "marker_lines",
    "one_queue_lines",
    "open_lines",
    "schedule_lines",
    "stats_lines",
    "token_lines",
]
