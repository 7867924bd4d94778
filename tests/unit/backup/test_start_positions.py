"""Where a log begins with partitions it has not met."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest

from kafkeep.archive.commit import LogSpan, TopicInfo
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.backup.cluster_snapshot import (
    ClusterSnapshot,
    PartitionSnapshot,
    TopicSnapshot,
    complete_snapshot,
    describe_topics,
    is_unchanged,
    require_topics,
    take_snapshot,
)
from kafkeep.backup.incarnations import LoggedState
from kafkeep.backup.plan import CycleBacklog, PlanInput, plan_cycle
from kafkeep.backup.start_positions import first_positions, takeover_note
from kafkeep.cli.backup import BackupFlags, parse_backup
from kafkeep.errors import PreflightError, UsageError
from kafkeep.kafka.admin.groups import GroupOffsets
from kafkeep.options.backup import BackupOptions

P0, P1 = PartitionId("t", 1, 0), PartitionId("t", 1, 1)
NEW = LoggedState({}, {})


def snapshot(*spans: tuple[int, int]) -> ClusterSnapshot:
    partitions = tuple(PartitionSnapshot(LogSpan(*span), span[1], 1, 1000) for span in spans)
    return ClusterSnapshot(1000, {"t": TopicSnapshot("t", "id", 1, {}, partitions)}, {})


def known(**changes: Any) -> LoggedState:
    values: dict[str, Any] = {"topic": "t", "incarnation": 1, "topic_id": "id", "partitions": 1}
    info = TopicInfo(**{**values, **changes}, replication_factor=1, configs={})
    return LoggedState({}, {"t": info})


@pytest.mark.parametrize(
    ("start_at", "group", "expected"),
    [
        ("earliest", {}, {}),
        ("latest", {}, {P0: 9, P1: 5}),
        ("earliest", {("t", 0): 4}, {P0: 4}),
        ("latest", {("t", 0): 4}, {P0: 4, P1: 5}),
        ("earliest", {("t", 0): 10}, {}),  # of a topic that was there before
        ("latest", {("t", 0): 10}, {P0: 9, P1: 5}),
        ("earliest", {("other", 0): 4}, {}),
    ],
)
def test_a_topic_begins_at_the_groups_or_the_configured_offsets(
    start_at: str, group: dict[tuple[str, int], int], expected: dict[PartitionId, int]
) -> None:
    seen = snapshot((2, 9), (0, 5))
    assert first_positions(PlanInput.of(seen, NEW), start_at=start_at, group=group) == expected


def test_partitions_a_known_topic_gains_begin_at_their_beginning() -> None:
    given = PlanInput.of(snapshot((0, 9), (0, 5)), known())
    assert first_positions(given, start_at="latest", group={}) == {}


def test_what_kafka_deleted_past_the_groups_offset_is_a_gap() -> None:
    options = BackupOptions(topics=("t",))
    given = PlanInput.of(snapshot((6, 9)), NEW)
    plan = plan_cycle(given, options, CycleBacklog(), starts={P0: 4})
    assert [gap.range for gap in plan.gaps] == [OffsetRange(4, 6)]
    assert plan.positions == {P0: 6}


def test_a_note_says_what_was_taken_over() -> None:
    note = takeover_note("connect-a", {("t", 0): 4}, {P0: 4, P1: 5})
    assert note == "positions of 1 partitions taken over from group connect-a"
    assert takeover_note("connect-a", {}, {P1: 5}) == ""


def test_a_growth_check_sees_growth_and_deleted_topics() -> None:
    admin, before = mock.Mock(), snapshot((0, 9), (0, 5))
    admin.offsets.return_value = {("t", 0): 9, ("t", 1): 5}
    assert is_unchanged(admin, before)
    admin.offsets.return_value = {("t", 0): 9, ("t", 1): 6}
    assert not is_unchanged(admin, before)
    admin.offsets.side_effect = PreflightError("t-0 does not exist")
    assert not is_unchanged(admin, before)


def test_details_are_believed_for_the_same_topics_alone() -> None:
    admin = _admin("id-1")
    options = BackupOptions(topics=("t",), details_ms=30_000, group="connect-own")
    with mock.patch("kafkeep.backup.cluster_snapshot.load_group_offsets") as groups:
        offsets = {"connect-own": {("t", 0): 3}, "other": {("t", 0): 2}}
        groups.return_value = GroupOffsets(offsets)
        first = take_snapshot(admin, options, now_ms=1000)
        assert first.groups == {"other": {("t", 0): 2}}
        again = take_snapshot(admin, options, now_ms=2000, details=first.details)
        assert (groups.call_count, admin.topic_configs.call_count) == (1, 1)
        assert again.topics["t"].partitions[0].size_bytes == 1000
        admin.topics.return_value = _admin("id-2").topics.return_value
        take_snapshot(admin, options, now_ms=3000, details=first.details)
        assert (groups.call_count, admin.topic_configs.call_count) == (2, 2)


def test_a_snapshot_is_completed_without_asking_for_topics_and_offsets_again() -> None:
    admin, options = _admin("id-1"), BackupOptions(topics=("t",))
    admin.epoch_ends.return_value = {("t", 0): mock.Mock(end_offset=7)}
    with mock.patch(
        "kafkeep.backup.cluster_snapshot.load_group_offsets", return_value=GroupOffsets()
    ):
        first = take_snapshot(admin, options, now_ms=1000)
        before = (admin.topics.call_count, admin.offsets.call_count)
        whole = complete_snapshot(admin, options, first, epochs={("t", 0): 3})
    assert whole.topics["t"].partitions[0].epoch_end == 7
    assert (admin.topics.call_count, admin.offsets.call_count) == before == (1, 3)


@pytest.mark.parametrize("regex", [r"\Qt\E", r"\p{Lower}", "(?<any>.)", "t|other"])
def test_topics_are_chosen_by_expressions_of_java(regex: str) -> None:
    admin = _admin("id-1")
    admin.topics.return_value["T+"] = admin.topics.return_value["t"]
    with mock.patch(
        "kafkeep.backup.cluster_snapshot.load_group_offsets", return_value=GroupOffsets()
    ):
        found = take_snapshot(admin, BackupOptions(topics_regex=regex), now_ms=1000)
    assert list(found.topics) == ["t"]


@pytest.mark.parametrize("regex", ["zzz", "T", "__.*"])
def test_a_pattern_that_no_topic_matches_is_refused_by_name(regex: str) -> None:
    admin = _admin("id-1")
    admin.topics.return_value["__offsets"] = admin.topics.return_value["t"]
    with pytest.raises(UsageError) as refused:
        require(admin, regex)
    assert refused.value.message == f"no topic in Kafka matches {regex}" and refused.value.hint
    require(admin, "t|zzz")


def require(admin: Any, regex: str) -> None:
    options = BackupOptions(topics_regex=regex)
    require_topics(describe_topics(admin, options), options)


def _admin(topic_id: str) -> mock.Mock:
    leader = mock.Mock(leader=1)
    topic = mock.Mock(
        topic_id=topic_id,
        partition_count=1,
        replication_factor=1,
        partitions=[leader],
        internal=False,
    )
    topic.name = "t"
    admin = mock.Mock()
    admin.topics.return_value = {"t": topic}
    admin.topic_configs.return_value = {"t": {}}
    admin.offsets.side_effect = lambda asked, spec: dict.fromkeys(
        asked, 0 if spec.value == "earliest" else 10
    )
    admin.partition_sizes.return_value = {("t", 0): 1000}
    admin.offsets_for_times.return_value = {}
    return admin


def test_backup_begins_where_a_connectors_file_says() -> None:
    asked = BackupFlags(archive="memory:x", settings=["consumer.override.auto.offset.reset=latest"])
    assert parse_backup({"topics": "t"}, asked).options.start_at == "latest"
