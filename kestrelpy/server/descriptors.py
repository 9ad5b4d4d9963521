"""How the descriptors that this process may have are shared out.

    | own: listeners, threads, refusals | journals | kept for the Unix socket | connections ...  |

One rule: whoever connects cannot take what the queues need to write and to be read back.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from typing import Final

from kestrelpy.server.journals.open_journals import DESCRIPTORS_EACH

# Listeners, log and loop; two for each thread that reads, syncs or prepares; and connections that
# are accepted only to be told that they are too many.
OWN: Final = 256
# Of a small limit these parts are for the process itself and for the journals.
_OWN_PART: Final = 4
_JOURNALS_PART: Final = 4
# Beyond max_connections, for connections through the Unix socket: an administrator gets in.
RESERVED: Final = 8
# Asked for even if fewer would do: max_connections and max_queues may be raised by a reload. More
# is no use, for each descriptor that is open takes memory of the kernel.
_LIMIT_WANTED: Final = 65536


@dataclass(frozen=True, slots=True)
class Shares:
    """`journals` hold descriptors at once; so many `connections` there may be, and `reserved` ones
    beyond for the Unix socket; `own` are the process's."""

    limit: int
    own: int
    journals: int
    connections: int
    reserved: int

    def lowered(self, wanted: int) -> str:
        """The line for the log where there are fewer connections than wanted; "": there are not."""
        if self.connections >= wanted:
            return ""
        return (
            f"max_connections lowered from {wanted} to {self.connections}: this process may open "
            f"{self.limit} files, and {self.limit - self.connections} of them are kept for "
            "journals and for itself (raise the hard limit of open files: ulimit -Hn, LimitNOFILE=)"
        )


def share(limit: int, connections: int, queues: int) -> Shares:
    """Share out `limit` descriptors to at most so many connections and queues."""
    own = max(min(OWN, limit // _OWN_PART), 1)
    reserved = min(RESERVED, limit // (_OWN_PART * RESERVED))
    left = limit - own - reserved
    journals = min(
        DESCRIPTORS_EACH * queues, max(limit // _JOURNALS_PART, left - connections)
    )
    return Shares(
        limit, own, max(journals // DESCRIPTORS_EACH, 1),
        max(min(connections, left - journals), 1), reserved,
    )  # fmt: skip


def raise_file_limit(connections: int, queues: int) -> int:
    """Ask for as many descriptors as these need; returns how many this process may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_LIMIT_WANTED, OWN + RESERVED + connections + DESCRIPTORS_EACH * queues)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(OSError, ValueError):  # macOS: not above what its kernel has
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
