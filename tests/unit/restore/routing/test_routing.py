"""Options that route a restore, what they refuse, and what a plan says of them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.packed_entries import PackedEntries
from kafkeep.check_result import CheckStatus
from kafkeep.errors import UsageError
from kafkeep.options.restore import (
    RestoreOptions,
    parse_filter,
    parse_partition_count,
    parse_partition_map,
    parse_shift,
)
from kafkeep.restore.document import TargetPartition
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan, check_picks
from kafkeep.restore.routing.plan import check_routing, target_shares
from kafkeep.restore.routing.routing import Routing
from kafkeep.restore.task import TargetWork
from kafkeep.restore.work import LARGEST_BUNDLE_BYTES, pack_topics


def test_texts_are_understood() -> None:
    assert parse_partition_map("1:4, 0:3") == ((0, 3), (1, 4))
    assert parse_shift("+1h30m") == 5_400_000
    assert parse_shift("-30d") == -30 * 86_400_000
    assert parse_partition_count("12") == 12


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_partition_map, "0"),
        (parse_partition_map, "0:1,0:2"),
        (parse_partition_map, "0:x"),
        (parse_partition_count, "0"),
        (parse_partition_count, "-3"),
        (parse_shift, "1h"),
        (parse_shift, "+1"),
        (parse_filter, "value=1"),
        (parse_filter, "key>1"),
        (parse_filter, "!key=1"),
        (parse_filter, "key=hex:0"),
        (parse_filter, "header:=1"),
        (parse_filter, ""),
        (parse_filter, "time>=5"),
    ],
)
def test_texts_that_say_nothing_are_refused(parse: Any, text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"partition_map": ((0, 1),), "partition_count": 3}, "cannot both be given"),
        ({"partition_count": 3, "exact_offsets": True}, "partition-count gives records new off"),
        ({"partition_map": ((0, 1), (1, 1)), "exact_offsets": True}, "partition-map that merges"),
        ({"filter": parse_filter("key"), "exact_offsets": True}, "filter leaves a hole"),
        (
            {
                "partition_count": 3,
                "groups": ("all",),
                "schemas": "map",
                "schema_registry": "http://r:1",
            },
            "groups cannot be given with partition-count and schemas=map",
        ),
    ],
)
def test_what_has_no_meaning_together_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        RestoreOptions(**given)


def test_a_restore_of_another_shape_is_another_restore() -> None:
    shaped = RestoreOptions(
        partition_count=3, shift_time_ms=-5, filter=parse_filter("key=a,header:b")
    )
    assert RestoreOptions().selection() == {}
    assert shaped.selection() == {
        "partition_count": 3,
        "shift": -5,
        "filter": [[None, "61", False, False], ["b", None, False, False]],
    }


def segment() -> Entry:
    """One object of 100 records, at times 1000 to 1999."""
    return Entry(
        key="topics/t/0", partition_id=PartitionId("t", 1, 0), topic_id="",
        range=OffsetRange(0, 100), records=100, min_timestamp=1000, max_timestamp=1999,
        size_bytes=500, raw_bytes=900, format="segment", codec="zstd", sha256="",
    )  # fmt: skip


def topic_of(routing: Routing, *, left_out: int | None = None, count: int = 3) -> TopicPlan:
    info = TopicInfo(
        topic="t", incarnation=1, topic_id="", partitions=count, replication_factor=1, configs={}
    )
    none: tuple[OffsetRange, ...] = ()
    partitions = tuple(
        PartitionPlan(n, PackedEntries.of((segment(),)), ranges=none if n == left_out else None)
        for n in range(count)
    )
    return TopicPlan(info, "new", partitions, routing)


def test_a_map_says_what_comes_from_where() -> None:
    topic = topic_of(Routing(partition_map=((0, 3), (2, 1))), left_out=1)
    assert topic.target_count == 4
    assert [share["from"] for share in target_shares(topic)] == [[], [2], [], [0]]
    assert not topic.routing.routed
    merged = topic_of(Routing(partition_map=((0, 1), (1, 0), (2, 1))))
    assert [share["from"] for share in target_shares(merged)] == [[1], [0, 2]]
    plan = RestorePlan("id", "log", 1, (merged,), False, merged.routing)
    [check] = check_routing(plan, RestoreOptions())
    assert check.what == "partitions 0, 2 are merged into 1 by record time"


def test_a_map_must_name_every_partition_and_no_other() -> None:
    short = RestoreOptions(partition_map=((0, 1), (1, 0)))
    with pytest.raises(UsageError, match="has no target for t-2"):
        check_picks([topic_of(Routing())], short)
    check_picks([topic_of(Routing(), left_out=2)], short)
    with pytest.raises(UsageError, match="names 1, which no topic"):
        check_picks([topic_of(Routing(), count=1)], short)


def test_with_another_count_every_partition_may_come_from_each() -> None:
    topic = topic_of(Routing(partition_count=2), left_out=0)
    assert [(s["from"], s["records"]) for s in target_shares(topic)] == [([1, 2], None)] * 2
    plan = RestorePlan("id", "log", 1, (topic,), False, topic.routing)
    [check] = check_routing(plan, RestoreOptions())
    assert "2 partitions are distributed to 2 by key; records without a key" in check.what


def test_times_cannot_be_moved_out_of_reach() -> None:
    for shift, verdict in (
        (-10_000_000, CheckStatus.FAIL),
        (2**63 - 2, CheckStatus.FAIL),
        (5, None),
    ):
        topic = topic_of(Routing(shift_ms=shift))
        plan = RestorePlan("id", "log", 1, (topic,), False, topic.routing)
        found = [check.verdict for check in check_routing(plan, RestoreOptions())]
        assert found == ([verdict] if verdict else [])


def test_large_topics_are_shared_out_and_small_ones_stay_together() -> None:
    def work(topic: str, count: int, each: int) -> list[TargetWork]:
        place = TargetPartition(0, 1, 0)
        return [
            TargetWork(
                topic=topic, topic_id="", partition=n, place=place, entries=(), est_bytes=each
            )
            for n in range(count)
        ]

    large = work("large", 8, LARGEST_BUNDLE_BYTES)
    packed = pack_topics([*work("a", 3, 10), *large, *work("b", 3, 10)], slots=2)
    shown = [sorted((item.topic, item.partition) for item in members) for members in packed]
    assert sorted(len(members) for members in packed) == [4, 4, 6]
    small = [members for members in shown if members[0][0] != "large"]
    assert small == [[(t, n) for t in ("a", "b") for n in range(3)]]
