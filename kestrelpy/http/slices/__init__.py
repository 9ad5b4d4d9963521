"""HTTP before many slices as before one server: each request goes to the slice of its queue.

One rule: nothing is decided here; what a client hears comes from a slice.
"""

from kestrelpy.http.slices.door import open_router
from kestrelpy.http.slices.ports import SlicesPort

__all__ = ["SlicesPort", "open_router"]
