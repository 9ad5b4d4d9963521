"""`python -m kestrelpy.spark.jobs.redrive`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.redrive import main

if __name__ == "__main__":
    sys.exit(main())
