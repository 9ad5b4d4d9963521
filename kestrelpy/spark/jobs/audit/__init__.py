"""The audit: each item has one end, and the sums of each queue add up."""

from kestrelpy.spark.jobs.audit import audit

__all__ = ["audit"]
