"""What is read follows from the log: no frame more than needed, none less."""

from __future__ import annotations

import pytest

from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange, PartitionId
from kafkeep.errors import PreflightError, UsageError
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import (
    LAST_OFFSET,
    OffsetPick,
    parse_incarnations,
    parse_offset_picks,
    parse_partitions,
)
from kafkeep.restore.plan import plan_partition
from kafkeep.restore.selection import ALL_TIMES, TimeRange, select_slices, whole_slices


def segment(start: int, *, times: list[tuple[int, int]] | None = None) -> Entry:
    """One object of three frames, ten records and a hundred bytes each."""
    spans = times or [(0, 9), (10, 19), (20, 29)]
    return Entry(
        key=f"s{start}", partition_id=PartitionId("t", 1, 0), topic_id="", records=30,
        range=OffsetRange(start, start + 30), min_timestamp=min(low for low, _ in spans),
        max_timestamp=max(high for _, high in spans), size_bytes=300, raw_bytes=600,
        format="segment", codec="zstd", sha256="",
        index=tuple(
            IndexPoint(start + 10 * i, 100 * i, 10 * i, *span) for i, span in enumerate(spans)
        ),
    )  # fmt: skip


def shown(slices: object) -> list[tuple[int, int, bool, int, int]]:
    return [
        (p.range.start, p.range.end, p.timed, p.records, p.stored_bytes)
        for p in slices  # type: ignore[attr-defined]
    ]


def test_nothing_picked_is_whole() -> None:
    entries = [segment(0), segment(30)]
    assert select_slices(entries, None, ALL_TIMES) == whole_slices(entries)
    assert all(part.whole for part in whole_slices(entries))


def test_offsets_take_the_frames_they_lie_in() -> None:
    slices = select_slices([segment(0), segment(30)], [OffsetRange(15, 45)], ALL_TIMES)
    assert shown(slices) == [(15, 30, False, 15, 200), (30, 45, False, 15, 200)]


def test_times_open_only_the_frames_at_their_edge() -> None:
    slices = select_slices([segment(0)], None, TimeRange(5, 25))
    assert shown(slices) == [
        (0, 10, True, 10, 100),
        (10, 20, False, 10, 100),
        (20, 30, True, 10, 100),
    ]
    assert select_slices([segment(0)], None, TimeRange(30, None)) == ()
    assert [p.whole for p in select_slices([segment(0)], None, TimeRange(0, 30))] == [True]


def test_out_of_order_times_leave_out_only_frames_without_any() -> None:
    entry = segment(0, times=[(0, 50), (60, 70), (5, 55)])
    assert [p[:3] for p in shown(select_slices([entry], None, TimeRange(None, 10)))] == [
        (0, 10, True),
        (20, 30, True),
    ]


def test_a_plan_counts_what_is_read() -> None:
    plan = plan_partition(0, [segment(30), segment(0)], (OffsetRange(0, 10),))
    assert (plan.records, plan.read_bytes, plan.raw_bytes) == (10, 100, 200)
    assert [entry.key for entry in plan.entries] == ["s0"]
    left = plan_partition(0, [segment(0)], ())
    assert left.cut and not left.entries and left.all_slices() == ()


def test_rows_without_a_time_are_refused() -> None:
    fields = {name: getattr(segment(0), name) for name in Entry.__slots__}
    rows = Entry(**{**fields, "format": "json", "index": (), "converter": "JsonConverter"})
    with pytest.raises(PreflightError, match="does not hold the times"):
        select_slices([rows], None, TimeRange(5, None))


def test_texts_are_understood() -> None:
    assert parse_partitions("0,3-5, 1") == (0, 1, 3, 4, 5)
    assert parse_offset_picks("a:b:0:7-9,x:1:5-") == (
        OffsetPick("a:b", 0, OffsetRange(7, 9)),
        OffsetPick("x", 1, OffsetRange(5, LAST_OFFSET)),
    )
    assert parse_incarnations("b:2,a:1") == (("a", 1), ("b", 2))


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_partitions, "x"),
        (parse_partitions, "5-3"),
        (parse_partitions, "0-99999999999"),
        (parse_offset_picks, "t:0"),
        (parse_offset_picks, "t:0:9-9"),
        (parse_offset_picks, "t:0:1-9,t:0:8-"),
        (parse_incarnations, "t:0"),
        (parse_incarnations, "t:1,t:2"),
    ],
)
def test_texts_that_say_nothing_are_refused(parse: object, text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)  # type: ignore[operator]


@pytest.mark.parametrize(
    "given",
    [
        {"exact_offsets": True, "into_non_empty": True},
        {"fill_holes": "tombstones"},
        {"from_ms": 5, "until_ms": 4},
        {"topics": (("a", "a"),), "topics_regex": "b"},
    ],
)
def test_options_that_exclude_each_other(given: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        RestoreOptions(**given)  # type: ignore[arg-type]


def test_a_restore_keeps_its_name_when_nothing_is_picked() -> None:
    assert RestoreOptions().selection() == {}
    assert RestoreOptions(groups=("g",)).selection() == {}
    assert set(RestoreOptions(partitions=(1,), until_ms=5).selection()) == {"partitions", "until"}


def test_a_restore_of_times_from_or_until_1970_is_another_restore() -> None:
    assert RestoreOptions(from_ms=0).selection() == {"from": 0}
    assert RestoreOptions(until_ms=0).selection() == {"until": 0}
