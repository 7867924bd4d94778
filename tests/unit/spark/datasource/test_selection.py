from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.spark.datasource.selection import PushedFilters, to_ms
from kafkeep.spark.datasource.slices import plan_slices

FRAMES = 10


def make_entry(start: int, *, topic: str = "orders", partition: int = 0) -> Entry:
    """Ten frames of 1 MiB with ten offsets each; an offset's time is its tenfold."""
    index = tuple(
        IndexPoint(
            start + 10 * i, i << 20, 10 * i, 10 * (start + 10 * i), 10 * (start + 10 * i + 9)
        )
        for i in range(FRAMES)
    )
    return Entry(
        key=f"{topic}/{partition}/{start}",
        partition_id=PartitionId(topic, 1, partition),
        topic_id="id",
        range=OffsetRange(start, start + 100),
        records=100,
        min_timestamp=10 * start,
        max_timestamp=10 * (start + 99),
        size_bytes=FRAMES << 20,
        raw_bytes=0,
        format="segment",
        codec="zstd",
        sha256="",
        index=index,
    )


ENTRIES = [make_entry(start, partition=p) for p in range(2) for start in range(0, 300, 100)]


def test_filters_narrow_and_unknown_ones_change_nothing() -> None:
    wanted = PushedFilters().narrowed(
        [
            EqualTo(("topic",), "orders"),
            In(("partition",), (1, 2)),
            GreaterThan(("offset",), 9),
            LessThanOrEqual(("offset",), 20),
            IsNotNull(("key",)),
            StringStartsWith(("topic",), "o"),
        ]
    )
    assert wanted == PushedFilters(frozenset({"orders"}), frozenset({1, 2}), 10, 21)


def test_times_are_kept_whole_milliseconds_wide() -> None:
    moment = datetime(2024, 12, 3, 10, 0, 0, 1500, tzinfo=UTC)
    wanted = PushedFilters().narrowed(
        [GreaterThanOrEqual(("timestamp",), moment), LessThan(("timestamp",), moment)]
    )
    assert (wanted.from_ms, wanted.until_ms) == (to_ms(moment), to_ms(moment) + 1)
    assert to_ms(datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)) == -1


def test_contradictions_want_nothing() -> None:
    wanted = PushedFilters().narrowed([GreaterThan(("offset",), 5), LessThan(("offset",), 3)])
    assert plan_slices(ENTRIES, wanted, 6) == []


@given(
    start=st.integers(0, 320),
    length=st.integers(1, 320),
    from_ms=st.integers(-10, 3200),
    span_ms=st.integers(0, 3200),
    bundles=st.integers(1, 40),
)
def test_planned_pieces_hold_every_wanted_frame_once(
    start: int, length: int, from_ms: int, span_ms: int, bundles: int
) -> None:
    wanted = PushedFilters(
        start=start, end=start + length, from_ms=from_ms, until_ms=from_ms + span_ms
    )
    planned = plan_slices(ENTRIES, wanted, bundles)
    found = [
        (piece.partition, point.offset)
        for bundle in planned
        for piece in bundle
        for point in piece.index
    ]
    expected = [
        (entry.partition_id.partition, point.offset)
        for entry in ENTRIES
        for point in entry.index
        if point.offset + 10 > start
        and point.offset < start + length
        and point.max_timestamp >= from_ms
        and point.min_timestamp < from_ms + span_ms
    ]
    assert found == expected
    assert all(bundle for bundle in planned)


def test_bundles_are_of_alike_size() -> None:
    sizes = [sum(p.size_bytes for p in b) >> 20 for b in plan_slices(ENTRIES, PushedFilters(), 6)]
    assert sizes == [10] * 6
