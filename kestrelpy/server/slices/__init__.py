"""A process for each slice, and the router that lets clients connect to all as to one server."""

from kestrelpy.server.slices.router import SliceRouter

__all__ = ["SliceRouter"]
