"""The objects of a client that may exist when it has no work under way: rows of `rest_table`.

A worker, or a connection of kombu, is at rest when it was closed and its thread and tasks are over.

One rule: that of `rest_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SETTING: Final = "a setting, or said by one"
_NAME: Final = "a name: of what it is, or what it is told apart by"
_INSIDE: Final = "belongs to what is there; each is looked at for itself"

STAYS: Final[Mapping[str, Mapping[str, str]]] = {
    # -- client -------------------------------------------------------------------------------
    "client.async_worker.AsyncWorker": {
        "queue": _NAME, "_slots": _SETTING,
        "_stopping": "a worker that was told to stop fetches nothing any more",
    },
    "client.connection.BlockingConnection": {"_server": _NAME, "_seconds": _SETTING},
    "client.lease_times.LeaseTimes": {"lease_seconds limit_seconds nap_seconds": _SETTING},
    "client.renewal.Renewal": {"_queue": _NAME, "_lease_seconds": _SETTING},
    "client.worker.Worker": {
        "queue": _NAME,
        "_stopped": "a worker that was told to stop fetches nothing any more",
    },
    # -- kombu --------------------------------------------------------------------------------
    "kombu.channel.QoS": {},
    "kombu.channel.Channel": {},
    "kombu.leases.LeaseKeeper": {
        "_lease_seconds _patience": _SETTING, "_server _pid": _NAME,
        "_wakes_at": "when its thread was to look next",
    },
    "kombu.outage.Outage": {"_server": _NAME},
    "kombu.transport.Transport": {
        "_patience _lease_seconds": _SETTING, "_server _pid _scope": _NAME,
        "_epoch": "the latest number that was given",
    },
    "kombu.wake_pipe.WakePipe": {"_ends": "a pipe: it goes with its transport"},
    # -- the wire -----------------------------------------------------------------------------
    "wire.async_connection.AsyncConnection": {
        "_server": _NAME, "_answer_seconds _connect_seconds": _SETTING,
    },
}  # fmt: skip
# Another value than 0 is rest.
OTHERWISE: Final[Mapping[str, Mapping[str, tuple[object, ...]]]] = {
    "kombu.leases.LeaseKeeper": {"_closing": (False, True)},  # its thread has ended, until a use
}
NONE_LEFT: Final[Mapping[str, str]] = {
    "an item, or what is known of one": """
        client.async_worker.AsyncItem client.item.LeasedItem client.item.WorkerItem
        kombu.leases.Held wire.answers.ReceivedItem
    """,
    "a connection, or a wait, with what was read of it": """
        client.connection._FullClient client.connection._BodyAndFlags
        kombu.fetcher.Fetcher kombu.sockets.KombuConnection wire.answers.Answer
        wire.answers.AnswerReader wire.connection.WireConnection
    """,
    "pauses: of a loop, or of a wait": """
        client.end_attempts.EndAttempts client.retry.Backoff
    """,
}
VALUES: Final[Mapping[str, str]] = {
    "an error": """
        client.connection.LoginFailed client.item.LeaseLost kombu.names.NameRefused
        kombu.options.Unsupported kombu.transport.QueueFull kombu.transport.Undeliverable
        kombu.transport.UrlRefused wire.answers.BadAnswer wire.dial.TlsRefused
        wire.refusals.LoginRefused wire.refusals.ServerRefusal
    """,
    "settings": """
        client.retry.RetryPolicy client.settings.WorkerSettings kombu.channel.Going
        kombu.sockets.Server wire.dial.Access
    """,
    "what an item is, or needs": """
        client.item.ItemState client.lease_times.Step
    """,
    "a list of servers, which its user fills": """
        client.queue_hasher.QueueHasher
    """,
    "only methods, or what others fill in": """
        kombu.channel.TransportPort
    """,
}
