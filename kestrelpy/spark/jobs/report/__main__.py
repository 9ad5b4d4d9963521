"""`python -m kestrelpy.spark.jobs.report`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.report import main

if __name__ == "__main__":
    sys.exit(main())
