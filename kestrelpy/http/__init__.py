"""HTTP: batches, claims, observers, streams and administration, on the daemon's own loop."""

from kestrelpy.http.app import open_listener
from kestrelpy.http.listener import Admission, HttpConnection, HttpListener
from kestrelpy.http.ports import HttpHost
from kestrelpy.http.slices import SlicesPort, open_router

__all__ = [
    "Admission", "HttpConnection", "HttpHost", "HttpListener", "SlicesPort", "open_listener",
    "open_router",
]  # fmt: skip
