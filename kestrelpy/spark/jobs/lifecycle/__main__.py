"""`python -m kestrelpy.spark.jobs.lifecycle`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.lifecycle import main

if __name__ == "__main__":
    sys.exit(main())
