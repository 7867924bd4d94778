"""Which consumer groups a look tells of, and what the log comes to know of them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import Any
from unittest import mock

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.backup import cluster_snapshot as snapshot_module
from kafkeep.backup.cluster_snapshot import ClusterSnapshot, take_snapshot
from kafkeep.backup.plan import CyclePlan, changed_groups
from kafkeep.backup.summary import BackupSummary
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.groups import GroupOffsets
from kafkeep.kafka.client.metadata import PartitionDescription, TopicDescription
from kafkeep.options.backup import BackupOptions

T, GONE, OLD = PartitionId("t", 2, 0), PartitionId("gone", 1, 0), PartitionId("t", 1, 0)
INFO = TopicInfo(
    topic="t", incarnation=2, topic_id="id", partitions=1, replication_factor=1, configs={}
)
AT_5: Mapping[tuple[str, int], int] = {("t", 0): 5}


class Groups:
    """Answers as Kafka does: all that are listed, or some by name."""

    def __init__(self, listed: GroupOffsets, named: GroupOffsets | TransientError) -> None:
        self._listed, self._named = listed, named
        self.asked: list[str] = []
        self.patience_s = 0.0

    def load(
        self, admin: Any, _topics: object, groups: Collection[str] | None = None
    ) -> GroupOffsets:
        if groups is None:
            return self._listed
        self.asked += groups
        self.patience_s = admin.routes.deadline() - time.monotonic()
        if isinstance(self._named, TransientError):
            raise self._named
        return self._named


def snapshot(groups: Groups, known: Mapping[str, set[str]]) -> ClusterSnapshot:
    admin = mock.Mock()
    topic = TopicDescription("t", "id", partitions={0: PartitionDescription(0, 1, 0, (1,))})
    admin.topics.return_value = {"t": topic}
    admin.topic_configs.return_value = {"t": {}}
    admin.offsets.return_value = {("t", 0): 9}
    admin.partition_sizes.return_value = admin.offsets_for_times.return_value = {}
    with mock.patch.object(snapshot_module, "load_group_offsets", groups.load):
        options = BackupOptions(topics=("t",), group="connect-t")
        return take_snapshot(admin, options, now_ms=1, known_groups=known)


def told(seen: ClusterSnapshot, before: Mapping[str, Mapping[PartitionId, int]]) -> Any:
    return changed_groups(seen.groups, {"t": INFO}, {T: 9}, before)


def test_a_group_that_kafka_has_forgotten_is_forgotten() -> None:
    groups = Groups(GroupOffsets({"g": dict(AT_5)}), GroupOffsets())
    seen = snapshot(groups, {"g": {"t"}, "h": {"t"}, "of another topic": {"gone"}})
    assert groups.asked == ["h"]
    assert told(seen, {"g": {T: 5}, "h": {T: 3}}) == {"h": {}}


@pytest.mark.parametrize("silent", [TransientError("no coordinator"), GroupOffsets(denied=["h"])])
def test_a_group_that_gives_no_answer_stays_as_it_is_known(silent: Any) -> None:
    seen = snapshot(Groups(GroupOffsets(), silent), {"h": {"t"}})
    assert told(seen, {"h": {T: 3}}) == {}


def test_a_group_whose_coordinator_is_away_delays_no_snapshot() -> None:
    groups = Groups(GroupOffsets(), TransientError("no coordinator"))
    snapshot(groups, {"h": {"t"}})
    assert groups.asked == ["h"] and groups.patience_s < 6


def test_a_group_that_was_not_listed_and_answers_is_reported() -> None:
    seen = snapshot(Groups(GroupOffsets(), GroupOffsets({"h": dict(AT_5)})), {"h": {"t"}})
    assert told(seen, {"h": {T: 3}}) == {"h": {T: 5}}


def test_groups_that_may_not_be_read_are_named_and_the_writers_own_is_left_out() -> None:
    listed = GroupOffsets({"connect-t": dict(AT_5)}, denied=["secret"])
    seen = snapshot(Groups(listed, GroupOffsets()), {})
    assert seen.groups == {} and seen.skipped_groups == ("secret",)
    summary = BackupSummary()
    assert summary.exit_code == 0
    nothing = CyclePlan(
        stretches=(), gaps=(), topics=(), positions={}, spans={}, waiting={}, blocked=()
    )
    summary.note_snapshot(seen, nothing)
    assert summary.exit_code == 3 and summary.to_json()["skipped_groups"] == ["secret"]


def test_a_group_keeps_its_offsets_on_topics_that_are_gone_or_were_recreated() -> None:
    seen = snapshot(Groups(GroupOffsets({"g": dict(AT_5)}), GroupOffsets()), {})
    before = {"g": {T: 3, GONE: 7, OLD: 8}}
    assert told(seen, before) == {"g": {T: 5, GONE: 7, OLD: 8}}
