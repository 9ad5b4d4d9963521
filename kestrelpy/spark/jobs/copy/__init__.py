"""Items of a fleet into queues of another one, each once."""

from kestrelpy.spark.jobs.copy import copy

__all__ = ["copy"]
