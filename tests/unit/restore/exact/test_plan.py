"""What exact offsets may cost is told before they are begun."""

from __future__ import annotations

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.exact.plan import check_exact
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.selection import Times

COUNT = 1_000_000
ENTRY = Entry(
    key="k", partition_id=PartitionId("a", 1, 0), topic_id="old", range=OffsetRange(0, COUNT),
    records=COUNT, min_timestamp=0, max_timestamp=1000, size_bytes=9, raw_bytes=9,
    format="segment", codec="zstd", sha256="", index=(IndexPoint(0, 0, 0, 0, 1000),),
)  # fmt: skip
SOURCE = TopicInfo(
    topic="a", incarnation=1, topic_id="old", partitions=1, replication_factor=1, configs={}
)


def said(until_ms: int | None, fill_holes: str = "auto") -> list[tuple[str, str]]:
    options = RestoreOptions(exact_offsets=True, until_ms=until_ms, fill_holes=fill_holes)
    partition = plan_partition(0, (ENTRY,), times=Times(until_ms=until_ms), end=COUNT)
    plan = RestorePlan("id", "log", 1, (TopicPlan(SOURCE, "a", (partition,)),), exact=True)
    return [(check.verdict.value, check.what) for check in check_exact(plan, options)]


def test_holes_that_times_may_leave_are_told_with_the_time_they_would_take() -> None:
    assert [verdict for verdict, _ in said(None)] == ["pass"]
    found = said(500)
    assert [verdict for verdict, _ in found] == ["pass", "warn"]
    assert "1,000,000 more may have no record" in found[1][1] and "up to 1h 56m" in found[1][1]
    assert [verdict for verdict, _ in said(500, "tombstones")] == ["pass"]
