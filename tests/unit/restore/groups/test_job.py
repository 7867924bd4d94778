"""Groups are moved once, and only where it is known where each record stands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.archive_builder import build_archive, partition

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.packed_entries import NO_ENTRIES
from kafkeep.archive.view import load_view
from kafkeep.check_result import CheckStatus
from kafkeep.errors import PreflightError, TransientError
from kafkeep.kafka.admin.admin import TopicDescription
from kafkeep.kafka.admin.groups import GroupOffsets
from kafkeep.kafka.client.metadata import PartitionDescription
from kafkeep.objects.sink.spec import NO_OPTIONS
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument, Target, TargetPartition
from kafkeep.restore.groups import history
from kafkeep.restore.groups import job as group_job
from kafkeep.restore.groups.job import GroupJob
from kafkeep.restore.groups.plan import GroupMove, GroupPlan
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan, plan_restore
from kafkeep.restore.preflight import Preflight
from kafkeep.restore.routing.routing import Routing
from kafkeep.restore.run import _require_known
from kafkeep.restore.source import load_contents
from kafkeep.store.memory import MemoryStore

INFO = TopicInfo(
    topic="t", incarnation=1, topic_id="archived", partitions=1, replication_factor=1, configs={}
)
TOPIC = TopicPlan(INFO, "t", (PartitionPlan(0, NO_ENTRIES),))
PLAN = RestorePlan("id", "log", 1, (TOPIC,))
MOVES = GroupPlan((GroupMove("g", "t", 0, 10, 4),))


class Cluster:
    """One topic."""

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id

    def topics(self, _names: object) -> dict[str, TopicDescription]:
        only = {0: PartitionDescription(0, 1, 0, (1,))}
        return {"t": TopicDescription("t", self.topic_id, partitions=only)}

    def offsets(self, partitions: list[tuple[str, int]], _spec: object) -> dict[Any, int]:
        return dict.fromkeys(partitions, 100)


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

    monkeypatch.setattr(history, "active_groups", lambda *_: [])
    monkeypatch.setattr(history, "load_group_offsets", lambda *_: GroupOffsets())
    monkeypatch.setattr(history, "commit_offsets", commit)
    job = job_on("archived")
    with pytest.raises(TransientError):
        job.apply(MOVES)
    assert not job.has_moved()
    job.apply(MOVES)
    assert job.has_moved() and committed == [{("t", 0): 4}]


def test_a_missing_group_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_job, "active_groups", lambda *_: [])
    [told] = job_on("archived").checks(GroupPlan())
    assert (told.verdict, told.subject) == (
        CheckStatus.WARN,
        "groups",
    ) and "none is moved" in told.what
    assert job_on("archived").checks(MOVES) == []
    refused = GroupPlan(refused=("group g has no place in t-0",))
    assert [c.verdict for c in job_on("archived").checks(refused)] == [CheckStatus.FAIL]


def test_a_target_with_too_few_partitions_is_left_to_the_preflight() -> None:
    store = MemoryStore()
    build_archive(store, {"t": [partition(0, 30)]})
    options = RestoreOptions(partition_count=3, groups=("g",))
    plan = plan_restore(load_contents(load_view(store, "backup"), options), options, id="id")
    job = job_on("somebody's")
    job.plan, job.store, job.chosen = plan, store, {"g": {PartitionId("t", 1, 0): 30}}
    moves = job.plan_moves(None)
    assert [move.partition for move in moves.moves] == [0, 1, 2] and not moves.refused
    assert moves.moves[0].offset > 100 and sum(move.offset for move in moves.moves) == 130


def document(phase: Phase) -> RestoreDocument:
    target = Target("t", 1, "t", False, {}, "restored", (TargetPartition(0, 7, 0),))
    return RestoreDocument(
        id="id", revision=1, phase=phase, log="log", commit=1, cluster_id="c", at_ms=1,
        targets=(target,),
    )  # fmt: skip


def found(routing: Routing, phase: Phase | None) -> Preflight:
    plan = replace(PLAN, topics=(replace(TOPIC, routing=routing),), routing=routing)
    return Preflight(plan, (), document(phase) if phase else None, frozenset())


SAME, SHIFTED = Routing(), Routing(shift_ms=5)


@pytest.mark.parametrize(
    ("topic_id", "routing", "phase"),
    [
        ("archived", SAME, None),
        ("archived", SAME, Phase.WRITING),
        ("restored", SAME, Phase.DONE),
        ("restored", SHIFTED, Phase.DONE),
    ],
)
def test_topics_of_the_archive_and_of_the_restore_are_known(
    topic_id: str, routing: Routing, phase: Phase | None
) -> None:
    _require_known(job_on(topic_id), found(routing, phase))


@pytest.mark.parametrize(
    ("topic_id", "routing", "phase", "why"),
    [
        ("other", SAME, Phase.DONE, "neither the one that was archived"),
        ("archived", SHIFTED, None, "neither the one that was archived"),
        ("restored", SAME, Phase.WRITING, "does not hold all of its records yet"),
    ],
    ids=["somebody else's", "not what the options say", "cut off"],
)
def test_topics_with_unknown_offsets_are_refused(
    topic_id: str, routing: Routing, phase: Phase | None, why: str
) -> None:
    with pytest.raises(PreflightError, match=why):
        _require_known(job_on(topic_id), found(routing, phase))
