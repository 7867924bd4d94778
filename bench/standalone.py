"""A standalone Spark cluster of two workers with a core each, beside local mode with two cores."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

from tests.support.spark_cluster import EXECUTORS, spark_cluster, spark_conf

from bench import topics
from bench.beside import Numbers
from bench.in_turn import TIMES, in_turn, limits, ratios, there_and_back
from bench.runs import delete
from kafkeep.dev import DevStatus

LOCAL = {"spark.master": "local[2,4]"}


def standalone_workers(status: DevStatus, records: int, repeat: int) -> Numbers:
    """Back up and restore a topic of 4 partitions: a cluster's workers import on their own."""
    topic = "bench-standalone"
    topics.create(status.bootstrap_servers, topic, 4)
    topics.fill(status.bootstrap_servers, topic, records, 4)
    with (
        tempfile.TemporaryDirectory(prefix="kafkeep-bench-") as folder,
        spark_cluster(Path(folder) / "spark") as cluster,
    ):
        ways = {
            name: partial(there_and_back, status, topic, *spark_conf(settings))
            for name, settings in {
                "local": LOCAL,
                "two workers": {"spark.master": cluster.address, **EXECUTORS},
            }.items()
        }
        in_turn(ways, 1)  # warms the page cache
        measured = in_turn(ways, repeat)
    delete(status, topic)
    return ratios(measured, "two workers", "local", limits(TIMES, 1.2))
