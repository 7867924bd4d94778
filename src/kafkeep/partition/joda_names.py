"""The names Joda writes in times: of eras, halves of the day, days, months and time zones.

They are those of Java 17 (Unicode's CLDR), recorded by ``tests/golden/joda/make_names.java``.
Confluent's sink takes the whole text of ``locale`` for a language: ``de`` is German, but Java knows
no language ``de-DE``, ``en-US`` or ``C``, and gives short English names.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_OLD_CODES = {"iw": "he", "in": "id", "ji": "yi"}
_UNKNOWN = ""
_TABLE = "joda_names.tsv.xz"

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ZoneNames:
    """What one time zone is called in a language."""

    standard: str
    short_standard: str
    summer: str
    short_summer: str

    def name(self, *, is_standard: bool, is_long: bool) -> str:
        """Return one of its names."""
        if is_standard:
            return self.standard if is_long else self.short_standard
        return self.summer if is_long else self.short_summer


@dataclass(frozen=True, slots=True)
class JodaNames:
    """The names of one language. Days begin with Monday; before Christ comes first."""

    eras: Texts
    halves: Texts
    days: Texts
    short_days: Texts
    months: Texts
    short_months: Texts
    zones: dict[str, ZoneNames]
    """By id; one that is missing is written as its offset."""


def load_names(locale: str) -> JodaNames:
    """Return the names for the text of ``locale``."""
    language = locale.lower()
    language = _OLD_CODES.get(language, language)
    return _load(language if language in _languages() else _UNKNOWN)


@cache
def zone_links() -> dict[str, str]:
    """Return the ids that Joda takes for other zones, and these."""
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
    """Yield the fields of the lines of a kind, those with ``first`` alone if it is given."""
    begin = f"{kind}\t" if first is None else f"{kind}\t{first}\t"
    for line in _lines():
        if line.startswith(begin):
            yield line.split("\t")[1:]


@cache
def _lines() -> tuple[str, ...]:
    packed = files("kafkeep.partition").joinpath(_TABLE).read_bytes()
    return tuple(lzma.decompress(packed).decode("utf-8").rstrip("\n").split("\n"))
