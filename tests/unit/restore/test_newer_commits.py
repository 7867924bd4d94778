"""What the same command would not bring back, as an archive goes on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.packed_entries import NO_ENTRIES
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.selection import TimeRange
from kafkeep.restore.source import newer_topics

INFO = TopicInfo(
    topic="t", incarnation=1, topic_id="a", partitions=2, replication_factor=1, configs={}
)
RENAMED = RestoreOptions(topics=(("t", "new"),))


def view(*ends: int, **others: int) -> Any:
    """Return where each partition of t ends, and of which other incarnations there is something."""
    positions = {PartitionId("t", 1, number): end for number, end in enumerate(ends)}
    positions |= {PartitionId("t", int(n.strip("_")), 0): end for n, end in others.items()}
    return SimpleNamespace(
        positions=positions, topics={(p.topic, p.incarnation) for p in positions}
    )


def newer(newest: Any, options: RestoreOptions = RENAMED, **picked: Any) -> list[str]:
    parts = tuple(PartitionPlan(number, NO_ENTRIES, **picked) for number in range(2))
    plan = RestorePlan("id", "backup", 3, (TopicPlan(INFO, "new", parts),))
    return newer_topics(view(10, 20), newest, plan, options)


def test_offsets_that_were_archived_since_are_newer() -> None:
    assert newer(view(10, 20)) == []
    assert newer(view(10, 21)) == ["new"]
    assert newer(view(10, 20, 5)) == ["new"], "a partition that was added"


def test_a_recreated_topic_is_newer_unless_the_old_one_was_chosen() -> None:
    assert newer(view(10, 20, _2=3)) == ["new"]
    assert newer(view(10, 20, _2=3), replace(RENAMED, incarnations=(("t", 1),))) == []


def test_a_topic_that_was_met_since_is_newer_if_it_is_asked_for() -> None:
    newest = view(10, 20)
    newest.topics.add(("u", 1))
    assert newer(newest) == []
    assert newer(newest, RestoreOptions()) == ["u"]


@pytest.mark.parametrize(
    ("picked", "expected"),
    [
        ({"ranges": (OffsetRange(0, 15),)}, ["new"]),
        ({"ranges": (OffsetRange(0, 10),)}, []),
        ({"ranges": ()}, []),
        ({"times": TimeRange(from_ms=5)}, ["new"]),
        ({"times": TimeRange(until_ms=5)}, []),
    ],
)
def test_what_was_not_asked_for_is_not_missed(picked: Any, expected: list[str]) -> None:
    assert newer(view(12, 20), **picked) == expected
