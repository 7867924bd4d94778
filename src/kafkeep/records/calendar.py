"""Gregorian calendar arithmetic for any year, and time zones over arrays of timestamps.

A Kafka timestamp is any int64, and ``datetime`` cannot represent all of them. Local times are
converted to UTC by Joda's rules. The module is pure, except that it reads the tz database.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np

from kafkeep.numba_setup import Int64s
from kafkeep.options.sink.partitioners import parse_offset
from kafkeep.records.arrow import find_distinct

DAY_MS = 86_400_000
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
CYCLE_DAYS = 146_097
"""The calendar, including the days of the week, repeats after this many days (400 years)."""


def days_of(year: int, month: int, day: int) -> int:
    """Return the number of days from 1970-01-01 to a date."""
    # The calculation starts the year in March, so that the leap day is the last day of the year.
    if month <= 2:
        year -= 1
    cycle, in_cycle = divmod(year, 400)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = in_cycle * 365 + in_cycle // 4 - in_cycle // 100 + in_year
    return cycle * CYCLE_DAYS + days - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Return the year, month and day of a day number; the inverse of ``days_of``."""
    cycle, rest = divmod(days + 719_468, CYCLE_DAYS)
    in_cycle = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    in_year = rest - (365 * in_cycle + in_cycle // 4 - in_cycle // 100)
    month_from_march = (5 * in_year + 2) // 153
    day = in_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return cycle * 400 + in_cycle + (month <= 2), month, day


def weekday_of(days: int) -> int:
    """Return the ISO day of the week: 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def week_of(days: int) -> tuple[int, int]:
    """Return the ISO week-based year and the week number."""
    thursday = days - weekday_of(days) + 4
    year = date_of(thursday)[0]
    return year, (thursday - days_of(year, 1, 1)) // 7 + 1


def first_week(year: int) -> int:
    """Return the day number of the Monday that starts week 1 of an ISO year."""
    fourth = days_of(year, 1, 4)
    return fourth - weekday_of(fourth) + 1


def days_in_month(year: int, month: int) -> int:
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return days_of(*following, 1) - days_of(year, month, 1)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BUCKET_MS = 6 * 3_600_000
"""No time zone has ever changed its offset twice within a bucket of this length."""
_NEVER = np.iinfo(np.int64).max
_FIRST_MS = days_of(2, 1, 1) * DAY_MS
_LAST_MS = days_of(9000, 1, 1) * DAY_MS
_WINTER_MS = {
    "Africa/Casablanca": 0,
    "Africa/El_Aaiun": 0,
    "Africa/Windhoek": 3_600_000,
    "Eire": 0,
    "Europe/Dublin": 0,
}
"""Standard offsets, as in Joda, of zones where the tz database may define negative summer time."""


class Zone:
    """A time zone: UTC, a fixed offset (``+09:00``), or a zone of the tz database.

    A zone caches its lookups, so all batches of a task share one instance.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.fixed_ms = parse_offset(name)
        self._zone = ZoneInfo(name) if self.fixed_ms is None else None
        self._buckets: dict[int, tuple[int, int, int]] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return Zone, (self.name,)

    def offset_ms(self, time_ms: int) -> int:
        """Return the UTC offset at a moment.

        After the year 9000 the offsets repeat every 400 years.
        """
        if self._zone is None:
            return self.fixed_ms or 0
        before, turn, after = self._bucket(time_ms // _BUCKET_MS)
        return before if time_ms < turn else after

    def offsets_ms(self, times: Int64s) -> Int64s:
        """Return the UTC offset at each moment."""
        if self._zone is None:
            return np.full(len(times), self.fixed_ms, np.int64)
        buckets, places = find_distinct(times // _BUCKET_MS)
        known = np.array([self._bucket(bucket) for bucket in buckets.tolist()], np.int64)
        before, turn, after = known.reshape(-1, 3).T
        if (turn == _NEVER).all():
            offsets: Int64s = before[places]
            return offsets
        return np.where(times < turn[places], before[places], after[places])

    def is_standard(self, time_ms: int) -> bool:
        """Return whether standard time, not summer time, applies at a moment."""
        if self._zone is None:
            return True
        if self.name in _WINTER_MS:
            return self.offset_ms(time_ms) == _WINTER_MS[self.name]
        summer = self._local(time_ms).dst()
        return summer is None or summer <= timedelta(0)

    def to_utc(self, local_ms: int) -> int:
        """Return the UTC time of a local time, as Joda's lenient ``convertLocalToUTC`` does.

        A local time can occur twice, when clocks go back. The choice between the two moments then
        depends on the sign of the offset. A local time that never occurs is shifted by the length
        of the gap.
        """
        guess = self.offset_ms(local_ms)
        offset = self.offset_ms(local_ms - guess)
        if guess != offset and guess < 0 and self.offset_ms(local_ms - offset) != offset:
            offset = guess
        return local_ms - offset

    def _bucket(self, bucket: int) -> tuple[int, int, int]:
        """Return the offset at the start of a bucket, its change and the offset after it."""
        found = self._buckets.get(bucket)
        if found is None:
            start = bucket * _BUCKET_MS
            before, after = self._look_up(start), self._look_up(start + _BUCKET_MS)
            turn = _NEVER if before == after else self._find_turn(start, before)
            found = self._buckets[bucket] = before, turn, after
        return found

    def _find_turn(self, low: int, before: int) -> int:
        high = low + _BUCKET_MS
        while high - low > 1000:
            middle = (low + high) // 2000 * 1000
            if self._look_up(middle) == before:
                low = middle
            else:
                high = middle
        return high

    def _look_up(self, time_ms: int) -> int:
        offset = self._local(time_ms).utcoffset()
        assert offset is not None
        return offset // timedelta(milliseconds=1)

    def _local(self, time_ms: int) -> datetime:
        if time_ms > _LAST_MS:
            cycle_ms = CYCLE_DAYS * DAY_MS
            time_ms = _LAST_MS - cycle_ms + (time_ms - _LAST_MS) % cycle_ms
        moment = _EPOCH + timedelta(milliseconds=max(time_ms, _FIRST_MS))
        return moment.astimezone(self._zone)
