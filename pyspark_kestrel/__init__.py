"""How Spark finds `format("kestrel")`: it imports every top-level module called `pyspark_...`.

One rule: importing this never raises and loads nothing heavy. Spark does it for the first Python
source that anybody asks for, and an error here would take all others away with it.
"""

from contextlib import suppress

# Without it, or with a Spark that knows no Python sources, there is just no such format.
with suppress(ImportError):
    from kestrelpy.spark.source import KestrelSource as DefaultSource  # noqa: F401
