"""What exact offsets may cost is told before they are begun."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.kafka.admin.fill_offsets import filler_batch
from kafkeep.kafka.batch.decode import RECORD_SCHEMA, decode
from kafkeep.kafka.batch.layout import RESERVED_KEY
from kafkeep.kafka.batch.rewrite import ReadyBatch
from kafkeep.kafka.batch.scan import scan_batches
from kafkeep.objects.encode_batches import iter_ready_batches
from kafkeep.objects.sink.read_windows import Window
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.exact.plan import (
    ExactPartition,
    Filling,
    Hole,
    Send,
    Trim,
    check_exact,
    count_before,
    filling,
)
from kafkeep.restore.plan import RestorePlan, TopicPlan, plan_partition
from kafkeep.restore.selection import TimeRange, WindowSlice

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
    partition = plan_partition(0, (ENTRY,), times=TimeRange(until_ms=until_ms), end=COUNT)
    plan = RestorePlan("id", "log", 1, (TopicPlan(SOURCE, "a", (partition,)),), exact=True)
    return [(check.verdict.value, check.what) for check in check_exact(plan, options)]


def test_holes_that_a_time_range_may_leave_are_reported_with_their_duration() -> None:
    assert [verdict for verdict, _ in said(None)] == ["pass"]
    found = said(500)
    assert [verdict for verdict, _ in found] == ["pass", "warn"]
    assert "1,000,000 more may have no record" in found[1][1] and "up to 1h 56m" in found[1][1]
    assert [verdict for verdict, _ in said(500, "tombstones")] == ["pass"]


def entry(start: int, end: int, records: int) -> Entry:
    return Entry(
        key=f"k{start}", partition_id=PartitionId("t", 1, 0), topic_id="", records=records,
        range=OffsetRange(start, end), min_timestamp=0, max_timestamp=9, size_bytes=1, raw_bytes=1,
        format="segment", codec="zstd", sha256="",
    )  # fmt: skip


def rows(offsets: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [
            {
                "offset": offset,
                "timestamp": 1000 + offset,
                "timestamp_type": 0,
                "key": b"k%d" % offset,
                "value": b"v%d" % offset,
                "headers": [{"key": b"h", "value": None}] if offset % 3 else [],
            }
            for offset in offsets
        ],
        schema=RECORD_SCHEMA,
    )


@pytest.mark.parametrize(
    ("ranges", "found"),
    [
        ([], Filling(40, 0)),
        ([(5, 15, 8)], Filling(5, 27)),
        ([(20, 30, 0), (5, 15, 8), (15, 20, 5)], Filling(5, 22)),
        ([(5, 15, 8), (30, 60, 1)], Filling(5, 46)),
    ],
)
def test_holes_are_counted_from_the_first_record_to_the_end(ranges, found: Filling) -> None:
    assert filling(plan_partition(0, [entry(*one) for one in ranges], end=40)) == found


class Source:
    """Objects that hold some offsets each; read as a partition of an archive is."""

    def __init__(self, objects: list[list[int]], edges: list[int], size: int) -> None:
        self.size = size
        self.read_objects = 0
        self.objects = {}
        slices = []
        for offsets, start, end in zip(objects, edges, edges[1:], strict=False):
            one = entry(start, end, len(offsets))
            self.objects[one.key] = offsets
            window = Window(one.range, (one,))
            slices.append(WindowSlice(window, one.range, False, len(offsets), 1))
        self.slices = tuple(slices)

    def __call__(self, slices: tuple[WindowSlice, ...]) -> Iterator[ReadyBatch]:
        for part in slices:
            self.read_objects += 1
            offsets = self.objects[part.window.entries[0].key]
            if offsets:
                yield from iter_ready_batches([rows(offsets)], target_bytes=self.size)


class Target:
    """A partition: takes a batch where its sequence follows, a marker anywhere."""

    def __init__(self) -> None:
        self.log: list[bytes | None] = []
        self.keys: list[bytes | None] = []
        self.start = 0
        self.sequence = 0

    def apply(self, step: Send | Hole | Trim) -> None:
        match step:
            case Send():
                assert step.offset == len(self.log)
                assert step.sequence == self.sequence
                found = decode(scan_batches(step.body))
                assert found.num_rows == step.records
                self.log += found.column("value").to_pylist()
                self.keys += found.column("key").to_pylist()
                self.sequence += step.records
            case Hole():
                assert step.start == len(self.log) < step.end
                self.log.append(None)
                self.keys.append(b"marker")
            case Trim():
                assert step.offset == len(self.log)
                self.start = step.offset


def singles(step: Send | Hole | Trim) -> list[Send | Hole | Trim]:
    """Each offset of a hole is taken by a transaction of its own."""
    if isinstance(step, Hole):
        return [Hole(at, step.end) for at in range(step.start, step.end)]
    return [step]


@st.composite
def sources(draw: st.DrawFn) -> tuple[Source, list[int], int]:
    edges = sorted(draw(st.sets(st.integers(0, 60), min_size=2, max_size=5)))
    objects = [
        sorted(draw(st.sets(st.integers(low, high - 1), max_size=high - low)))
        for low, high in pairwise(edges)
    ]
    size = draw(st.sampled_from([100, 200, 1 << 20]))
    end = draw(st.integers(0, 70))
    return Source(objects, edges, size), [o for some in objects for o in some], end


@settings(max_examples=80)
@given(given_=sources(), tombstones=st.booleans(), patience=st.lists(st.integers(1, 6)))
def test_whatever_cuts_it_off_each_record_stands_at_its_offset(
    given_: tuple[Source, list[int], int], tombstones: bool, patience: list[int]
) -> None:
    source, offsets, end = given_
    target = Target()
    for most in [*patience, 10_000]:  # an attempt dies after so many steps; the last one does not
        contents = ExactPartition(source.slices, end, tombstones, source)
        for _, step in zip(range(most), contents.steps(len(target.log)), strict=False):
            for one in singles(step):
                target.apply(one)
    found = {n: v for n, v in enumerate(target.log) if v is not None}
    assert found == {offset: b"v%d" % offset for offset in offsets}
    goal = max(end, offsets[-1] + 1) if offsets else end
    assert len(target.log) == goal
    assert target.start == (offsets[0] if offsets else end)
    fillers = [k for n, k in enumerate(target.keys) if n >= target.start and n not in found]
    assert set(fillers) <= ({RESERVED_KEY} if tombstones else {b"marker"})


def test_objects_before_the_end_of_the_target_are_not_read() -> None:
    source = Source([[0, 1, 2], [5, 6], [8, 9]], [0, 4, 7, 10], 1 << 20)
    contents = ExactPartition(source.slices, 10, False, source)
    assert contents.first == 0
    source.read_objects = 0
    steps = list(contents.steps(7))
    assert source.read_objects == 1
    assert steps[0] == Hole(7, 8)
    assert isinstance(steps[1], Send) and (steps[1].offset, steps[1].sequence) == (8, 5)


@pytest.mark.parametrize("count", [1, 63, 64, 65, 8192, 8193, 100_000])
def test_filler_is_what_it_says(count: int) -> None:
    for key in (b"", RESERVED_KEY):
        found = decode(scan_batches(filler_batch(count, 77, key)))
        assert found.num_rows == count
        assert found.column("offset").to_pylist() == list(range(count))
        assert set(found.column("key").to_pylist()) == {key or None}
        assert set(found.column("value").to_pylist()) == {None}
        assert set(found.column("timestamp").to_pylist()) == {77}


def test_a_large_hole_is_left_to_filler_batches() -> None:
    source = Source([[0, 3, 50_000]], [0, 60_000], 1 << 20)
    steps = list(ExactPartition(source.slices, 50_001, True, source).steps(0))
    assert [(s.offset, s.records, s.filler) for s in steps if isinstance(s, Send)] == [
        (0, 4, False),
        (4, 49_996, True),
        (50_000, 1, False),
    ]


def test_records_before_an_offset_are_counted() -> None:
    [dense] = iter_ready_batches([rows([3, 4, 5])])
    [holes] = iter_ready_batches([rows([3, 5, 9])])
    assert [count_before(dense, at) for at in (0, 3, 4, 6, 20)] == [0, 0, 1, 3, 3]
    assert [count_before(holes, at) for at in (0, 3, 4, 5, 6, 10)] == [0, 0, 1, 1, 2, 3]
