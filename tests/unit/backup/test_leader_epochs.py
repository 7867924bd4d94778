"""A log that Kafka cut back and grew again must not be mixed with what was archived."""

from __future__ import annotations

import pytest

from kafkeep.archive.commit import LogSpan, TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.backup.look import Look, PartitionLook, TopicLook
from kafkeep.backup.plan import Known, plan_cycle
from kafkeep.config.backup import BackupOptions
from kafkeep.errors import KafkeepError

PID = PartitionId("orders", 1, 0)
INFO = TopicInfo(
    topic="orders",
    incarnation=1,
    topic_id="A" * 22,
    partitions=1,
    replication_factor=1,
    configs={},
)


def _plan(epoch_end: int | None) -> None:
    partition = PartitionLook(LogSpan(0, 900), 900, 1, None, epoch_end)
    topic = TopicLook("orders", "A" * 22, 1, {}, (partition,))
    plan_cycle(
        Look(0, {"orders": topic}, {}),
        Known({PID: 500}, {"orders": INFO}),
        BackupOptions(topics=("orders",)),
        waiting={},
    )


def test_a_log_that_was_cut_back_and_grew_past_the_position_is_refused() -> None:
    with pytest.raises(KafkeepError, match="archived up to offset 500"):
        _plan(epoch_end=300)


@pytest.mark.parametrize("epoch_end", [None, 500, 900])
def test_a_log_whose_epoch_reaches_the_position_goes_on(epoch_end: int | None) -> None:
    _plan(epoch_end)
