"""A restore of one hundredth of an archive reads at most three hundredths of its bytes: counted."""

from __future__ import annotations

import hashlib
import random

import pytest

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import SegmentEncoder
from kafkeep.restore.plan import plan_partition
from kafkeep.restore.read import iter_slices
from kafkeep.restore.selection import ALL_TIMES, TimeRange
from kafkeep.store.memory import MemoryStore

PARTITIONS, SEGMENTS, RECORDS = 3, 4, 2000
"""Partitions, segments of each, records of each segment."""
FRAME_BYTES = 32 << 10
"""As many frames as 450 MiB of batches have; the share that is read depends on their number."""


class Counting(MemoryStore):
    """A store that counts the bytes it gives out, whichever way they are asked for."""

    read_bytes = 0

    def get(self, key: str) -> bytes:
        found = super().get(key)
        self.read_bytes += len(found)
        return found

    def get_range(self, key: str, start: int, end: int) -> bytes:
        found = super().get_range(key, start, end)
        self.read_bytes += len(found)
        return found


def write(store: MemoryStore, number: int, place: int, chances: random.Random) -> Entry:
    """Store one segment; times ascend but for a little."""
    writer, body, start = SegmentEncoder(frame_bytes=FRAME_BYTES), b"", place * RECORDS
    for first in range(start, start + RECORDS, 20):
        records = [
            Record(i, i * 10 + chances.randrange(50), b"%d" % i, chances.randbytes(600))
            for i in range(first, first + 20)
        ]
        batches = scan_batches(build_batch(records))
        body += b"".join(writer.add(batches, min_timestamps(batches)))
    last, summary = writer.finish()
    body += last
    key = f"topics/t/{number}/{place}"
    store.put_new(key, body)
    return Entry(
        key=key, partition_id=PartitionId("t", 1, number), topic_id="",
        range=OffsetRange(start, start + RECORDS), records=summary.records,
        min_timestamp=summary.min_timestamp, max_timestamp=summary.max_timestamp,
        size_bytes=len(body), raw_bytes=summary.raw_bytes, format="segment", codec="zstd",
        sha256=hashlib.sha256(body).hexdigest(), index=summary.index,
    )  # fmt: skip


@pytest.fixture(scope="module")
def stored() -> tuple[Counting, list[list[Entry]]]:
    store, chances = Counting(), random.Random(7)
    return store, [
        [write(store, number, place, chances) for place in range(SEGMENTS)]
        for number in range(PARTITIONS)
    ]


ALL = SEGMENTS * RECORDS
HUNDREDTH = ALL // 100


@pytest.mark.parametrize(
    ("ranges", "times"),
    [
        ((OffsetRange(3_333, 3_333 + HUNDREDTH),), ALL_TIMES),
        ((OffsetRange(RECORDS - 40, RECORDS + 40),), ALL_TIMES),  # over the edge of two objects
        (None, TimeRange(40_003, 40_003 + HUNDREDTH * 10)),
        (None, TimeRange(ALL * 10 - HUNDREDTH * 10, None)),
        (None, TimeRange(None, HUNDREDTH * 10)),
    ],
)
def test_one_hundredth_costs_three_at_most(
    stored: tuple[Counting, list[list[Entry]]],
    ranges: tuple[OffsetRange, ...] | None,
    times: TimeRange,
) -> None:
    store, partitions = stored
    everything = sum(entry.size_bytes for entries in partitions for entry in entries)
    store.read_bytes = planned = found = 0
    for number, entries in enumerate(partitions):
        plan = plan_partition(number, entries, ranges, times)
        planned += plan.read_bytes
        for batch in iter_slices(store, plan.all_slices(), plan.times):
            found += decode(scan_batches(batch.body)).num_rows
    assert abs(found - PARTITIONS * HUNDREDTH) <= PARTITIONS * 5
    assert store.read_bytes <= everything * 0.03
    assert store.read_bytes == planned
