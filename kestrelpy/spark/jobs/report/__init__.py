"""The report: figures, plots, and a page of HTML."""

from kestrelpy.spark.jobs.report import report

__all__ = ["report"]
