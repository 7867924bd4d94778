"""Format times with Joda ``DateTimeFormat`` patterns, and parse them like Joda's ISO parser.

The parser follows ``ISODateTimeFormat.dateTimeParser``. The names of eras, AM and PM, days, months
and time zones are those of Java 17 (Unicode CLDR). ``tests/golden/joda/make_names.java`` recorded
them. Confluent's sink treats the whole value of ``locale`` as a language. ``de`` is German, but
``de-DE``, ``en-US`` and ``C`` are unknown languages to Java and give short English names. The
module reads its table of names from the package and is pure otherwise.
"""

from __future__ import annotations

import lzma
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from kafkeep.options.sink.date_patterns import Token, iter_tokens
from kafkeep.records.calendar import (
    DAY_MS,
    Zone,
    date_of,
    days_in_month,
    days_of,
    first_week,
    week_of,
    weekday_of,
)

_OLD_CODES = {"iw": "he", "in": "id", "ji": "yi"}
_UNKNOWN = ""
_TABLE = "joda_names.tsv.xz"

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ZoneNames:
    """The names of one time zone in one language."""

    standard: str
    short_standard: str
    summer: str
    short_summer: str

    def name(self, *, is_standard: bool, is_long: bool) -> str:
        """Return the name for standard or summer time, long or short."""
        if is_standard:
            return self.standard if is_long else self.short_standard
        return self.summer if is_long else self.short_summer


@dataclass(frozen=True, slots=True)
class JodaNames:
    """The names of one language. ``days`` start with Monday, ``eras`` with BC."""

    eras: Texts
    halves: Texts
    days: Texts
    short_days: Texts
    months: Texts
    short_months: Texts
    zones: dict[str, ZoneNames]
    """Zone names by zone id. A zone that is missing here is written as its offset."""


def load_names(locale: str) -> JodaNames:
    """Return the names for a ``locale`` setting."""
    language = locale.lower()
    language = _OLD_CODES.get(language, language)
    return _load(language if language in _languages() else _UNKNOWN)


@cache
def zone_links() -> dict[str, str]:
    """Return the zone ids that Joda treats as aliases, with the zone each one refers to."""
    return dict(_iter_fields("L"))


@cache
def _languages() -> frozenset[str]:
    return frozenset(fields[0] for fields in _iter_fields("W"))


@cache
def _load(language: str) -> JodaNames:
    words = [word for _, *words in _iter_fields("W", language) for word in words]
    groups = [ids.split(",") for (ids,) in _iter_fields("G")]
    zones: dict[str, ZoneNames | None] = {}
    for one in (_UNKNOWN, language):
        for _, group, *names in _iter_fields("Z", one):
            found = ZoneNames(*names) if names[0] else None
            zones.update(dict.fromkeys(groups[int(group)], found))
    return JodaNames(
        eras=tuple(words[:2]),
        halves=tuple(words[2:4]),
        days=tuple(words[4:11]),
        short_days=tuple(words[11:18]),
        months=tuple(words[18:30]),
        short_months=tuple(words[30:]),
        zones={zone: names for zone, names in zones.items() if names is not None},
    )


def _iter_fields(kind: str, first: str | None = None) -> Iterator[list[str]]:
    """Yield the fields of all lines of a kind; with ``first``, only of lines that start with it."""
    begin = f"{kind}\t" if first is None else f"{kind}\t{first}\t"
    for line in _lines():
        if line.startswith(begin):
            yield line.split("\t")[1:]


@cache
def _lines() -> tuple[str, ...]:
    packed = files("kafkeep.records.partitioners").joinpath(_TABLE).read_bytes()
    return tuple(lzma.decompress(packed).decode("utf-8").rstrip("\n").split("\n"))


_UNITS = {"S": 1, "s": 1000, "m": 60_000}
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Moment:
    """A time, split into the values that patterns need."""

    time_ms: int
    days: int
    in_day_ms: int
    year: int
    month: int
    day: int
    offset_ms: int

    @property
    def hour(self) -> int:
        return self.in_day_ms // _HOUR_MS

    @property
    def year_of_era(self) -> int:
        """Return the year of the era; there is no year 0, and 1 BC precedes 1 AD."""
        return self.year if self.year > 0 else 1 - self.year


_NUMBERS: dict[str, Callable[[_Moment], int]] = {
    "C": lambda at: at.year_of_era // 100,
    "Y": lambda at: at.year_of_era,
    "y": lambda at: at.year,
    "x": lambda at: week_of(at.days)[0],
    "w": lambda at: week_of(at.days)[1],
    "e": lambda at: weekday_of(at.days),
    "D": lambda at: at.days - days_of(at.year, 1, 1) + 1,
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "K": lambda at: at.hour % 12,
    "h": lambda at: (at.hour - 1) % 12 + 1,
    "H": lambda at: at.hour,
    "k": lambda at: (at.hour - 1) % 24 + 1,
    "m": lambda at: at.in_day_ms // 60_000 % 60,
    "s": lambda at: at.in_day_ms // 1000 % 60,
}


class PathFormat:
    """A Joda pattern in one time zone and language.

    ``YYYY`` is the year of the era, not the week-based year.
    """

    def __init__(self, pattern: str, zone: Zone, locale: str = "en") -> None:
        self.zone = zone
        tokens = list(iter_tokens(pattern))
        self._writers = [_make_writer(token, zone, locale) for token in tokens]
        self.unit_ms = min((_UNITS.get(token.letter, _HOUR_MS) for token in tokens), default=1)
        """Local times in the same unit are formatted alike while the offset does not change."""

    def write(self, time_ms: int) -> str:
        """Return the time formatted with the pattern."""
        offset = self.zone.offset_ms(time_ms)
        days, in_day = divmod(time_ms + offset, DAY_MS)
        moment = _Moment(time_ms, days, in_day, *date_of(days), offset)
        return "".join(write(moment) for write in self._writers)


def _make_writer(token: Token, zone: Zone, locale: str) -> Callable[[_Moment], str]:
    match token.letter:
        case "":
            return lambda at: token.text
        case "S":
            # Joda has millisecond precision. Further digits are zeros.
            return lambda at: f"{at.in_day_ms % 1000:03}".ljust(token.count, "0")[: token.count]
        case "Z" | "z":
            return _make_zone_writer(token, zone, locale)
        case "x" | "y" | "Y" if token.count == 2:
            # Two letters give the last two digits of the year, not of the year of the era.
            number = _NUMBERS["x" if token.letter == "x" else "y"]
            return lambda at: f"{abs(number(at)) % 100:02}"
    if token.is_text:
        return _make_word_writer(token, load_names(locale))
    number = _NUMBERS[token.letter]
    return lambda at: _pad(number(at), token.count)


def _pad(number: int, width: int) -> str:
    return f"-{-number:0{width}}" if number < 0 else f"{number:0{width}}"


def _make_word_writer(token: Token, names: JodaNames) -> Callable[[_Moment], str]:
    is_long = token.count >= 4
    match token.letter:
        case "G":
            return lambda at: names.eras[at.year > 0]
        case "a":
            return lambda at: names.halves[at.hour >= 12]
        case "E":
            days = names.days if is_long else names.short_days
            return lambda at: days[weekday_of(at.days) - 1]
        case _:
            months = names.months if is_long else names.short_months
            return lambda at: months[at.month - 1]


def _make_zone_writer(token: Token, zone: Zone, locale: str) -> Callable[[_Moment], str]:
    if token.letter == "z":
        return _make_zone_name_writer(zone, load_names(locale), is_long=token.count >= 4)
    if token.count > 2:
        zone_id = _zone_id(zone)
        return lambda at: zone_id
    colon = ":" if token.count == 2 else ""
    return lambda at: _write_offset(at.offset_ms, colon)


def _make_zone_name_writer(
    zone: Zone, names: JodaNames, *, is_long: bool
) -> Callable[[_Moment], str]:
    found = names.zones.get(_zone_id(zone))
    if found is None:
        return lambda at: _print_offset(at.offset_ms)
    return lambda at: found.name(is_standard=zone.is_standard(at.time_ms), is_long=is_long)


def _zone_id(zone: Zone) -> str:
    """Return Joda's id of a zone: aliases are resolved, and fixed offsets have one form."""
    if zone.fixed_ms is None or "/" in zone.name:
        return zone_links().get(zone.name, zone.name)
    return _print_offset(zone.fixed_ms) if zone.fixed_ms else "UTC"


def _write_offset(offset_ms: int, colon: str) -> str:
    hours, minutes = divmod(abs(offset_ms) // 60_000, 60)
    return f"{'-' if offset_ms < 0 else '+'}{hours:02}{colon}{minutes:02}"


def _print_offset(offset_ms: int) -> str:
    """Return the full offset, with seconds and milliseconds if it has any."""
    seconds, milliseconds = divmod(abs(offset_ms), 1000)
    text = _write_offset(offset_ms, ":")
    if seconds % 60 or milliseconds:
        text += f":{seconds % 60:02}"
    return text + (f".{milliseconds:03}" if milliseconds else "")


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
"""No valid time is longer than this. A field of a record can hold a million characters."""
_UNITS_MS = (3_600_000, 60_000, 1000)


def parse_text_ms(text: str) -> int | None:
    """Return the milliseconds since 1970 that a text represents, or None if it is not a time.

    A text of digits is a number of milliseconds. A time without an offset is in UTC. Confluent's
    sink uses the time zone of its machine instead.
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
    """Return the milliseconds since midnight; a fraction belongs to the last unit given."""
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
