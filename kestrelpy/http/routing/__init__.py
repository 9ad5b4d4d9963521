"""Routes: the declaration of a handler, the checks before its call, and /openapi.json."""

from kestrelpy.http.routing.openapi import described
from kestrelpy.http.routing.route import (
    OfRequest,
    Parameter,
    ReadBy,
    Responses,
    Route,
    Router,
    converted,
)
from kestrelpy.http.routing.sentences import allowed, meant, of_msgspec

__all__ = [
    "OfRequest", "Parameter", "ReadBy", "Responses", "Route", "Router", "allowed", "converted",
    "described", "meant", "of_msgspec",
]  # fmt: skip
