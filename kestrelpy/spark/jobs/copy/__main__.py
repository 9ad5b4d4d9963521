"""`python -m kestrelpy.spark.jobs.copy`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.copy import main

if __name__ == "__main__":
    sys.exit(main())
