"""A log that Kafka truncated and extended must not be mixed with the archived log."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkeep.archive.commit import Intent, LogSpan, PlannedRange, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    TopicSnapshot,
    check_intent,
)
from kafkeep.backup.incarnations import LoggedState
from kafkeep.backup.plan import CycleBacklog, PlanInput, plan_cycle
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin.admin import EpochEnd, TopicDescription
from kafkeep.options.backup import BackupOptions

PID = PartitionId("orders", 1, 0)
INFO = TopicInfo(
    topic="orders",
    incarnation=1,
    topic_id="A" * 22,
    partitions=1,
    replication_factor=1,
    configs={},
)


def _plan(epoch_end: int | None, skip: frozenset[PartitionId] = frozenset()) -> None:
    partition = PartitionSnapshot(LogSpan(0, 900), 900, 1, None, epoch_end)
    topic = TopicSnapshot("orders", "A" * 22, 1, {}, (partition,))
    plan_cycle(
        PlanInput.of(
            ClusterSnapshot(0, {"orders": topic}, {}), LoggedState({PID: 500}, {"orders": INFO})
        ),
        BackupOptions(topics=("orders",)),
        CycleBacklog(),
        skip=skip,
    )


def test_a_log_that_was_cut_back_and_grew_past_the_position_is_refused() -> None:
    with pytest.raises(KafkeepError, match="archived up to offset 500"):
        _plan(epoch_end=300)


@pytest.mark.parametrize("epoch_end", [None, 500, 900])
def test_a_log_whose_epoch_reaches_the_position_continues(epoch_end: int | None) -> None:
    _plan(epoch_end)


def test_a_log_that_was_cut_back_is_refused_though_an_earlier_plan_of_it_is_open() -> None:
    with pytest.raises(KafkeepError, match="archived up to offset 500"):
        _plan(epoch_end=300, skip=frozenset({PID}))


@dataclass
class FakeAdmin:
    """A cluster whose one topic has this id, and whose epoch 5 ends there."""

    topic_id: str
    epoch_end: int

    def topics(self, _names: list[str]) -> dict[str, TopicDescription]:
        return {"orders": TopicDescription("orders", self.topic_id, {}, False)}

    def epoch_ends(self, epochs: dict[tuple[str, int], int]) -> dict[tuple[str, int], EpochEnd]:
        assert epochs == {("orders", 0): 5}
        return {("orders", 0): EpochEnd(5, self.epoch_end)}


def _finish_intent(admin: FakeAdmin) -> None:
    planned = PlannedRange(partition_id=PID, topic_id="A" * 22, range=OffsetRange(500, 800))
    intent = Intent(ranges=(planned,), options={}, at_ms=0)
    state = LogState(name="backup", positions={PID: 500}, leader_epochs={PID: 5})
    check_intent(admin, intent, state)  # type: ignore[arg-type]


def test_a_dead_writers_intent_is_not_finished_on_a_log_that_was_cut_back() -> None:
    with pytest.raises(KafkeepError, match="archived up to offset 500"):
        _finish_intent(FakeAdmin("A" * 22, 300))


@pytest.mark.parametrize("admin", [FakeAdmin("A" * 22, 500), FakeAdmin("B" * 22, 300)])
def test_a_dead_writers_intent_is_finished_on_its_log_and_left_to_tasks_on_another(
    admin: FakeAdmin,
) -> None:
    _finish_intent(admin)
