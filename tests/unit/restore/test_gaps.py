"""Gaps that a restore tells: those of what it was asked for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.archive_builder import (
    FIRST_MS,
    ObjectPlan,
    PartitionPlan,
    build_archive,
    partition,
    records,
)

from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import OffsetPick
from kafkeep.restore.plan import plan_restore
from kafkeep.restore.source import gaps_of, load_contents
from kafkeep.store.memory import MemoryStore

FIRST, MIDDLE, LAST, OTHER = (0, 0), (0, 40), (0, 90), (1, 20)


@pytest.fixture(scope="module")
def view() -> ArchiveView:
    """Partition 0 lacks 0..9, 40..49 and 90..99; 1 lacks 20..29; u is another topic."""
    zero = [ObjectPlan(records=records(a, b)) for a, b in ((10, 30), (30, 40), (50, 90))]
    lost = [OffsetRange(start, start + 10) for start in (0, 40, 90)]
    store = MemoryStore()
    build_archive(
        store,
        {
            "t": [
                PartitionPlan(objects=zero, gaps=lost),
                partition(0, 20, gaps=[OffsetRange(20, 30)]),
            ],
            "u": [partition(5, 9, gaps=[OffsetRange(0, 5)])],
        },
    )
    return load_view(store, "backup")


def told(view: ArchiveView, **asked: Any) -> list[tuple[int, int]]:
    """Return partition and start of each gap that is told."""
    options = RestoreOptions(topics=(("t", "t"),), **asked)
    plan = plan_restore(load_contents(view, options), options, id="x")
    return [(gap["partition"], gap["start"]) for gap in gaps_of(view, plan)]


def test_gaps_of_the_topics_are_reported(view: ArchiveView) -> None:
    assert told(view) == [FIRST, MIDDLE, LAST, OTHER]


def test_gaps_outside_the_selection_are_not_reported(
    view: ArchiveView,
) -> None:
    assert told(view, partitions=frozenset({1})) == [OTHER]
    for start, end, gaps in (
        (10, 40, []),
        (10, 41, [MIDDLE]),
        (49, 90, [MIDDLE]),
        (50, 95, [LAST]),
        (0, 100, [FIRST, MIDDLE, LAST]),
    ):
        assert told(view, offsets=(OffsetPick("t", 0, OffsetRange(start, end)),)) == gaps


def test_times_leave_out_no_gap_for_nobody_knows_those_of_lost_records(view: ArchiveView) -> None:
    late = FIRST_MS + 1000
    assert told(view, from_ms=late, until_ms=late + 1) == [FIRST, MIDDLE, LAST, OTHER]


def test_a_follower_reports_every_gap_of_its_topics(view: ArchiveView) -> None:
    picked = (OffsetPick("t", 0, OffsetRange(10, 30)),)
    options = RestoreOptions(topics=(("t", "t"),), offsets=picked)
    plan = plan_restore(load_contents(view, options), options, id="x")
    assert len(gaps_of(view, plan, everywhere=True)) == 4
