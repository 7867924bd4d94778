"""ISO-8601 times in fields, read as Joda's ``ISODateTimeFormat.dateTimeParser`` reads them."""

from __future__ import annotations

import re

from kafkeep.data.calendar import DAY_MS, days_in_month, days_of, first_week

_DIGITS = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_ISO = re.compile(
    r"""
    (?: (?P<year>[+-]?[0-9]{1,9})
        (?: -W(?P<week>[0-9]{1,2}) (?: -(?P<weekday>[0-9]) )?
          | -(?P<ordinal>[0-9]{3})
          | -(?P<month>[0-9]{1,2}) (?: -(?P<day>[0-9]{1,2}) )?
        )?
        (?P<t>T)?
      | T (?=[0-9])
    )
    (?(t) (?P<clock> [0-9]{1,2} .*? )? (?P<offset> Z | [+-].* )?
        | (?(year) | (?P<only_clock> [0-9]{1,2} .*? ) (?P<only_offset> Z | [+-].* )? ) )
    """,
    re.ASCII | re.IGNORECASE | re.VERBOSE,
)
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2}))?)?(?:[.,]([0-9]{1,9}))?")
_ZONE = re.compile(
    r"([+-])([0-9]{2})(?::([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,3}))?)?"
    r"|([0-9]{2})(?:([0-9]{2})([0-9]{1,3})?)?)?"
)
_MAX = 2**63 - 1
_LONGEST = 100
"""No time is longer; one field of a record may have a million characters."""
_UNITS_MS = (3_600_000, 60_000, 1000)


def parse_text_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 that a text stands for, or None.

    Digits alone are milliseconds. A time without an offset is UTC (Confluent's sink takes the
    time zone of its machine).
    """
    if _DIGITS.fullmatch(text) and -_MAX - 1 <= int(text) <= _MAX:
        return int(text)
    match = _ISO.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    days = _read_date(match) if match["year"] else 0
    clock = _read_clock(match["clock"] or match["only_clock"])
    offset = _read_offset(match["offset"] or match["only_offset"])
    if days is None or clock is None or offset is None:
        return None
    time = days * DAY_MS + clock - offset
    return time if -_MAX <= time <= _MAX else None


def _read_date(match: re.Match[str]) -> int | None:
    year = int(match["year"])
    if match["week"]:
        return _read_week(year, int(match["week"]), int(match["weekday"] or 1))
    if match["ordinal"]:
        first, following = days_of(year, 1, 1), days_of(year + 1, 1, 1)
        day = first + int(match["ordinal"]) - 1
        return day if first <= day < following else None
    month, day = int(match["month"] or 1), int(match["day"] or 1)
    if not (1 <= month <= 12 and 1 <= day <= days_in_month(year, month)):
        return None
    return days_of(year, month, day)


def _read_week(year: int, week: int, weekday: int) -> int | None:
    monday = first_week(year) + 7 * (week - 1)
    if week < 1 or monday >= first_week(year + 1) or not 1 <= weekday <= 7:
        return None
    return monday + weekday - 1


def _read_clock(text: str | None) -> int | None:
    """Return milliseconds into the day; a fraction is one of the last unit given."""
    if text is None:
        return 0
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    given = [int(part) for part in match.groups()[:3] if part is not None]
    if given[0] > 23 or any(part > 59 for part in given[1:]):
        return None
    total = sum(part * unit for part, unit in zip(given, _UNITS_MS, strict=False))
    if match[4]:
        total += int(match[4]) * _UNITS_MS[len(given) - 1] // 10 ** len(match[4])
    return total


def _read_offset(text: str | None) -> int | None:
    if text is None or text in "Zz":
        return 0
    match = _ZONE.fullmatch(text)
    if match is None:
        return None
    hours = int(match[2])
    minutes, seconds = int(match[3] or match[6] or 0), int(match[4] or match[7] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    rest = int((match[5] or match[8] or "0").ljust(3, "0"))
    total = ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
    return -total if match[1] == "-" else total
