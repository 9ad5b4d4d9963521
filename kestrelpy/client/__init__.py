"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    from kestrelpy.client import Worker

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item

`AsyncWorker` is the same for asyncio.

One rule: this module exports the names for users, and no others.
"""

from kestrelpy.client.async_worker import AsyncItem, AsyncWorker
from kestrelpy.client.connection import (
    ANSWER_SECONDS,
    DEFAULT_SERVER,
    LoginFailed,
    explained,
    is_logged_out,
    is_refused,
    new_client,
    reason,
)
from kestrelpy.client.item import ItemState, LeaseLost, WorkerItem
from kestrelpy.client.queue_hasher import QueueHasher
from kestrelpy.client.retry import Backoff
from kestrelpy.client.settings import Duration, duration_ms
from kestrelpy.client.worker import Worker
from kestrelpy.wire.answers import Answer, AnswerReader, ReceivedItem, parse_found
from kestrelpy.wire.dial import Access, Address, access_of
from kestrelpy.wire.refusals import ServerRefusal

__all__ = [
    "ANSWER_SECONDS",
    "DEFAULT_SERVER",
    "Access",
    "Address",
    "Answer",
    "AnswerReader",
    "AsyncItem",
    "AsyncWorker",
    "Backoff",
    "Duration",
    "ItemState",
    "LeaseLost",
    "LoginFailed",
    "QueueHasher",
    "ReceivedItem",
    "ServerRefusal",
    "Worker",
    "WorkerItem",
    "access_of",
    "duration_ms",
    "explained",
    "is_logged_out",
    "is_refused",
    "new_client",
    "parse_found",
    "reason",
]
