"""Times, patterns and zones as the Joda library has them (``golden/joda/make_vectors.java``)."""

from __future__ import annotations

import lzma
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkeep.records.arrow import find_distinct
from kafkeep.records.calendar import Zone, date_of, days_of, week_of, weekday_of
from kafkeep.records.partitioners.joda import PathFormat, parse_text_ms
from kafkeep.records.partitioners.partitioners import TimePaths
from kafkeep.records.partitioners.record_time import read_texts

VECTORS = Path(__file__).parent.parent / "golden" / "joda" / "vectors.tsv.xz"
QUICK = settings(max_examples=100, deadline=None)
ZONES = ["UTC", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kathmandu",
         "Pacific/Apia", "Europe/London", "+05:45:30"]  # fmt: skip
TIMES = st.integers(-2208988800000, 4102444800000)
WIDE = st.one_of(TIMES, st.integers(-7 * 10**18, 7 * 10**18))


open_zone = cache(Zone)


@cache
def load() -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    with lzma.open(VECTORS, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            kind, *fields = line.rstrip("\n").split("\t")
            found.setdefault(kind, []).append(fields)
    return found


def test_times_are_written_as_joda_writes_them() -> None:
    vectors = load()
    zones = [Zone(name) for (name,) in vectors["Z"]]
    patterns = [pattern for (pattern,) in vectors["P"]]
    wrong = []
    for zone, pattern, time, text in vectors["F"]:
        written = PathFormat(patterns[int(pattern)], zones[int(zone)]).write(int(time))
        if written != text:
            wrong.append((zones[int(zone)].name, patterns[int(pattern)], time, text, written))
    assert len(vectors["F"]) > 3000
    assert not wrong


def test_names_are_written_in_the_language_joda_writes_them_in() -> None:
    """All letters, in every language of Java 17; every zone's names."""
    wrong = []
    for locale, zone, pattern, time, text in load()["N"]:
        written = PathFormat(pattern, open_zone(zone), locale).write(int(time))
        if written != text:
            wrong.append((locale, zone, pattern, time, text, written))
    assert len(load()["N"]) > 4000
    assert not wrong


def test_local_times_are_the_moments_joda_takes_them_for() -> None:
    vectors = load()
    zones = [Zone(name) for (name,) in vectors["Z"]]
    assert len(vectors["L"]) > 1000
    for zone, local, time in vectors["L"]:
        assert zones[int(zone)].to_utc(int(local)) == int(time), (zones[int(zone)].name, local)


def test_texts_are_read_as_joda_reads_them_in_utc() -> None:
    for text, time in load()["R"]:
        # Digits alone are milliseconds before they are a year, in the real sink too.
        wanted = int(text) if text.isdigit() else None if time == "-" else int(time)
        assert parse_text_ms(text) == wanted, text


@QUICK
@given(st.integers(-(10**11), 10**11))
def test_any_day_has_a_date_and_any_date_a_day(days: int) -> None:
    year, month, day = date_of(days)
    assert days_of(year, month, day) == days
    if 1 <= year <= 9999:
        when = date(1970, 1, 1) + timedelta(days=days)
        assert (year, month, day) == (when.year, when.month, when.day)
        assert (*week_of(days), weekday_of(days)) == tuple(when.isocalendar())


@QUICK
@given(st.lists(WIDE, min_size=1, max_size=50), st.sampled_from(ZONES))
def test_offsets_of_many_times_are_those_of_each(times: list[int], name: str) -> None:
    zone = Zone(name)
    assert zone.offsets_ms(np.array(times)).tolist() == [zone.offset_ms(t) for t in times]


@QUICK
@given(st.lists(WIDE, max_size=50), st.integers(0, 3))
def test_distinct_values_and_their_places_give_the_values_back(values: list[int], by: int) -> None:
    given_values = np.array(values, np.int64) // 10 ** (by * 6)
    found, places = find_distinct(given_values)
    assert found.tolist() == sorted(set(given_values.tolist()))
    assert found[places].tolist() == given_values.tolist()


def place_one_by_one(time: int, zone: Zone, pattern: str, duration: int) -> str:
    """Return the directory by the rule itself: round local time down, find its moment, write."""
    local = (time + zone.offset_ms(time)) // duration * duration
    return PathFormat(pattern, zone).write(zone.to_utc(local))


@QUICK
@given(
    st.lists(TIMES, min_size=1, max_size=30),
    st.sampled_from(ZONES),
    st.sampled_from(["YYYY/MM/dd/HH", "YYYY-MM-dd HH:mm Z", "xxxx-ww", "ss", "'all'"]),
    st.sampled_from([1, 1000, 60_000, 900_000, 3_600_000, 5_400_000, 86_400_000, 7]),
)
def test_many_times_are_placed_as_each_alone(
    times: list[int], name: str, pattern: str, duration: int
) -> None:
    zone = Zone(name)
    # Around a change of the offset too.
    near = [
        t + step for t in (1710054000000, 1730613600000) for step in range(0, 7_200_000, 431_000)
    ]
    codes, paths = TimePaths(PathFormat(pattern, zone), duration).read(np.array(times + near))
    wanted = [place_one_by_one(time, zone, pattern, duration) for time in times + near]
    assert [paths[code] for code in codes] == wanted
    assert len(set(paths)) == len(paths)


@QUICK
@given(
    st.lists(
        st.tuples(
            st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31)),  # noqa: DTZ001
            st.sampled_from(["", ".5", ".123", ".123456", ".999999999"]),
            st.sampled_from(["Z", "+00:00", "-03:30", "+23:59"]),
        ),
        min_size=1,
        max_size=10,
    )
)
def test_texts_read_in_bulk_are_those_read_one_by_one(
    given_times: list[tuple[datetime, str, str]],
) -> None:
    texts = [f"{t.replace(microsecond=0).isoformat()}{f}{z}" for t, f, z in given_times]
    times, missing = read_texts(pa.array(texts, pa.string()))
    assert not missing.any()
    assert times.tolist() == [parse_text_ms(text) for text in texts]
    for text, time in zip(texts, times.tolist(), strict=True):
        if "." not in text and text.endswith("Z"):
            when = datetime.fromisoformat(text).astimezone(UTC)
            assert time == (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    "text",
    ["2023-02-29T00:00:00Z", "2024-12-03T24:00:00Z", "2024-12-03T10:60:00Z", "2024-00-03T10:00:00Z",
     "2024-12-03T10:00:60Z", "2024-12-32T10:00:00Z"],
)  # fmt: skip
def test_a_text_that_is_no_time_spoils_only_itself(text: str) -> None:
    assert parse_text_ms(text) is None
    times, missing = read_texts(pa.array(["2024-12-03T10:00:00Z", text], pa.string()))
    assert missing.tolist() == [False, True]
    assert times[0] == 1733220000000
