"""Coverage: what is archived, waits, or is lost, by offset and by time."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.archive.entry import OffsetRange
from kafkeep.connect.catalog.topics.coverage import (
    CoverageKind,
    LoggedPartition,
    cover,
    cumulated,
    offset_bar,
    subtract,
    time_bars,
    total,
    union,
)

A, H, W, G = (
    CoverageKind.ARCHIVED,
    CoverageKind.HOLE,
    CoverageKind.WAITING,
    CoverageKind.GAP,
)


def ranges(*pairs: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*pair) for pair in pairs)


def logged(
    *objects: tuple[int, int, int], gaps: tuple[OffsetRange, ...] = (), position: int | None = None
) -> LoggedPartition:
    """Return objects of (start, end, records), and the position behind them unless given."""
    columns = [np.array([one[i] for one in objects], dtype=np.int64) for i in range(3)]
    end = max([*(one[1] for one in objects), *(gap.end for gap in gaps)], default=0)
    return LoggedPartition(
        starts=columns[0],
        ends=columns[1],
        records=columns[2],
        gaps=gaps,
        position=end if position is None else position,
    )


def test_what_kafka_has_past_the_position_waits() -> None:
    found = cover(0, [logged((0, 60, 60))], OffsetRange(20, 100))
    assert found.archived == ranges((0, 60))
    assert found.waiting == ranges((60, 100))
    assert found.gaps == ()
    assert (found.position, found.holes, found.records) == (60, 0, 60)
    assert found.span == OffsetRange(0, 100)


def test_offsets_before_the_first_archived_one_wait_while_kafka_has_them() -> None:
    found = cover(0, [logged((50, 60, 10))], OffsetRange(20, 60))
    assert found.waiting == ranges((20, 50))


def test_a_gap_is_lost_and_offsets_without_an_object_are_holes() -> None:
    one = logged((0, 10, 8), (20, 30, 10), gaps=ranges((30, 40)), position=45)
    found = cover(0, [one], OffsetRange(40, 45))
    assert found.gaps == ranges((30, 40))
    assert found.archived == ranges((0, 30), (40, 45))
    assert found.waiting == ()
    assert found.lost_offsets == 10
    assert found.holes == 2 + 10 + 5


def test_a_gap_of_one_log_is_not_lost_when_another_log_covers_it() -> None:
    first = logged((0, 10, 10), (20, 30, 10), gaps=ranges((10, 20)))
    second = logged((5, 15, 10))
    found = cover(0, [first, second], None)
    assert found.archived == ranges((0, 15), (20, 30))
    assert found.gaps == ranges((15, 20))
    assert found.position == 30


def test_a_partition_in_no_log_waits_whole_and_an_unknown_one_is_empty() -> None:
    assert cover(0, [], OffsetRange(5, 9)).waiting == ranges((5, 9))
    assert cover(0, [], OffsetRange(5, 9)).position is None
    assert cover(0, [], None).span is None
    assert offset_bar(cover(0, [], None), []) == ()


@pytest.mark.parametrize("live", [None, OffsetRange(0, 0), OffsetRange(7, 7)])
def test_an_archived_partition_without_records_shows_nothing(live: OffsetRange | None) -> None:
    found = cover(0, [logged(position=7)], live)
    assert found.archived == found.gaps == found.waiting == ()
    assert offset_bar(found, [logged(position=7)]) == ()


def test_a_bar_shows_a_gap_of_one_offset_among_a_million() -> None:
    one = logged(
        (0, 500_000, 500_000),
        (500_001, 1_000_000, 499_999),
        gaps=ranges((500_000, 500_001)),
    )
    found = cover(0, [one], OffsetRange(900_000, 1_000_001))
    parts = offset_bar(found, [one])
    assert [part.kind for part in parts] == [A, G, A, W]
    assert parts[0].x == 0
    assert parts[-1].x + parts[-1].width == pytest.approx(1000)


def test_a_bar_has_holes_where_offsets_hold_few_records() -> None:
    one = logged((0, 100, 100), (100, 200, 10), (300, 400, 100))
    parts = offset_bar(cover(0, [one], None), [one], bins=4)
    assert [(part.kind, part.range) for part in parts] == [
        (A, OffsetRange(0, 100)),
        (H, OffsetRange(100, 300)),
        (A, OffsetRange(300, 400)),
    ]


def test_files_that_share_a_range_are_archived_together() -> None:
    one = logged((0, 100, 60), (0, 100, 40))
    parts = offset_bar(cover(0, [one], None), [one], bins=10)
    assert [part.kind for part in parts] == [A]


def test_a_bar_of_two_offsets_at_the_end_of_all_numbers_works() -> None:
    last = 2**63 - 1
    one = logged((last - 2, last, 2))
    parts = offset_bar(cover(0, [one], None), [one])
    assert [part.kind for part in parts] == [A]
    assert parts[0].range == OffsetRange(last - 2, last)


spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 20)).map(lambda p: OffsetRange(p[0], sum(p))),
    max_size=6,
)


def members(several: object) -> set[int]:
    return {n for one in cast(list[OffsetRange], several) for n in range(one.start, one.end)}


@given(spans, spans)
def test_union_and_subtract_are_those_of_sets(a: list[OffsetRange], b: list[OffsetRange]) -> None:
    assert members(union(a)) == members(a)
    assert members(subtract(a, b)) == members(a) - members(b)
    for found in (union(a), subtract(a, b)):
        assert total(found) == len(members(found))
        assert all(x.end < y.start for x, y in pairwise(found))


@given(
    st.lists(
        st.tuples(st.integers(0, 90), st.integers(1, 30), st.integers(0, 1000)),
        min_size=1,
        max_size=8,
    )
)
def test_spread_weights_sum_to_the_whole(rows: list[tuple[int, int, int]]) -> None:
    starts, sizes, weights = (np.array(one, dtype=np.int64) for one in zip(*rows, strict=True))
    sums = cumulated(starts, starts + sizes, weights, np.linspace(0, 150, 31))
    assert sums[0] == pytest.approx(0, abs=1e-6)
    assert sums[-1] == pytest.approx(weights.sum())
    assert np.all(np.diff(sums) >= -1e-6)


def times(*objects: tuple[int, int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first, last, counts = (np.array([one[i] for one in objects], dtype=np.int64) for i in range(3))
    return first, last, counts


def test_records_are_counted_by_time_and_the_tail_waits() -> None:
    bins = time_bars(
        times((1000, 1499, 50), (1000, 1499, 50)), now_ms=2000, waits_since_ms=1500, bins=10
    )
    assert (bins[0].start_ms, bins[-1].end_ms) == (1000, 2000)
    assert [one.records for one in bins] == [20] * 5 + [0] * 5
    assert [one.kind for one in bins] == [A] * 5 + [W] * 5
    assert bins[0].height == 1


def test_a_gap_is_shown_where_its_records_were_written() -> None:
    bins = time_bars(times((0, 99, 100), (300, 399, 100)), now_ms=400, gaps_ms=[(150, 250)], bins=4)
    assert [one.kind for one in bins] == [A, G, G, A]


def test_times_that_no_clock_has_do_not_stretch_the_bars() -> None:
    bins = time_bars(
        times((1000, 1100, 5), (-1, -1, 7), (2**63 - 2, 2**63 - 1, 9)), now_ms=2000, bins=10
    )
    assert sum(one.records for one in bins) == pytest.approx(5, abs=5)
    assert bins[-1].end_ms <= 2000
    assert time_bars(times((-1, -1, 7)), now_ms=2000) == ()
