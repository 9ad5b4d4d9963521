"""`python -m kestrelpy.spark.jobs.backfill`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.backfill import main

if __name__ == "__main__":
    sys.exit(main())
