"""Format and parse times with patterns of Java's ``SimpleDateFormat``, in UTC and English; pure.

Every int64 of milliseconds can be formatted. The calendar is Gregorian for all times, and a year
has as many digits as it needs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkeep.options.sink.date_patterns import (
    DateField,
    DatePattern,
    parse_date_pattern,
    unreadable_letters,
)
from kafkeep.records.calendar import DAY_MS, DAYS, MONTHS, date_of, days_of, weekday_of

_STEPS = (("S", 1), ("s", 1000), ("m", 60_000), ("HkKha", 3_600_000))
_FIRST_CENTURY = 1950
"""A two-digit year is in the hundred years that start here."""


class _Moment:
    """The fields of a time. Weeks start on Sunday, and week 1 contains January 1."""

    def __init__(self, time_ms: int) -> None:
        self.days, self.ms = divmod(time_ms, DAY_MS)
        self.year, self.month, self.day = date_of(self.days)
        self.hour = self.ms // 3_600_000
        self.weekday = (self.days + 4) % 7
        self.day_of_year = self.days - days_of(self.year, 1, 1) + 1

    def week_of_year(self) -> tuple[int, int]:
        """Return the year that the week belongs to, and the week number."""
        next_year = days_of(self.year + 1, 1, 1)
        if self.days - self.weekday + 6 >= next_year:
            return self.year + 1, 1
        first = (days_of(self.year, 1, 1) + 4) % 7
        return self.year, (self.day_of_year - 1 + first) // 7 + 1

    def week_of_month(self) -> int:
        first = (self.days - self.day + 1 + 4) % 7
        return (self.day - 1 + first) // 7 + 1


def _year(year: int, count: int) -> str:
    of_era = year if year > 0 else 1 - year
    return f"{of_era % 100:02d}" if count == 2 else f"{of_era:0{count}d}"


def _name(names: Sequence[str], index: int, count: int) -> str:
    return names[index] if count >= 4 else names[index][:3]


def _month(moment: _Moment, count: int) -> str:
    return _name(MONTHS, moment.month - 1, count) if count >= 3 else f"{moment.month:0{count}d}"


_NUMBERS: dict[str, Callable[[_Moment], int]] = {
    "w": lambda m: m.week_of_year()[1],
    "W": lambda m: m.week_of_month(),
    "D": lambda m: m.day_of_year,
    "d": lambda m: m.day,
    "F": lambda m: (m.day - 1) // 7 + 1,
    "u": lambda m: m.weekday or 7,
    "H": lambda m: m.hour,
    "k": lambda m: m.hour or 24,
    "K": lambda m: m.hour % 12,
    "h": lambda m: m.hour % 12 or 12,
    "m": lambda m: m.ms // 60_000 % 60,
    "s": lambda m: m.ms // 1000 % 60,
    "S": lambda m: m.ms % 1000,
}
_TEXTS: dict[str, Callable[[_Moment, int], str]] = {
    "G": lambda m, _: "AD" if m.year > 0 else "BC",
    "y": lambda m, count: _year(m.year, count),
    "Y": lambda m, count: _year(m.week_of_year()[0], count),
    "M": _month,
    "L": _month,
    "E": lambda m, count: _name(DAYS, weekday_of(m.days) - 1, count),
    "a": lambda m, _: "AM" if m.hour < 12 else "PM",
    "z": lambda _, count: "Coordinated Universal Time" if count >= 4 else "UTC",
    "Z": lambda _m, _c: "+0000",
    "X": lambda _m, _c: "Z",
}


@dataclass(frozen=True, slots=True)
class DateFormat:
    """A parsed pattern that formats and parses times."""

    text: str
    pattern: DatePattern

    @classmethod
    def of(cls, text: str) -> DateFormat:
        """Parse a pattern; raise UsageError if it is invalid."""
        return cls(text, parse_date_pattern(text))

    def format(self, time_ms: int) -> str:
        """Return the time formatted with the pattern."""
        moment = _Moment(time_ms)
        return "".join(
            part if isinstance(part, str) else _written(part, moment) for part in self.pattern
        )

    @property
    def step_ms(self) -> int:
        """The interval length, counted from 1970, within which all times are formatted alike."""
        letters = {part.letter for part in self.pattern if isinstance(part, DateField)}
        return next((step for some, step in _STEPS if letters & set(some)), DAY_MS)

    def parse(self, text: str) -> int:
        """Return the time that a text represents, as Java's lenient parser reads it.

        Text after the pattern is ignored, and numbers can overflow (a 13th month). Raise ValueError
        if the text does not match the pattern.
        """
        if letters := unreadable_letters(self.pattern):
            raise ValueError(f"times cannot be parsed with the pattern letters {letters}")
        read = _Read(text)
        for i, part in enumerate(self.pattern):
            if isinstance(part, str):
                read.expect(part)
            else:
                follower = self.pattern[i + 1] if i + 1 < len(self.pattern) else ""
                read.take(part, abutting=_is_number(follower))
        return read.time_ms()


def _written(field: DateField, moment: _Moment) -> str:
    if number := _NUMBERS.get(field.letter):
        return f"{number(moment):0{field.count}d}"
    return _TEXTS[field.letter](moment, field.count)


def _is_number(part: DateField | str) -> bool:
    if isinstance(part, str):
        return False
    return part.letter in _NUMBERS or part.letter == "y" or (part.letter in "ML" and part.count < 3)


_DIGITS = re.compile(r"-?[0-9]+")
_ZONE = re.compile(
    r"(?:UTC|GMT|Z)?([+-])([0-9]{1,2}):([0-9]{2})|(?:UTC|GMT|Z)?([+-])([0-9]{2})([0-9]{2})?"
    r"|UTC|GMT|Z|Coordinated Universal Time"
)


class _Read:
    """The state of parsing one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.year, self.month, self.day = 1970, 1, 1
        self.day_of_year: int | None = None
        self.hour = self.half = self.minute = self.second = self.ms = self.zone_ms = 0
        self.halves = self.is_bc = False

    def expect(self, literal: str) -> None:
        if not self.text.startswith(literal, self.at):
            raise ValueError(f"{literal!r} is missing at position {self.at}")
        self.at += len(literal)

    def take(self, field: DateField, *, abutting: bool) -> None:
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1
        letter, count = field.letter, field.count
        if letter in "ML" and count >= 3:
            self.month, self.day_of_year = self._word(MONTHS) + 1, None
        elif letter == "E":
            self._word(DAYS)
        elif letter == "a":
            self.half = self._word(["AM", "PM"])
        elif letter == "G":
            self.is_bc = self._word(["AD", "BC"]) == 1
        elif letter in "zZX":
            self._zone()
        else:
            start = self.at
            value = self._number(count if abutting else None)
            self._set(letter, value, two=count <= 2 and self.at - start == 2 and value >= 0)

    def _set(self, letter: str, value: int, *, two: bool) -> None:
        match letter:
            case "y":
                wrapped = _FIRST_CENTURY + (value - _FIRST_CENTURY) % 100
                self.year = wrapped if two else value
            case "M" | "L":
                self.month, self.day_of_year = value, None
            case "d":
                self.day, self.day_of_year = value, None
            case "D":
                self.day_of_year = value
            case "H" | "k":
                self.hour, self.halves = 0 if letter == "k" and value == 24 else value, False
            case "K" | "h":
                self.hour, self.halves = 0 if letter == "h" and value == 12 else value, True
            case "m":
                self.minute = value
            case "s":
                self.second = value
            case "S":
                self.ms = value

    def _number(self, most: int | None) -> int:
        end = len(self.text) if most is None else self.at + most
        match = _DIGITS.match(self.text, self.at, end) if end <= len(self.text) else None
        if match is None:
            raise ValueError(f"a number is missing at position {self.at}")
        self.at = match.end()
        return int(match[0])

    def _word(self, names: Sequence[str]) -> int:
        rest = self.text[self.at :].lower()
        for size in (None, 3):
            for i, name in enumerate(names):
                if rest.startswith(name[:size].lower()):
                    self.at += len(name[:size])
                    return i
        raise ValueError(f"a name such as {names[0]} is missing at position {self.at}")

    def _zone(self) -> None:
        match = _ZONE.match(self.text, self.at)
        if match is None:
            raise ValueError(f"a time zone is missing at position {self.at}")
        self.at = match.end()
        sign, hours, minutes = match[1] or match[4], match[2] or match[5], match[3] or match[6]
        if sign:
            size = int(hours) * 3_600_000 + int(minutes or 0) * 60_000
            self.zone_ms = -size if sign == "-" else size

    def time_ms(self) -> int:
        """Return the parsed time in milliseconds."""
        year = 1 - self.year if self.is_bc else self.year
        if self.day_of_year is not None:
            days = days_of(year, 1, 1) + self.day_of_year - 1
        else:
            more, month = divmod(self.month - 1, 12)
            days = days_of(year + more, month + 1, 1) + self.day - 1
        hour = self.hour + (12 * self.half if self.halves else 0)
        ms = ((hour * 60 + self.minute) * 60 + self.second) * 1000 + self.ms
        return days * DAY_MS + ms - self.zone_ms
