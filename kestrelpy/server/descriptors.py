"""How the descriptors of this process are shared out.

    | own: listeners, threads, refusals | journals | kept for the Unix socket | connections ...  |

One rule: connections cannot take the descriptors that queues need for writing and reading.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from typing import Final

from kestrelpy.server.journals import DESCRIPTORS_EACH

# Listeners, log and loop; two for each thread that reads, syncs or preallocates; and as many again
# for connections that come at once, which may be accepted only to be refused.
OWN: Final = 2048
# Of a limit that is not large this part is for the process itself, and of a small one, up to
# `_OWN_SMALL`, the other parts for it and for the journals.
_OWN_PART_LARGE: Final = 16
_OWN_SMALL: Final = 256
_OWN_PART: Final = 4
_JOURNALS_PART: Final = 4
# Beyond max_connections, for connections through the Unix socket: an administrator gets in.
RESERVED: Final = 8
# Requested even if fewer would do: a reload may raise max_connections and max_queues. More would be
# of no use: each open descriptor takes memory of the kernel.
_LIMIT_WANTED: Final = 65536


@dataclass(frozen=True, slots=True)
class DescriptorShares:
    """`journals` may hold descriptors at once; `connections` is their limit, and `reserved` ones
    beyond it are for the Unix socket; `own` are the process's."""

    limit: int
    own: int
    journals: int
    connections: int
    reserved: int

    def lowered(self, wanted: int) -> str:
        """Return the log line if there are fewer connections than wanted; "" if there are not."""
        if self.connections >= wanted:
            return ""
        return (
            f"max_connections lowered from {wanted} to {self.connections}: this process may open "
            f"{self.limit} files, and {self.limit - self.connections} of them are reserved for "
            "journals and for itself (raise the hard limit of open files: ulimit -Hn, LimitNOFILE=)"
        )


def share(limit: int, connections: int, queues: int) -> DescriptorShares:
    """Share out `limit` descriptors to at most this many connections and queues."""
    own = min(OWN, max(limit // _OWN_PART_LARGE, min(_OWN_SMALL, limit // _OWN_PART), 1))
    reserved = min(RESERVED, limit // (_OWN_PART * RESERVED))
    left = limit - own - reserved
    journals = min(
        DESCRIPTORS_EACH * queues, max(limit // _JOURNALS_PART, left - connections)
    )
    return DescriptorShares(
        limit, own, max(journals // DESCRIPTORS_EACH, 1),
        max(min(connections, left - journals), 1), reserved,
    )  # fmt: skip


def raise_file_limit(connections: int, queues: int) -> int:
    """Raise the limit of descriptors to what these need; return the limit that results."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(_LIMIT_WANTED, OWN + RESERVED + connections + DESCRIPTORS_EACH * queues)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with contextlib.suppress(OSError, ValueError):  # macOS: not above its kernel's limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
