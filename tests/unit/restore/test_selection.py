"""What is read follows from the log: no frame more than needed, none less."""

from __future__ import annotations

import pickle
import tracemalloc
from dataclasses import replace

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


@pytest.mark.parametrize(
    ("ranges", "times"),
    [
        (None, ALL_TIMES),
        ((OffsetRange(40, 50), OffsetRange(70, 95)), ALL_TIMES),
        (None, TimeRange(5, 25)),
        ((OffsetRange(0, 61),), TimeRange(None, 15)),
        (None, TimeRange(100, None)),
        ((), ALL_TIMES),
    ],
)
def test_a_plan_has_the_slices_of_its_selection_also_in_a_task(ranges, times) -> None:
    entries = [segment(start) for start in range(0, 300, 30)]
    plan = plan_partition(0, entries, ranges, times)
    expected = select_slices(entries, ranges, times)
    for slices in (plan.all_slices(), pickle.loads(pickle.dumps(plan.all_slices()))):
        assert slices == expected and list(slices) == list(expected)
        assert (len(slices), slices[1:]) == (len(expected), expected[1:])
    assert plan.records == sum(part.records for part in expected)
    assert plan.read_bytes == sum(part.stored_bytes for part in expected)


@pytest.mark.parametrize("times", [ALL_TIMES, TimeRange(0, 25)])
def test_a_plan_and_the_work_of_a_task_hold_no_slices(times: TimeRange) -> None:
    entries = [replace(segment(start), sha256="ab" * 32) for start in range(0, 30_000, 30)]
    tracemalloc.start()
    try:
        plan = plan_partition(0, entries, None, times)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 500 * len(entries), "with its slices it takes 900 bytes more for each"
    slices = plan.all_slices()
    body = pickle.dumps(slices)
    assert len(slices) >= len(entries)
    assert pickle.dumps(slices) == body, "also after they were used"


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
