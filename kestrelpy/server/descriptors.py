"""How the descriptors of this process are shared out.

    | own: listeners, threads, refusals | journals | kept for the Unix socket | connections ...  |

One rule: connections cannot take the descriptors that queues need for writing and reading.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from typing import Final, NamedTuple

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
# HTTP may have at most this part of the connections, and of the memory for connections.
HTTP_PART: Final = 4
# The least part for connections of other members.
_MEMBERS_PART: Final = 4
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
    own = _own(limit)
    reserved = min(RESERVED, limit // (_OWN_PART * RESERVED))
    left = limit - own - reserved
    journals = min(
        DESCRIPTORS_EACH * queues, max(limit // _JOURNALS_PART, left - connections)
    )
    return DescriptorShares(
        limit, own, max(journals // DESCRIPTORS_EACH, 1),
        max(min(connections, left - journals), 1), reserved,
    )  # fmt: skip


class RouterShares(NamedTuple):
    """`clients` is how many connections of clients a router may have, `members` how many of other
    members; `wanted` descriptors would let it have all that it wants."""

    clients: int
    members: int
    wanted: int


def share_of_router(
    limit: int, clients: int, slices: int, *, is_fleet: bool, has_http: bool
) -> RouterShares:
    """Share out `limit` descriptors of a router to at most this many clients.

    A client of memcache takes one, as its requests go over the one socket to each slice. In a fleet
    it takes one more for each slice; so does a request of HTTP, and a part of the clients may be of
    HTTP. A connection of another member takes two, its own and one to the slice.
    """
    # For each slice: what it says, its channels, its watch; and its mail to each other slice, which
    # is passed on.
    own = _own(limit) + min(slices * (3 + (slices - 1) * (1 + is_fleet)), limit // _OWN_PART)
    parts = HTTP_PART * (1 + slices if is_fleet else 1)  # of a descriptor, for each client
    if has_http and not is_fleet:
        parts += slices
    left, wanted = limit - own, -(-clients * parts // HTTP_PART)
    of_members = max(left // _MEMBERS_PART, left - wanted) if is_fleet else 0
    return RouterShares(
        max(min(clients, (left - of_members) * HTTP_PART // parts), 1), of_members // 2,
        own + wanted + (wanted // (_MEMBERS_PART - 1) if is_fleet else 0),
    )  # fmt: skip


def _own(limit: int) -> int:
    """Return how many descriptors are for the process itself."""
    return min(OWN, max(limit // _OWN_PART_LARGE, min(_OWN_SMALL, limit // _OWN_PART), 1))


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
