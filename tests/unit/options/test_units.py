from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkeep.errors import UsageError
from kafkeep.options.units import (
    format_duration,
    format_size,
    format_time,
    parse_duration,
    parse_size,
    parse_time,
    write_duration,
    write_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("64MiB", 64 << 20),
        ("64 mib", 64 << 20),
        ("64M", 64 << 20),
        ("10MB", 10_000_000),
        ("1.5KiB", 1536),
        ("2GiB", 2 << 30),
        ("1TB", 10**12),
        ("7B", 7),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1XB", "1.3B", "1e3", "9" * 30, "64 Mi B", "٣"])
def test_bad_sizes_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("500ms", 500),
        ("10s", 10_000),
        ("15m", 900_000),
        ("1h30m", 5_400_000),
        ("1.5s", 1500),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
    ],
)
def test_durations_are_read(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "1x", "1s x", "0.1ms", "10 s"])
def test_bad_durations_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(text)
    assert caught.value.hint


@given(st.integers(0, 2**62))
def test_what_is_written_is_read_as_the_same_number(number: int) -> None:
    assert parse_size(write_size(number)) == number
    assert parse_duration(write_duration(number)) == number


@pytest.mark.parametrize(("size", "text"), [(128 << 20, "128MiB"), (8 << 30, "8GiB"), (10, "10")])
def test_sizes_are_written_with_the_largest_unit_that_fits(size: int, text: str) -> None:
    assert write_size(size) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(60_000, "60s"), (500, "500ms"), (604_800_000, "7d"), (0, "0")]
)
def test_durations_are_written_with_a_unit_that_fits(milliseconds: int, text: str) -> None:
    assert write_duration(milliseconds) == text


def test_a_duration_without_unit_is_asked_for_one() -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration("30")
    assert caught.value.hint == "Add the unit: 30ms or 30s."


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("-1", -1),
        ("1733220000123", 1733220000123),
        ("2024-12-03T10:00:00Z", 1733220000000),
        ("2024-12-03T10:00:00", 1733220000000),
        ("2024-12-03T11:00:00.5+01:00", 1733220000500),
        ("2024-12-03", 1733184000000),
        ("1969-12-31T23:59:59.999Z", -1),
    ],
)
def test_times_are_read(text: str, milliseconds: int) -> None:
    assert parse_time(text) == milliseconds


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", "1e3", "9" * 30])
def test_bad_times_are_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_time(text)
    assert caught.value.hint


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_a_written_time_reads_back_exactly(milliseconds: int) -> None:
    assert parse_time(format_time(milliseconds)) == milliseconds


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_every_timestamp_a_topic_can_hold_is_written(milliseconds: int) -> None:
    assert parse_time(format_time(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (64 << 20, "64.0 MiB"),
        ((1 << 20) - 1, "1.0 MiB"),
        (5 << 50, "5.0 PiB"),
    ],
)
def test_sizes_are_written(size: int, text: str) -> None:
    assert format_size(size) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0ms"),
        (850, "850ms"),
        (12_340, "12.3s"),
        (59_999, "1m 0s"),
        (100_000, "1m 40s"),
        (3_600_000, "1h 0m"),
        (90_000_000, "1d 1h"),
        (-500, "-500ms"),
    ],
)
def test_durations_are_written(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text
