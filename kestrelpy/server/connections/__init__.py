"""Sockets: one connection each, its login, the memory they share, and the listening sockets."""

from kestrelpy.server.connections.channels import ClientChannel, Trunk
from kestrelpy.server.connections.connection import PROGRESS_BYTES, Connection
from kestrelpy.server.connections.listeners import CannotListen, Listeners
from kestrelpy.server.connections.logins import Logins
from kestrelpy.server.connections.memory import UNCOUNTED_BYTES, ConnectionMemory
from kestrelpy.server.connections.revocation import Revocable, Revocation
from kestrelpy.server.connections.sweep import BODY_MS, ConnectionSweep

__all__ = [
    "BODY_MS", "PROGRESS_BYTES", "UNCOUNTED_BYTES", "CannotListen", "ClientChannel", "Connection",
    "ConnectionMemory", "ConnectionSweep", "Listeners", "Logins", "Revocable", "Revocation",
    "Trunk",
]  # fmt: skip
