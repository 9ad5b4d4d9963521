"""Sockets: one connection each, its login, the memory they share, and the listening sockets."""

from kestrelpy.server.connections.channels import Trunk
from kestrelpy.server.connections.connection import Connection
from kestrelpy.server.connections.listeners import CannotListen, Listeners
from kestrelpy.server.connections.logins import Logins
from kestrelpy.server.connections.memory import ConnectionMemory
from kestrelpy.server.connections.revocation import Revocable, Revocation
from kestrelpy.server.connections.sweep import BODY_MS, ConnectionSweep

__all__ = [
    "BODY_MS", "CannotListen", "Connection", "ConnectionMemory", "ConnectionSweep", "Listeners",
    "Logins", "Revocable", "Revocation", "Trunk",
]  # fmt: skip
