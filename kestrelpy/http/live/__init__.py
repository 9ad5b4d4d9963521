"""The live views of the page: sampled once for all viewers."""

from kestrelpy.http.live.route import router
from kestrelpy.http.live.watching import Live

__all__ = ["Live", "router"]
