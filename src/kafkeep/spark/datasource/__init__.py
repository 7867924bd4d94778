"""``spark.read.format("kafkeep")``."""
