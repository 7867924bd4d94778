"""What is left of a damaged segment: all that is sound and nothing else; the rest is told."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from tests.support.archive_builder import ObjectPlan, records, write_object

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.kafka.batch.decode import decode
from kafkeep.objects.segment.reader import iter_segment, lost_ranges, salvage_segment
from kafkeep.store.memory import MemoryStore

PID = PartitionId("orders", 1, 0)
WHOLE = OffsetRange(100, 250)


def written(counts: OffsetRange | None = None) -> tuple[bytes, Entry]:
    store = MemoryStore(uuid.uuid4().hex)
    entry = write_object(store, PID, ObjectPlan(records=records(100, 250), range=counts))
    assert len(entry.index) > 4
    return store.get(entry.key), entry


def read(data: bytes, entry: Entry) -> list[int]:
    """Return the offsets of the records that one gets by an entry."""
    store = MemoryStore(uuid.uuid4().hex)
    store.put_new(entry.key, data)
    return [
        offset
        for batches in iter_segment(store, entry, entry.range)
        for offset in decode(batches, range=entry.range).column("offset").to_pylist()
    ]


def check(data: bytes, entry: Entry) -> list[OffsetRange]:
    """Read all parts; they and what is told as lost are the entry's range, each offset once."""
    parts = salvage_segment(data, entry)
    got = []
    for part in parts:
        offsets = read(data, part)
        assert len(offsets) == part.records
        got.extend(offsets)
    lost = list(lost_ranges(entry, parts))
    missing = [offset for r in lost for offset in range(r.start, r.end)]
    assert sorted([*got, *missing]) == list(range(entry.range.start, entry.range.end))
    return lost


@pytest.mark.parametrize("counts", [None, OffsetRange(104, 243)])
def test_a_flipped_byte_costs_its_frame_or_else_the_object(
    counts: OffsetRange | None,
) -> None:
    data, entry = written(counts)
    frames = len(entry.index)
    for at in [*range(0, len(data), 29), len(data) - 1]:
        flipped = data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]
        lost = check(flipped, entry)
        assert len(lost) == 1
        assert lost == [entry.range] or len(lost[0]) < len(entry.range) / frames * 3


def test_of_an_object_cut_short_its_first_frames_are_left() -> None:
    data, entry = written()
    assert check(data[: entry.index[2].position + 3], entry) == [
        OffsetRange(entry.index[2].offset, WHOLE.end)
    ]
    assert check(b"", entry) == [WHOLE]


def test_of_an_object_that_counts_in_part_only_that_part_is_left() -> None:
    data, entry = written()
    half = replace(entry, range=OffsetRange(100, 175), records=75, whole_end=250, whole_records=150)
    assert check(data[: entry.index[2].position + 3], half) == [
        OffsetRange(entry.index[2].offset, 175)
    ]


def test_of_another_format_nothing_is_left() -> None:
    data, entry = written()
    assert salvage_segment(data[:-1], replace(entry, format="json")) == ()
