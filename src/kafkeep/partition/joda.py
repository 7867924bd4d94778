"""Times written with Joda's DateTimeFormat patterns, in English where words are asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kafkeep.config.path_format import Token, iter_tokens
from kafkeep.data.calendar import (
    DAY_MS,
    DAYS,
    MONTHS,
    date_of,
    days_of,
    week_of,
    weekday_of,
)
from kafkeep.partition.zone import Zone

_UNITS = {"S": 1, "s": 1000, "m": 60_000}
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class _Moment:
    """What patterns ask of a time."""

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

_WORDS: dict[str, Callable[[_Moment], str]] = {
    "G": lambda at: "AD" if at.year > 0 else "BC",
    "E": lambda at: DAYS[weekday_of(at.days) - 1],
    "M": lambda at: MONTHS[at.month - 1],
    "a": lambda at: "AM" if at.hour < 12 else "PM",
}


class PathFormat:
    """A Joda pattern in one time zone. ``YYYY`` is the year of the era, not of weeks."""

    def __init__(self, pattern: str, zone: Zone) -> None:
        self.zone = zone
        tokens = list(iter_tokens(pattern))
        self._writers = [_make_writer(token, zone) for token in tokens]
        self.unit_ms = min((_UNITS.get(token.letter, _HOUR_MS) for token in tokens), default=1)
        """Times alike but for what is shorter than this are written alike, at one offset."""

    def write(self, time_ms: int) -> str:
        """Write a moment."""
        offset = self.zone.offset_ms(time_ms)
        days, in_day = divmod(time_ms + offset, DAY_MS)
        moment = _Moment(days, in_day, *date_of(days), offset)
        return "".join(write(moment) for write in self._writers)


def _make_writer(token: Token, zone: Zone) -> Callable[[_Moment], str]:
    match token.letter:
        case "":
            return lambda at: token.text
        case "S":
            # Joda counts milliseconds; more digits are zeros.
            return lambda at: f"{at.in_day_ms % 1000:03}".ljust(token.count, "0")[: token.count]
        case "Z" | "z":
            return _make_zone_writer(token, zone)
        case "x" | "y" | "Y" if token.count == 2:
            # Two letters are two digits, of the year and not of the era's.
            number = _NUMBERS["x" if token.letter == "x" else "y"]
            return lambda at: f"{abs(number(at)) % 100:02}"
    if token.is_text:
        word = _WORDS[token.letter]
        return word if token.count >= 4 or token.letter in "Ga" else lambda at: word(at)[:3]
    number = _NUMBERS[token.letter]
    return lambda at: _pad(number(at), token.count)


def _pad(number: int, width: int) -> str:
    return f"-{-number:0{width}}" if number < 0 else f"{number:0{width}}"


def _make_zone_writer(token: Token, zone: Zone) -> Callable[[_Moment], str]:
    if token.letter == "z":
        name = _name_fixed(zone, long=token.count >= 4)
        return lambda at: name
    if token.count > 2:
        return lambda at: zone.name if zone.fixed_ms is None else _name_fixed(zone, long=False)
    colon = ":" if token.count == 2 else ""
    return lambda at: _write_offset(at.offset_ms, colon)


def _write_offset(offset_ms: int, colon: str) -> str:
    hours, minutes = divmod(abs(offset_ms) // 60_000, 60)
    return f"{'-' if offset_ms < 0 else '+'}{hours:02}{colon}{minutes:02}"


def _name_fixed(zone: Zone, *, long: bool) -> str:
    """Name a zone whose offset never changes; of others the names are not known here."""
    if zone.fixed_ms is None:
        raise ValueError(f"names of time zones are not known for {zone.name}")
    if zone.fixed_ms == 0:
        return "Coordinated Universal Time" if long else "UTC"
    seconds, milliseconds = divmod(abs(zone.fixed_ms), 1000)
    name = _write_offset(zone.fixed_ms, ":")
    if seconds % 60 or milliseconds:
        name += f":{seconds % 60:02}"
    return name + (f".{milliseconds:03}" if milliseconds else "")
