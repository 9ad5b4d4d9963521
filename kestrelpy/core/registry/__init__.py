"""The queues of a server: their creation, their deletion, and children that outlive them."""

from kestrelpy.core.registry.lifecycle import Later, Lifecycle
from kestrelpy.core.registry.registry import Registry
from kestrelpy.core.registry.token_floor import TOKENS_PER_MS

__all__ = ["TOKENS_PER_MS", "Later", "Lifecycle", "Registry"]
