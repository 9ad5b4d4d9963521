"""`python -m kestrelpy.spark.jobs.drain`, and the file for spark-submit."""

import sys

from kestrelpy.spark.jobs.drain import main

if __name__ == "__main__":
    sys.exit(main())
