"""When a sink reads: only when something may close."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from kafkeep.archive.entry import OffsetRange
from kafkeep.backup.sink_schedule import PartitionBacklog, SinkTiming, late_times, next_tick
from kafkeep.objects.range_writer import SinkTail
from kafkeep.objects.sink.spec import RotateReason
from kafkeep.options.sink.sink import SinkOptions

NOON = 1_733_227_200_000  # 2024-12-03T12:00:00Z
JSON = {"format.class": "json", "value.converter.schemas.enable": "false"} | {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter"
}


def timing(follow: bool = True, keeps_tail: bool = True, **options: str) -> SinkTiming:
    given = JSON | {name.replace("_", "."): value for name, value in options.items()}
    return SinkTiming(
        options=SinkOptions.parse(given), follow=follow, keeps_tail=keeps_tail, age_ms=60_000
    )


def waiting(
    end: int,
    *,
    waited: int = 0,
    tail: SinkTail | None = None,
    est_bytes: int = 100,
    late: int | None = None,
) -> PartitionBacklog:
    return PartitionBacklog(OffsetRange(100, end), est_bytes, NOON - waited, NOON, tail, late)


def tail(read_to: int, records: int, base_time: int | None = None) -> SinkTail:
    return SinkTail(records=records, bytes=records * 10, base_time=base_time, read_to=read_to)


def why(found: object) -> object:
    return None if found is None else (found.why, found.closes)  # type: ignore[attr-defined]


def test_a_count_is_read_when_enough_may_have_come_and_not_before() -> None:
    sink = timing(flush_size="5")
    assert sink.decide(waiting(104)) is None
    assert why(sink.decide(waiting(105))) == (RotateReason.COUNT, None)


def test_holes_are_read_once_and_then_awaited() -> None:
    """Five offsets held three records: two more must come."""
    sink = timing(flush_size="5")
    assert sink.decide(waiting(106, tail=tail(105, 3))) is None
    assert why(sink.decide(waiting(107, tail=tail(105, 3)))) == (RotateReason.COUNT, None)


def test_what_was_read_is_not_read_again_while_nothing_comes() -> None:
    sink = timing(flush_size="5", rotate_interval_ms="600000")
    assert sink.decide(waiting(103, tail=tail(103, 3, NOON))) is None


def test_a_late_record_closes_by_its_time() -> None:
    sink = timing(rotate_interval_ms="1000")
    assert why(sink.decide(waiting(120, tail=tail(118, 18, NOON), late=119))) == (
        RotateReason.INTERVAL,
        None,
    )
    assert late_times(sink, {("t", 0): tail(118, 18, NOON)}) == {("t", 0): NOON + 1000}


def test_a_slow_topic_is_closed_by_the_clock_with_no_new_record() -> None:
    sink = timing(rotate_interval_ms="60000")
    assert sink.decide(waiting(101, waited=59_999, tail=tail(101, 1, NOON))) is None
    assert why(sink.decide(waiting(101, waited=60_000, tail=tail(101, 1, NOON)))) == (
        RotateReason.IDLE,
        RotateReason.IDLE,
    )


def test_schema_changes_are_checked_when_as_much_arrived_as_was_read() -> None:
    sink = timing(value_converter_schemas_enable="true")
    assert sink.decide(waiting(200)) is not None
    assert sink.decide(waiting(249, tail=tail(200, 100))) is None
    assert sink.decide(waiting(300, tail=tail(200, 100))) is not None


def test_a_connector_keeps_its_tail_and_a_backup_closes_it() -> None:
    assert why(timing(follow=False, keeps_tail=True).decide(waiting(101))) == (
        "one-shot backup",
        None,
    )
    assert why(timing(follow=False, keeps_tail=False).decide(waiting(101))) == (
        "one-shot backup",
        RotateReason.END,
    )
    assert timing(keeps_tail=True).decide(waiting(101, waited=10**9)) is None
    assert why(timing(keeps_tail=False).decide(waiting(101, waited=60_000))) == (
        RotateReason.AGE,
        RotateReason.AGE,
    )


def test_a_schedule_is_due_at_its_next_step_after_the_first_record() -> None:
    sink = timing(rotate_schedule_interval_ms="3600000", timezone="UTC")
    half_past = PartitionBacklog(OffsetRange(0, 1), 1, NOON - 1_800_000, NOON, None)
    assert why(sink.decide(half_past)) == (RotateReason.SCHEDULE, RotateReason.SCHEDULE)
    early = PartitionBacklog(OffsetRange(0, 1), 1, NOON, NOON + 3_599_999, None)
    assert sink.decide(early) is None


def local(text: str, zone: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "after", "step_h", "expected"),
    [
        ("UTC", "2024-12-03T10:20", 1, "2024-12-03T11:00"),
        ("UTC", "2024-12-03T22:00", 5, "2024-12-04T00:00"),
        ("Asia/Tokyo", "2024-12-03T00:00", 6, "2024-12-03T06:00"),
        ("Europe/Berlin", "2025-03-30T23:30", 24, "2025-03-31T00:00"),
    ],
)
def test_steps_are_counted_from_local_midnight_and_cut_by_the_next(
    zone: str, after: str, step_h: int, expected: str
) -> None:
    assert next_tick(local(after, zone), step_h * 3_600_000, zone) == local(expected, zone)
