"""Spark's Python daemon without Spark's archives on the path, which every task would read anew.

The workers need nothing of them: pyspark is installed. Named by `spark.python.daemon.module`.
"""

import sys

from pyspark.daemon import manager

if __name__ == "__main__":
    sys.path[:] = [place for place in sys.path if not place.endswith((".jar", ".zip"))]
    sys.path_importer_cache.clear()
    manager()
