"""kafkeep under ``spark-submit``: takes the session that was submitted; see spark-submit.md."""

from __future__ import annotations

from pyspark.sql import SparkSession

from kafkeep.cli.main import main

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    main()
