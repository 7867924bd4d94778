"""Where groups go, and what is remembered of where they were."""

from __future__ import annotations

import hashlib
import random
from itertools import pairwise

import pytest

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.packed_entries import NO_ENTRIES
from kafkeep.errors import DamagedError, PreflightError, UsageError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import SegmentEncoder
from kafkeep.objects.sink.spec import NO_OPTIONS
from kafkeep.restore.groups.count_records import count_records_before
from kafkeep.restore.groups.history import GroupChange, group_changes, load_history, save_change
from kafkeep.restore.groups.plan import (
    ALL,
    GroupPosition,
    choose_groups,
    plan_groups,
)
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.selection import ALL_TIMES, TimeRange
from kafkeep.store.memory import MemoryStore

INFO = TopicInfo(
    topic="t", incarnation=2, topic_id="", partitions=2, replication_factor=1, configs={}
)
PLAN = RestorePlan(
    "id",
    "log",
    1,
    (TopicPlan(INFO, "new", (PartitionPlan(0, NO_ENTRIES), PartitionPlan(1, NO_ENTRIES))),),
)
ARCHIVED = {
    "g": {PartitionId("t", 2, 0): 10, PartitionId("t", 2, 1): 20, PartitionId("t", 1, 0): 5},
    "old": {PartitionId("t", 1, 0): 7},
    "other": {PartitionId("u", 1, 0): 7},
}


def test_groups_of_other_topics_and_incarnations_are_not_moved() -> None:
    assert list(choose_groups(ARCHIVED, PLAN, ALL)) == ["g"]
    assert len(choose_groups(ARCHIVED, PLAN, ("g",))["g"]) == 2
    with pytest.raises(UsageError, match="group old has no offset on these topics"):
        choose_groups(ARCHIVED, PLAN, ("old",))
    assert list(choose_groups(ARCHIVED, PLAN, ("old", "g"), strict=False)) == ["g"]


def test_old_offsets_stay_inside_of_what_is_there() -> None:
    place = GroupPosition(50, 90)
    assert [place.offset(at)[0] for at in (0, 50, 77, 90, 99)] == [50, 50, 77, 90, 90]
    assert place.offset(0)[1] == "the archive starts at 50" and not place.offset(77)[1]


def test_translated_offsets_count_records_from_the_base() -> None:
    place = GroupPosition(0, 0, 100, {10: 4})
    moves = plan_groups(choose_groups(ARCHIVED, PLAN, ALL), PLAN, {("new", 0): place})
    assert moves.of("g") == {("new", 0): 104}
    assert moves.left_out == ("group g: new-1 is not restored",)


def test_what_stood_first_is_put_back_and_only_once() -> None:
    store = MemoryStore()
    key = ("new", 0)
    assert load_history(store, "id").before() == {}
    save_change(store, "id", GroupChange(0, 1, {"g": {key: None}}))
    save_change(store, "id", GroupChange(1, 2, {"g": {key: 7, ("new", 1): 8}, "h": {key: 9}}))
    history = load_history(store, "id")
    assert history.moved and history.next_revision == 2
    assert history.before() == {"g": {key: None, ("new", 1): 8}, "h": {key: 9}}
    save_change(store, "id", GroupChange(2, 3, {}, rolled_back=True))
    assert load_history(store, "id").before() == {} and not load_history(store, "id").moved
    with pytest.raises(PreflightError, match="another run"):
        save_change(store, "id", GroupChange(2, 3, {}))


def test_damage_is_named() -> None:
    store = MemoryStore()
    group_changes(store, "id").try_create(0, b"[]")
    with pytest.raises(DamagedError, match="is not a group change document"):
        load_history(store, "id")


class Counting(MemoryStore):
    """A store that tells how many bytes were read."""

    read_bytes = 0

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.read_bytes += end - start
        return super().get_range(key, start, end)


def write(store: MemoryStore, start: int, end: int, records: list[Record]) -> Entry:
    """Store records in small batches and small frames; the batches have holes between them."""
    writer = SegmentEncoder(frame_bytes=400)
    body = b""
    for i in range(0, len(records), 5):
        batches = scan_batches(build_batch(records[i : i + 5]))
        body += b"".join(writer.add(batches, min_timestamps(batches)))
    last, summary = writer.finish()
    body += last
    key = f"topics/t/{start}"
    store.put_new(key, body)
    return Entry(
        key=key, partition_id=PartitionId("t", 1, 0), topic_id="", range=OffsetRange(start, end),
        records=summary.records, min_timestamp=summary.min_timestamp,
        max_timestamp=summary.max_timestamp, size_bytes=len(body), raw_bytes=summary.raw_bytes,
        format="segment", codec="zstd", sha256=hashlib.sha256(body).hexdigest(),
        index=summary.index,
    )  # fmt: skip


@pytest.fixture
def store() -> Counting:
    return Counting()


@pytest.fixture
def records() -> list[Record]:
    chances = random.Random(3)
    kept = sorted(chances.sample(range(100, 1100), 400))
    return [Record(at, 5000 + chances.randrange(1000), b"k", b"v" * 20) for at in kept]


def entries(store: MemoryStore, records: list[Record]) -> list[Entry]:
    edges = (100, 400, 420, 1100)
    return [
        write(store, low, high, [r for r in records if low <= r.offset < high])
        for low, high in pairwise(edges)
    ]


def count(store: MemoryStore, plan: PartitionPlan, offsets: list[int]) -> dict[int, int]:
    return count_records_before(store, plan, offsets, restore_aborted=False, options=NO_OPTIONS)


def test_every_offset_is_counted_as_if_all_was_read(store: Counting, records: list[Record]) -> None:
    plan = plan_partition(0, entries(store, records))
    offsets = list(range(0, 1200, 7))
    assert count(store, plan, offsets) == {
        at: len([r for r in records if r.offset < at]) for at in offsets
    }


@pytest.mark.parametrize("times", [ALL_TIMES, TimeRange(5200, 5700), TimeRange(None, 5001)])
def test_what_was_not_picked_is_not_counted(
    store: Counting, records: list[Record], times: TimeRange
) -> None:
    ranges = (OffsetRange(0, 150), OffsetRange(333, 777))
    plan = plan_partition(0, entries(store, records), ranges, times)
    low, high = times.from_ms or 0, times.until_ms or 10**9
    kept = [
        r.offset
        for r in records
        if (r.offset < 150 or 333 <= r.offset < 777) and low <= r.timestamp < high
    ]
    offsets = list(range(0, 1200, 11))
    assert count(store, plan, offsets) == {at: len([o for o in kept if o < at]) for at in offsets}


def test_one_frame_is_read_for_an_offset(store: Counting, records: list[Record]) -> None:
    plan = plan_partition(0, entries(store, records))
    store.read_bytes = 0
    count(store, plan, [900])
    largest = plan.entries[-1]
    assert 0 < store.read_bytes < largest.size_bytes / 4
    store.read_bytes = 0
    assert count(store, plan, [50, 100, 1100, 2000])[2000] == 400
    assert store.read_bytes == 0
