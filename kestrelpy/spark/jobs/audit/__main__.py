"""`python -m kestrelpy.spark.jobs.audit`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.audit import main

if __name__ == "__main__":
    sys.exit(main())
