"""The connections of a slice to the others, for items that move between them."""

from kestrelpy.server.mail.couriers import Couriers

__all__ = ["Couriers"]
