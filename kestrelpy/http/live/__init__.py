"""What the page shows while it is open: sampled once, for everybody who watches."""

from kestrelpy.http.live.route import router
from kestrelpy.http.live.watching import Live

__all__ = ["Live", "router"]
