"""Metrics for Prometheus: read when they are asked for, rendered between other work."""

from kestrelpy.http.metrics.figures import FACTS, SERIES, STATES, figures_of_queue, picker
from kestrelpy.http.metrics.route import router
from kestrelpy.http.metrics.scrapes import Scrapes, rendered

__all__ = [
    "FACTS", "SERIES", "STATES", "Scrapes", "figures_of_queue", "picker", "rendered", "router",
]  # fmt: skip
