"""Choose the daemon of a queue among several, for pymemcache's HashClient.

    HashClient(servers, hasher=QueueHasher)

    jobs, jobs/open/t=5s, jobs/close      one queue: one daemon
    orders+audit/open                     a child: the daemon of its queue, orders

A plain hash of the whole key sends `jobs`, `jobs/open` and `jobs/close` to different daemons.

One rule: only the queue's name counts, or the queue's name and its `key=`.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_to_bytes

from pymemcache.client.rendezvous import RendezvousHash

_KEY: Final = "key="


class QueueHasher(RendezvousHash):
    """Sends all requests for a queue and its children to one daemon.

    With `whole_key=True` the value of `key=` counts as well: the items of one queue spread over the
    daemons, and those of one key stay together. A request without `key=` goes where the queue's
    name alone leads, so fetch from each daemon with a client of its own. HashClient calls its
    hasher without arguments: pass `functools.partial(QueueHasher, whole_key=True)`.
    """

    def __init__(self, *, whole_key: bool = False) -> None:
        super().__init__()
        self._whole_key = whole_key

    def get_node(self, key: str | bytes) -> str | None:
        """Return the server for a key as clients send it, or None if there is none."""
        text = key.decode("latin-1") if isinstance(key, bytes) else key
        node: str | None = super().get_node(place(text, self._whole_key))
        return node


def place(key: str, whole_key: bool = False) -> str:
    """Return the part of a key that chooses the daemon: equal for all requests of one queue.

    With `whole_key` it is `<queue>/key=<value>` where the key names a value, percent-decoded.
    """
    name, _, rest = key.partition("/")
    queue = name.partition("+")[0] or name
    if whole_key:
        for option in rest.split("/"):
            if option.startswith(_KEY):
                value = unquote_to_bytes(option.removeprefix(_KEY)).decode("latin-1")
                return f"{queue}/{_KEY}{value}"
    return queue
