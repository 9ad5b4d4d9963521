"""Metrics for Prometheus: read when they are asked for, rendered between other work."""

from kestrelpy.http.metrics.figures import COLUMNS, row_of
from kestrelpy.http.metrics.route import router
from kestrelpy.http.metrics.scrapes import Scrapes

__all__ = ["COLUMNS", "Scrapes", "router", "row_of"]
