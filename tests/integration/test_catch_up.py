"""A backlog in many partitions becomes whole segments, whatever the size of a cycle."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from tests.support.cluster import Cluster
from tests.support.independent_client import assert_same, dump
from tests.support.run_kafkeep import kafkeep

from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import load_view
from kafkeep.backup.cycle_budget import count_segments
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
PARTITIONS, BATCHES, ROWS = 24, 40, 10
KIB = 1024


def fill(cluster: Cluster, topic: str) -> int:
    """Produce batches of about 4 KiB into every partition; return the bytes of one."""
    cluster.create(topic, partitions=PARTITIONS)
    now = time.time_ns() // 1_000_000
    records = [Record(n, now, b"%d" % n, bytes([n]) * 390) for n in range(ROWS)]
    batch = build_batch(records)
    for partition in range(PARTITIONS):
        cluster.raw(topic, [batch] * BATCHES, partition)
    return len(batch) * BATCHES


def test_ten_cycles_over_many_partitions_write_whole_segments(
    cluster: Cluster, topic_name: str, archive_address: str
) -> None:
    held = fill(cluster, topic_name)
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive_address)
    sizes = ("--segment-bytes", "40KiB", "--cycle-bytes", "400KiB")
    done = kafkeep("backup", *where, "--topics", topic_name, *sizes, "--output", "json").expect(0)
    assert done.json["records"] == PARTITIONS * BATCHES * ROWS
    store = open_store(archive_address, StorageOptions.from_env())
    view = load_view(store, "backup")
    entries = view.entries()
    per_partition = Counter(entry.partition_id.partition for entry in entries)
    # A slice of each partition in each cycle would make ten objects of each partition.
    assert view.state.commit >= 20
    assert set(per_partition.values()) == {count_segments(held, 40 * KIB)}
    assert min(entry.raw_bytes for entry in entries) > 30 * KIB
    assert max(entry.raw_bytes for entry in entries) < 60 * KIB
    assert check_log(store, "backup") == []
    kafkeep("restore", *where, "--topics", f"{topic_name}:{topic_name}-back").expect(0)
    before = dump(cluster.bootstrap, topic_name)
    assert_same(before, dump(cluster.bootstrap, f"{topic_name}-back"))
