"""Kafka deletes records between the plan and the task that was to read them: a gap is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cluster import Cluster, until
from tests.support.independent_client import assert_same, count, dump
from tests.support.run_kafkeep import kafkeep

from kafkeep import failpoint
from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.log_check import check_log
from kafkeep.archive.view import load_view
from kafkeep.backup import log_writer, reconcile_reports
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("spark")]
BATCHES, ROWS = 40, 100
CUT = 1550
"""Inside a batch; of many ranges, several lie in front of it."""


@pytest.fixture
def split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several tasks read a partition, however small it is."""
    monkeypatch.setattr(reconcile_reports, "SMALLEST_SPLIT_BYTES", 1)
    monkeypatch.setattr(reconcile_reports, "SMALLEST_BUNDLE_BYTES", 1)
    monkeypatch.setattr(log_writer, "RANGES_PER_SLOT", 5)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Hold a backup of this process once its plan is in the log, until the gate is there."""
    monkeypatch.setenv("KAFKEEP_FAILPOINT_TRACE", str(tmp_path / "trace"))
    monkeypatch.setenv("KAFKEEP_FAILPOINT_GATE", str(tmp_path / "gate"))
    failpoint.arm("intent.after:hold@1")
    yield tmp_path / "gate"
    failpoint.arm("")


def delete_meanwhile(cluster: Cluster, topic: str, gate: Path) -> threading.Thread:
    """Delete records when the plan is in the log, and let the tasks read then."""

    def delete() -> None:
        try:
            until(gate.with_name("trace").exists, "the plan is in the log")
            cluster.delete_records(topic, CUT)
        finally:
            gate.touch()

    thread = threading.Thread(target=delete)
    thread.start()
    return thread


def check_gap(cluster: Cluster, archive: str, topic: str, least_objects: int) -> None:
    """The run names what it lost and archives the rest; the next one finds nothing to do."""
    where = ("--bootstrap-servers", cluster.bootstrap, "--archive", archive, "--output", "json")
    done = kafkeep("backup", *where, "--topics", topic).expect(3)
    left = BATCHES * ROWS - CUT
    assert done.json["records"] == left
    told = [OffsetRange(gap["start"], gap["end"]) for gap in done.json["gaps"]]
    assert told == [OffsetRange(0, CUT)]
    assert all(f"offsets {r.start} to {r.end - 1} are lost" in done.stderr for r in told)
    store = open_store(archive, StorageOptions.from_env())
    view = load_view(store, "backup")
    assert [gap.range for gap in view.gaps] == [OffsetRange(0, CUT)]
    assert len(view.entries()) >= least_objects and check_log(store, "backup") == []
    assert kafkeep("backup", *where, "--topics", topic).expect(0).json["records"] == 0
    kafkeep("restore", *where, "--topics", f"{topic}:{topic}-back").expect(0, 3)
    before = dump(cluster.bootstrap, topic)
    assert count(before) == left
    assert_same(before, dump(cluster.bootstrap, f"{topic}-back"))


def fill(cluster: Cluster, topic: str) -> None:
    cluster.create(topic)
    now = time.time_ns() // 1_000_000
    rows = [Record(i, now, b"%d" % i, bytes(500)) for i in range(ROWS)]
    cluster.raw(topic, [build_batch(rows)] * BATCHES)


def test_records_deleted_between_plan_and_fetch_are_a_gap_and_the_rest_is_archived(
    cluster: Cluster, archive_address: str, topic_name: str, gate: Path
) -> None:
    fill(cluster, topic_name)
    deleting = delete_meanwhile(cluster, topic_name, gate)
    try:
        check_gap(cluster, archive_address, topic_name, least_objects=1)
    finally:
        deleting.join()


@pytest.mark.usefixtures("split")
def test_what_several_tasks_of_one_partition_lost_has_no_hole_and_no_overlap(
    cluster: Cluster, archive_address: str, topic_name: str, gate: Path
) -> None:
    fill(cluster, topic_name)
    deleting = delete_meanwhile(cluster, topic_name, gate)
    try:
        check_gap(cluster, archive_address, topic_name, least_objects=3)
    finally:
        deleting.join()
