"""Groups are moved once."""

from __future__ import annotations

from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.options import NO_OPTIONS
from kafkeep.errors import TransientError
from kafkeep.kafka.admin import TopicDescription
from kafkeep.kafka.coordinators import GroupOffsets
from kafkeep.restore import group_job
from kafkeep.restore.group_job import GroupJob
from kafkeep.restore.groups import GroupMove, GroupPlan
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.store.memory import MemoryStore

INFO = TopicInfo(
    topic="t", incarnation=1, topic_id="archived", partitions=1, replication_factor=1, configs={}
)
TOPIC = TopicPlan(INFO, "t", (PartitionPlan(0, ()),))
PLAN = RestorePlan("id", "log", 1, (TOPIC,))
MOVES = GroupPlan((GroupMove("g", "t", 0, 10, 4),))


class Cluster:
    """One topic."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id

    def topics(self, _names: object) -> dict[str, TopicDescription]:
        return {"t": TopicDescription("t", self.topic_id)}


def job_on(topic_id: str) -> GroupJob:
    store, admin = MemoryStore(), Cluster(topic_id)
    return GroupJob(
        plan=PLAN,
        chosen={},
        options=RestoreOptions(),
        reading=NO_OPTIONS,
        admin=admin,  # type: ignore[arg-type]
        store=store,
        documents=store,
        now_ms=lambda: 1,
    )


def test_groups_that_were_noted_and_not_moved_are_moved_by_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    committed: list[dict[tuple[str, int], int]] = []
    away = [TransientError("the coordinator is away")]

    def commit(_admin: Any, _group: str, offsets: dict[tuple[str, int], int]) -> None:
        if away:
            raise away.pop()
        committed.append(offsets)

    monkeypatch.setattr(group_job, "active_groups", lambda *_: [])
    monkeypatch.setattr(group_job, "load_group_offsets", lambda *_: GroupOffsets())
    monkeypatch.setattr(group_job, "commit_offsets", commit)
    job = job_on("archived")
    with pytest.raises(TransientError):
        job.apply(MOVES)
    assert not job.has_moved()
    job.apply(MOVES)
    assert job.has_moved() and committed == [{("t", 0): 4}]
