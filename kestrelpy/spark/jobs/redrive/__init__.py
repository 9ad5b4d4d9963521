"""Dead letters of many servers, back to their queues or to another."""

from kestrelpy.spark.jobs.redrive import redrive

__all__ = ["redrive"]
