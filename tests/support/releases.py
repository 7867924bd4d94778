"""The releases that the tests run on: the defaults, or what the environment asks for."""

from __future__ import annotations

import os

import pyspark
import pytest

TEST_KAFKA = os.environ.get("KAFKEEP_TEST_KAFKA") or None
"""The release of Kafka; None is the default."""
TEST_SPARK = tuple(int(part) for part in pyspark.__version__.split(".")[:2])

needs_data_sources = pytest.mark.skipif(
    TEST_SPARK < (4, 0), reason="refused: Spark 3.5 has no Python data sources"
)
needs_filter_pushdown = pytest.mark.skipif(
    TEST_SPARK < (4, 1), reason="before Spark 4.1, Python data sources get no filters"
)
