"""Times written with Joda's DateTimeFormat patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.config.path_format import Token, iter_tokens
from kafkeep.data.calendar import DAY_MS, date_of, days_of, week_of, weekday_of
from kafkeep.partition.joda_names import JodaNames, load_names, zone_links
from kafkeep.partition.zone import Zone

_UNITS = {"S": 1, "s": 1000, "m": 60_000}
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Moment:
    """What patterns ask of a time."""

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
        """There is no year 0: before 1 AD came 1 BC."""
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

    ``YYYY`` is the year of the era, not of weeks.
    """

    def __init__(self, pattern: str, zone: Zone, locale: str = "en") -> None:
        self.zone = zone
        tokens = list(iter_tokens(pattern))
        self._writers = [_make_writer(token, zone, locale) for token in tokens]
        self.unit_ms = min((_UNITS.get(token.letter, _HOUR_MS) for token in tokens), default=1)
        """Times alike but for what is shorter than this are written alike, at one offset."""

    def write(self, time_ms: int) -> str:
        """Write a moment."""
        offset = self.zone.offset_ms(time_ms)
        days, in_day = divmod(time_ms + offset, DAY_MS)
        moment = _Moment(time_ms, days, in_day, *date_of(days), offset)
        return "".join(write(moment) for write in self._writers)


def _make_writer(token: Token, zone: Zone, locale: str) -> Callable[[_Moment], str]:
    match token.letter:
        case "":
            return lambda at: token.text
        case "S":
            # Joda counts milliseconds; more digits are zeros.
            return lambda at: f"{at.in_day_ms % 1000:03}".ljust(token.count, "0")[: token.count]
        case "Z" | "z":
            return _make_zone_writer(token, zone, locale)
        case "x" | "y" | "Y" if token.count == 2:
            # Two letters are two digits, of the year and not of the era's.
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
    """Return what Joda calls a zone: links are followed, fixed offsets written in one form."""
    if zone.fixed_ms is None or "/" in zone.name:
        return zone_links().get(zone.name, zone.name)
    return _print_offset(zone.fixed_ms) if zone.fixed_ms else "UTC"


def _write_offset(offset_ms: int, colon: str) -> str:
    hours, minutes = divmod(abs(offset_ms) // 60_000, 60)
    return f"{'-' if offset_ms < 0 else '+'}{hours:02}{colon}{minutes:02}"


def _print_offset(offset_ms: int) -> str:
    """Write an offset whole, with seconds where it has any."""
    seconds, milliseconds = divmod(abs(offset_ms), 1000)
    text = _write_offset(offset_ms, ":")
    if seconds % 60 or milliseconds:
        text += f":{seconds % 60:02}"
    return text + (f".{milliseconds:03}" if milliseconds else "")
