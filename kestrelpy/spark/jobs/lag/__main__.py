"""`python -m kestrelpy.spark.jobs.lag`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.lag import main

if __name__ == "__main__":
    sys.exit(main())
