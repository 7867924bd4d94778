"""Whether enough replicas are in sync, judged before a restore writes."""

from __future__ import annotations

from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.check_result import CheckStatus
from kafkeep.errors import AccessDeniedError
from kafkeep.kafka.admin.admin import TopicDescription
from kafkeep.kafka.admin.cluster import ConfigValue
from kafkeep.kafka.client.metadata import PartitionDescription
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.preflight import check_targets, take_target_snapshot

SOURCE = TopicInfo(
    topic="a", incarnation=1, topic_id="old", partitions=1, replication_factor=1, configs={}
)
PLAN = RestorePlan("abc", "backup", 3, (TopicPlan(SOURCE, "a", (plan_partition(0, ()),)),))


class Admin:
    """A cluster with one empty topic, and settings that may be hidden."""

    def __init__(self, replicas: int, in_sync: int, needed: int | None, version: int) -> None:
        self.partition = PartitionDescription(
            0, 1, 0, tuple(range(replicas)), tuple(range(in_sync))
        )
        self.needed, self.version = needed, version

    def topics(self, _names: object) -> dict[str, TopicDescription]:
        return {"a": TopicDescription("a", "now", partitions={0: self.partition})}

    def cluster_id(self) -> str:
        return "c"

    def brokers(self) -> list[int]:
        return [1, 2, 3]

    def broker_version(self) -> tuple[int, int]:
        return (3, self.version)

    def offsets(self, partitions: list[tuple[str, int]], _: object) -> dict[Any, int]:
        return dict.fromkeys(partitions, 0)

    def all_topic_configs(self, names: list[str]) -> dict[str, dict[str, ConfigValue]]:
        if self.needed is None:
            raise AccessDeniedError("no")
        value = ConfigValue(str(self.needed), "topic", False)
        return {name: {"min.insync.replicas": value} for name in names}


@pytest.mark.parametrize(
    ("replicas", "in_sync", "needed", "version", "verdict"),
    [
        (3, 3, 2, 9, CheckStatus.PASS),
        (3, 2, 2, 9, CheckStatus.PASS),
        (3, 1, 2, 9, CheckStatus.FAIL),
        (1, 1, 2, 9, CheckStatus.PASS),  # Kafka asks for no more than there are
        (1, 1, 2, 6, CheckStatus.FAIL),  # older brokers refuse everything
        (3, 1, None, 9, CheckStatus.PASS),  # hidden: what rights are missing is told elsewhere
    ],
)
def test_a_target_is_refused_when_fewer_replicas_are_in_sync_than_kafka_wants(
    replicas: int, in_sync: int, needed: int | None, version: int, verdict: CheckStatus
) -> None:
    admin: Any = Admin(replicas, in_sync, needed, version)
    (check,) = check_targets(PLAN, take_target_snapshot(admin, PLAN), RestoreOptions(), None)
    assert check.verdict is verdict
    assert ("min.insync.replicas" in check.what) == (verdict is CheckStatus.FAIL)
