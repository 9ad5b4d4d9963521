"""Items of a fleet into queues of another one, each once."""

from kestrelpy.spark.jobs.copy import fleet_copy

__all__ = ["fleet_copy"]
