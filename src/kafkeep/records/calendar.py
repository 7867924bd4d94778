"""The Gregorian calendar in whole numbers, for any year: Kafka's times are any int64."""

from __future__ import annotations

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
"""In 400 years the calendar repeats itself, days of the week too."""


def days_of(year: int, month: int, day: int) -> int:
    """Return the days from 1970-01-01 to a date."""
    # The year is taken to begin in March, so that the leap day is its last.
    if month <= 2:
        year -= 1
    cycle, in_cycle = divmod(year, 400)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = in_cycle * 365 + in_cycle // 4 - in_cycle // 100 + in_year
    return cycle * CYCLE_DAYS + days - 719_468


def date_of(days: int) -> tuple[int, int, int]:
    """Return year, month and day, the reverse of ``days_of``."""
    cycle, rest = divmod(days + 719_468, CYCLE_DAYS)
    in_cycle = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    in_year = rest - (365 * in_cycle + in_cycle // 4 - in_cycle // 100)
    month_from_march = (5 * in_year + 2) // 153
    day = in_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    return cycle * 400 + in_cycle + (month <= 2), month, day


def weekday_of(days: int) -> int:
    """Return 1 for Monday to 7 for Sunday."""
    return (days + 3) % 7 + 1


def week_of(days: int) -> tuple[int, int]:
    """Return the ISO year of weeks and the week in it."""
    thursday = days - weekday_of(days) + 4
    year = date_of(thursday)[0]
    return year, (thursday - days_of(year, 1, 1)) // 7 + 1


def first_week(year: int) -> int:
    """Return the Monday that begins week 1 of an ISO year, in days."""
    fourth = days_of(year, 1, 4)
    return fourth - weekday_of(fourth) + 1


def days_in_month(year: int, month: int) -> int:
    """Return how long a month is."""
    following = (year + 1, 1) if month == 12 else (year, month + 1)
    return days_of(*following, 1) - days_of(year, month, 1)
