"""HTTP: batches, claims, observers, streams and administration, on the daemon's own loop."""

from kestrelpy.http.app import open_door
from kestrelpy.http.door import Admission, Door, HttpConnection
from kestrelpy.http.ports import HttpHost

__all__ = ["Admission", "Door", "HttpConnection", "HttpHost", "open_door"]
