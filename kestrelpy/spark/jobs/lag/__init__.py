"""How far each consumer is behind, over many servers."""

from kestrelpy.spark.jobs.lag import lag

__all__ = ["lag"]
