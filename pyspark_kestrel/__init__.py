"""How Spark finds `format("kestrel")`: it imports every top-level module called `pyspark_...`.

One rule: an import of this never raises and loads nothing heavy. Spark imports it for the first
Python source of a session, and an error here would hide all other sources.
"""

from contextlib import suppress

# Without pyspark, or if Spark is too old for Python sources, there is no such format.
with suppress(ImportError):
    from kestrelpy.spark.source import KestrelSource as DefaultSource  # noqa: F401
