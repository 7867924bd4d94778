"""Tasks fill segments: at the end of a range, and when the time of a cycle is over."""

from __future__ import annotations

import uuid
from unittest import mock

import pytest
from tests.support.fake_kafka import FakeLog
from tests.support.offline_task import archive_all

from kafkeep.archive.entry import Entry
from kafkeep.backup.task import Deadlines
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.objects.segment.writer import SegmentIntent
from kafkeep.store.memory import MemoryStore


def log_of(batches: int) -> FakeLog:
    log = FakeLog(start=0, end=batches)
    for offset in range(batches):
        log.batches.append((offset, offset, build_batch([Record(offset, 0, b"k", b"v" * 100)])))
    return log


SIZE = len(log_of(1).batches[0][2])
SEGMENT = SegmentIntent(segment_bytes=8 * SIZE, keeps_aborted=False)


def ranges(entries: list[Entry], partition: int = 0) -> list[tuple[int, int]]:
    return [
        (entry.range.start, entry.range.end)
        for entry in entries
        if entry.partition_id.partition == partition
    ]


@pytest.mark.parametrize(
    ("batches", "expected"),
    [
        (16, [(0, 8), (8, 16)]),
        (18, [(0, 8), (8, 18)]),
        (19, [(0, 8), (8, 16), (16, 19)]),
        (10, [(0, 10)]),
    ],
)
@pytest.mark.parametrize("answer_batches", [1, 3, 100])
def test_the_last_segment_of_a_range_takes_up_to_a_quarter_more(
    batches: int, expected: list[tuple[int, int]], answer_batches: int
) -> None:
    store = MemoryStore(uuid.uuid4().hex)
    entries = archive_all([log_of(batches)], store, SEGMENT, limit=answer_batches * SIZE)
    assert ranges(entries) == expected


def test_when_the_time_is_over_open_segments_are_filled_and_no_other_is_begun() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    over = Deadlines(first=-1.0, last=2.0**60)
    with mock.patch.object(Deadlines, "after", lambda _: over):
        entries = archive_all([log_of(40), log_of(5)], store, SEGMENT, limit=20 * SIZE)
    assert ranges(entries) == [(0, 8)]
    assert ranges(entries, 1) == [(0, 5)]


def test_an_open_segment_is_closed_in_the_end_though_it_is_not_full() -> None:
    store = MemoryStore(uuid.uuid4().hex)
    with mock.patch.object(Deadlines, "after", lambda _: Deadlines(-2.0, -1.0)):
        entries = archive_all([log_of(40)], store, SEGMENT, limit=3 * SIZE)
    assert ranges(entries) == [(0, 3)]


def test_large_ranges_are_read_a_few_at_a_time() -> None:
    """So that few segments are open, in memory and when the time is over."""
    store = MemoryStore(uuid.uuid4().hex)
    over = Deadlines(first=-1.0, last=2.0**60)
    logs = [log_of(8) for _ in range(9)]
    with mock.patch.object(Deadlines, "after", lambda _: over):
        entries = archive_all(logs, store, SEGMENT, limit=10**6, est_bytes=128 << 20)
    assert [entry.partition_id.partition for entry in entries] == [0, 1, 2]
