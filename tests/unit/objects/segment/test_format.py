from __future__ import annotations

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange
from kafkeep.errors import DamagedError
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import (
    SegmentEncoder,
    SegmentSummary,
    read_segment,
    segment_reads,
    wanted_frames,
)

FRAME = 400


def make_batches(sizes: list[int], *, records: int = 2) -> list[bytes]:
    """One batch for each size; batch i has times 1000 * i and 1000 * i + 1."""
    made = []
    for number, size in enumerate(sizes):
        first = number * records
        made.append(
            build_batch(
                [Record(first + i, 1000 * number + i, None, bytes(size)) for i in range(records)]
            )
        )
    return made


def write(answers: list[list[bytes]], frame_bytes: int = FRAME) -> tuple[bytes, SegmentSummary]:
    writer = SegmentEncoder(frame_bytes=frame_bytes)
    frames = []
    for answer in answers:
        batches = scan_batches(b"".join(answer))
        frames += writer.add(batches, min_timestamps(batches))
    last, summary = writer.finish()
    return b"".join([*frames, last]), summary


def read_back(
    stored: bytes, summary: SegmentSummary, range: OffsetRange | None = None, **times: int
) -> tuple[bytes, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def get_range(start: int, end: int) -> bytes:
        asked.append((start, end))
        return stored[start:end]

    found = read_segment(get_range, len(stored), summary.index, range, **times)
    return b"".join(bytes(batches.packed()) for batches in found), asked


@settings(deadline=None)
@given(
    answers=st.lists(st.lists(st.integers(0, 900), min_size=1, max_size=8), max_size=6),
)
def test_segment_gives_back_the_same_batches_however_they_came(answers: list[list[int]]) -> None:
    flat = make_batches([size for answer in answers for size in answer])
    split, at = [], 0
    for answer in answers:
        split.append(flat[at : at + len(answer)])
        at += len(answer)
    stored, summary = write(split)
    assert (stored, summary) == write([flat] if flat else [])
    assert read_back(stored, summary)[0] == b"".join(flat)
    assert zstandard.ZstdDecompressor().stream_reader(stored, read_across_frames=True).read() == (
        b"".join(flat)
    )
    assert summary.records == 2 * len(flat)
    assert summary.raw_bytes == sum(map(len, flat))
    assert summary.size_bytes == len(stored)


@settings(deadline=None)
@given(
    sizes=st.lists(st.integers(0, 900), min_size=1, max_size=20),
    edges=st.tuples(st.integers(0, 45), st.integers(0, 45)),
)
def test_reading_a_range_gives_every_batch_that_holds_one_of_its_offsets(
    sizes: list[int], edges: tuple[int, int]
) -> None:
    flat = make_batches(sizes)
    stored, summary = write([flat])
    wanted = OffsetRange(min(edges), max(edges))
    expected = b"".join(
        batch
        for number, batch in enumerate(flat)
        if 2 * number + 1 >= wanted.start and 2 * number < wanted.end
    )
    found, asked = read_back(stored, summary, wanted)
    assert found == expected
    assert asked == segment_reads(summary.size_bytes, summary.index, wanted)


def test_reading_by_time_asks_only_for_the_frames_that_may_hold_it() -> None:
    flat = make_batches([300] * 10)
    stored, summary = write([flat])
    assert len(summary.index) == 10
    found, asked = read_back(stored, summary, from_ms=3001, until_ms=5000)
    assert found == b"".join(flat[3:5])
    assert asked == [(summary.index[3].position, summary.index[5].position)]
    assert (summary.min_timestamp, summary.max_timestamp) == (0, 9001)


def test_index_counts_records_before_each_frame() -> None:
    _, summary = write([make_batches([100] * 9)])
    assert [point.offset for point in summary.index] == [p.records for p in summary.index]
    assert len(summary.index) > 1


def test_batches_picked_out_of_a_buffer_are_packed_without_the_others() -> None:
    flat = make_batches([10] * 6)
    batches = scan_batches(b"".join(flat)).select(np.array([1, 0, 1, 1, 0, 1], dtype=bool))
    writer = SegmentEncoder()
    assert list(writer.add(batches, min_timestamps(batches))) == []
    stored, summary = writer.finish()
    assert read_back(stored, summary)[0] == flat[0] + flat[2] + flat[3] + flat[5]
    assert summary.records == 8


def test_a_batch_larger_than_a_frame_is_a_frame_of_its_own() -> None:
    flat = make_batches([10, 5000, 10])
    stored, summary = write([flat])
    assert [point.offset for point in summary.index] == [0, 2, 4]
    assert read_back(stored, summary, OffsetRange(2, 4))[0] == flat[1]


def test_an_empty_segment_has_no_frames() -> None:
    stored, summary = write([])
    assert (stored, summary.index, summary.min_timestamp) == (b"", (), -1)
    assert wanted_frames(summary.index) == []


@pytest.mark.parametrize("cut", ["flip", "short", "extra"])
def test_damaged_frames_are_refused(cut: str) -> None:
    stored, summary = write([make_batches([50] * 3)])
    changed = {
        "flip": b"\0" + stored[1:],
        "short": stored[:-3],
        "extra": stored + b"more",
    }[cut]
    with pytest.raises(DamagedError):
        list(read_segment(lambda a, b: changed[a:b], len(changed), summary.index))


def test_an_answer_shorter_than_asked_is_damage() -> None:
    stored, summary = write([make_batches([50] * 3)])
    with pytest.raises(DamagedError, match="came"):
        list(read_segment(lambda a, b: stored[a : b - 1], len(stored), summary.index))


def test_any_bit_flipped_in_a_frame_is_damage_or_changes_nothing() -> None:
    batches = make_batches([30] * 2)
    stored, summary = write([batches])
    for at in range(len(stored)):
        for bit in range(8):
            wrong = stored[:at] + bytes([stored[at] ^ 1 << bit]) + stored[at + 1 :]
            try:
                found = read_back(wrong, summary)[0]
            except DamagedError:
                continue
            assert found == b"".join(batches)


def test_frames_without_a_content_checksum_stay_readable() -> None:
    batches = make_batches([30] * 2)
    _, summary = write([batches])
    stored = zstandard.ZstdCompressor().compress(b"".join(batches))
    assert not zstandard.get_frame_parameters(stored).has_checksum
    assert read_back(stored, summary)[0] == b"".join(batches)
