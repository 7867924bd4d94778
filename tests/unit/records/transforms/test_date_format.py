"""Patterns of ``SimpleDateFormat``: what Java 17 writes and reads by them (English, UTC)."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.errors import UsageError
from kafkeep.options.sink.date_patterns import parse_date_pattern
from kafkeep.records.calendar import date_of, days_of
from kafkeep.records.transforms.date_format import DateFormat

VECTORS = Path(__file__).with_suffix(".jsonl.xz")


def load() -> list[dict[str, Any]]:
    with lzma.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read(pattern: str, text: str) -> int | None:
    try:
        return DateFormat.of(pattern).parse(text)
    except ValueError:
        return None


def test_times_are_written_as_java_does() -> None:
    wanted = [told for told in load() if "text" in told]
    assert len(wanted) > 700
    for told in wanted:
        assert DateFormat.of(told["pattern"]).format(told["ms"]) == told["text"], told


def test_times_are_read_as_java_does() -> None:
    wanted = [told for told in load() if "read" in told]
    assert len(wanted) > 30
    for told in wanted:
        assert read(told["pattern"], told["read"]) == told["ms"], told


@settings(max_examples=60, deadline=None)
@given(st.integers(-(2**63), 2**63 - 1))
def test_any_time_is_written_and_days_come_back(time_ms: int) -> None:
    days = time_ms // 86_400_000
    year, month, day = date_of(days)
    assert days_of(year, month, day) == days
    if year > 0:
        assert DateFormat.of("yyyy-M-d").format(time_ms) == f"{year:04d}-{month}-{day}"


@settings(max_examples=60, deadline=None)
@given(st.integers(-62135596800000, 253402300799999))
def test_what_is_written_to_the_millisecond_is_read_again(time_ms: int) -> None:
    pattern = DateFormat.of("yyyy-MM-dd'T'HH:mm:ss.SSSXXX")
    assert pattern.parse(pattern.format(time_ms)) == time_ms


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["yyyyMMdd", "yyyy-MM-dd-HH", "HH:mm", "ss", "SSS"]), st.integers(0, 2**45))
def test_times_of_one_step_are_written_alike(pattern: str, time_ms: int) -> None:
    form = DateFormat.of(pattern)
    start = time_ms - time_ms % form.step_ms
    assert form.format(start) == form.format(start + form.step_ms - 1)


@pytest.mark.parametrize("pattern", ["yyyy-MM-ddTHH", "'open", "XXXX", "b"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        parse_date_pattern(pattern)


def test_week_numbers_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="letters w"):
        DateFormat.of("yyyy ww").parse("2024 01")
