"""A worker in a for loop: reliable fetch on pymemcache, with the lease renewed while you work.

    from kestrelpy.client import Worker

    for item in Worker("jobs"):
        handle(item.body)            the end of the body confirms the item

One rule: this module exports the names for users, and no others.
"""

from kestrelpy.client.connection import ANSWER_SECONDS, DEFAULT_SERVER, Address, new_client, reason
from kestrelpy.client.item import Item, LeaseLost, State
from kestrelpy.client.worker import Worker

__all__ = [
    "ANSWER_SECONDS",
    "DEFAULT_SERVER",
    "Address",
    "Item",
    "LeaseLost",
    "State",
    "Worker",
    "new_client",
    "reason",
]
