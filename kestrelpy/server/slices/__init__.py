"""A process for each slice, and the router that lets clients connect to all as to one server."""

from kestrelpy.server.slices.router import SliceRouter
from kestrelpy.server.slices.slice_process import MAIL, PARENT

__all__ = ["MAIL", "PARENT", "SliceRouter"]
