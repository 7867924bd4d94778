"""What a target is held against follows from its restore's document, and is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from tests.support.archive_builder import build_archive, partition

from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.log import CommitLog
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.compare import job
from kafkeep.compare.plan import (
    ArchiveSide,
    RestoredTopic,
    TargetTopic,
    TopicComparison,
    as_restored,
    choose_topics,
    plan_topic,
)
from kafkeep.errors import PreflightError, UsageError
from kafkeep.options.kafka import KafkaOptions, Locations
from kafkeep.options.maintenance import CompareOptions
from kafkeep.options.spark import SparkOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.local.store import LocalStore
from kafkeep.store.memory import MemoryStore


@pytest.fixture
def view() -> ArchiveView:
    store = MemoryStore()
    parts = [partition(0, 10), partition(0, 20)]
    build_archive(store, {"t": parts, "t~2": [partition(0, 5)]})
    return load_view(store, "backup")


def plan(
    view: ArchiveView, restored: RestoredTopic, partitions: int, **given: Any
) -> TopicComparison:
    options = CompareOptions(**given)
    [(newest, _)] = choose_topics(view.topics, options)
    source = as_restored(view.topics, newest, restored, options)
    side = ArchiveSide(
        info=source,
        entries=view.entries("t", source.incarnation),
        log=view.name,
        commit=view.commit,
        is_newest=source.incarnation == 2,
    )
    offsets = {number: OffsetRange(0, 100) for number in range(partitions)}
    return plan_topic(side, TargetTopic("t", "id", offsets, restored=restored), options)


FIRST = ("t", 1)


def test_an_incarnation_that_was_restored_is_the_one_to_compare_with(view: ArchiveView) -> None:
    assert plan(view, RestoredTopic(), 1).source.incarnation == 2
    restored = plan(view, RestoredTopic(source=FIRST), 2)
    assert restored.source.incarnation == 1
    assert restored.notes == ("its restore used incarnation 1: compared with that incarnation",)
    assert plan(view, RestoredTopic(), 2, incarnations=(FIRST,)).source.incarnation == 1
    asked = plan(view, RestoredTopic(source=FIRST), 1, incarnations=(("t", 2),))
    assert asked.source.incarnation == 2
    with pytest.raises(UsageError, match="no incarnation 3") as refused:
        plan(view, RestoredTopic(), 1, incarnations=(("t", 3),))
    assert refused.value.hint == "It has: 1, 2."
    with pytest.raises(UsageError, match="topic u has no incarnation 1"):
        plan(view, RestoredTopic(), 1, incarnations=(("u", 1),))


def test_a_restore_of_another_commit_is_reported(view: ArchiveView) -> None:
    restored = RestoredTopic(commit=("backup", 0))
    [said] = plan(view, restored, 1).notes
    assert said == f"its restore used commit 0 of backup, this comparison uses {view.commit}"
    assert plan(view, RestoredTopic(commit=("backup", view.commit)), 1).notes == ()


def mapped(*pairs: tuple[int, int]) -> RestoredTopic:
    asked = {"partition_map": [list(pair) for pair in pairs], "exact": True}
    return RestoredTopic(asked=asked, source=FIRST)


def test_a_map_of_one_to_one_is_compared_partition_by_partition_with_offsets(
    view: ArchiveView,
) -> None:
    found = plan(view, mapped((0, 3), (1, 0)), 5)
    assert not found.by_key
    assert [(w.archive[0].partition, w.parts[0].partition) for w in found.work] == [(0, 3), (1, 0)]
    assert all(work.leniency.exact for work in found.work)


@pytest.mark.parametrize(
    "restored",
    [mapped((0, 0), (1, 0)), mapped((0, 1)), RestoredTopic(asked={"partition_count": 3})],
)
def test_offsets_are_not_asked_for_where_records_were_spread(
    view: ArchiveView, restored: RestoredTopic
) -> None:
    told = {"incarnations": (FIRST,)}
    assert plan(view, restored, 5, **told).by_key
    with pytest.raises(PreflightError, match="so their offsets changed"):
        plan(view, restored, 5, exact_offsets=True, **told)


def test_a_commit_of_several_logs_is_refused_before_any_is_compared(tmp_path: Path) -> None:
    for name in ("early", "late"):
        CommitLog.open(LocalStore(tmp_path), name, writer="w", now_ms=lambda: 1)
    kafka = KafkaOptions("127.0.0.1:1")
    locations = Locations(kafka=kafka, archive=str(tmp_path), storage=StorageOptions())
    asked = CompareOptions(commit=0)
    with (
        mock.patch.object(job, "BackgroundSession"),
        pytest.raises(PreflightError, match="a commit belongs to one of them: early, late"),
    ):
        job.run_compare(asked, locations, SparkOptions())
