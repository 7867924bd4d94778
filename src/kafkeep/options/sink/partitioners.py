"""The options of partitioners, which choose the directory of a record."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, did_you_mean, names, one_of, option
from kafkeep.options.sink.date_patterns import parse_path_format

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
MAX_DURATION_MS = 10**18
DAILY_PATH = "'year'=YYYY/'month'=MM/'day'=dd"
HOURLY_PATH = DAILY_PATH + "/'hour'=HH"

_PACKAGE = "io.confluent.connect.storage.partitioner."
_CLASSES = {
    "default": ("DefaultPartitioner",),
    "field": ("FieldPartitioner",),
    "time": ("TimeBasedPartitioner",),
    "daily": ("DailyPartitioner",),
    "hourly": ("HourlyPartitioner",),
    "field-time": ("FieldAndTimeBasedPartitioner", "TimeAndFieldBasedPartitioner"),
}
_EXTRACTORS = ("Wallclock", "Record", "RecordField")
_LOCALE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*(\.[A-Za-z0-9-]+)?|C(\.[A-Za-z0-9-]+)?")
_OFFSET = re.compile(
    r"([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9])(?:[.,]?([0-9]{1,3}))?)?)?"
)


def parse_offset(zone: str) -> int | None:
    """Return the milliseconds of a fixed zone (``UTC``, ``+09:00``, ``UTC+09:00``), or None."""
    if zone in ("UTC", "UT", "Z", "Etc/UTC"):
        return 0
    match = _OFFSET.fullmatch(re.sub(r"\A(UTC|GMT|UT)(?=[+-])", "", zone))
    if match is None:
        return None
    hours, minutes, seconds, rest = (int(part or 0) for part in match.groups()[1:])
    for _ in range(3 - len(match[5] or "000")):
        rest *= 10
    total = ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest
    return -total if match[1] == "-" else total


def _parse_class(text: str) -> str:
    short = text.strip().rsplit(".", 1)[-1]
    for name, classes in _CLASSES.items():
        if short == name or short in classes:
            return name
    known = [name for classes in _CLASSES.values() for name in classes]
    raise UsageError(
        f"unknown partitioner {text!r}; use one of {', '.join(_CLASSES)} or a class such as"
        f" {', '.join(_PACKAGE + name for name in known[:5])}",
        hint=did_you_mean(short, known),
    )


def _parse_extractor(text: str) -> str:
    short = text.strip().rsplit("$", 1)[-1].removesuffix("TimestampExtractor")
    return one_of("timestamp extractor", *_EXTRACTORS)(short)


def _parse_duration_ms(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a whole number of milliseconds") from None
    if value > MAX_DURATION_MS:
        raise UsageError(f"{text!r} is too long")
    return value


def _parse_fields(text: str) -> tuple[str, ...]:
    fields = names(text) if text.strip() else ()
    for field in fields:
        path = field.removeprefix("key:")
        if field == "header:" or (path and not all(path.split("."))):
            raise UsageError(f"a name is empty in {field!r}")
    return fields


def field_label(name: str) -> str:
    """Return the text before ``=`` for an item of ``partition.field.name``."""
    source, colon, rest = name.partition(":")
    return (rest or source) if colon and source in ("key", "header") else name


def _parse_locale(text: str) -> str:
    bare = text.strip()
    if bare and not _LOCALE.fullmatch(bare):
        raise UsageError(f"{text!r} is not a locale", hint="Write en, en-US or C.")
    return bare or "en"


def _parse_timezone(text: str) -> str:
    bare = text.strip() or "UTC"
    if parse_offset(bare) is None:
        try:
            ZoneInfo(bare)
        except (ValueError, OSError, LookupError):
            raise UsageError(
                f"unknown time zone {text!r}",
                hint="Write an id such as UTC, Europe/Berlin or +09:00.",
            ) from None
    return bare


def _choice(what: str, *choices: str, fold: Callable[[str], str]) -> Callable[[str], str]:
    parse = one_of(what, *choices)
    return lambda text: parse(fold(text.strip()))


@dataclass(frozen=True, kw_only=True)
class PartitionOptions:
    """How to choose the directory of a record."""

    partitioner_class: str = option(
        "partitioner.class",
        "How to choose directories: default (by Kafka partition), field, time, daily, hourly,"
        " field-time (fields, then time), or the name of Confluent's class.",
        default="default",
        parse=_parse_class,
    )
    partition_field_name: tuple[str, ...] = option(
        "partition.field.name",
        "Fields for field and field-time, in order: `country` or, nested, `customer.country` of the"
        " value; `key:` for the whole key, `key:id` for a field of it, `header:tenant` for the last"
        " header of that name (null if there is none). A record without the field is an error.",
        default=(),
        parse=_parse_fields,
        metavar="NAMES",
    )
    partition_duration_ms: int = option(
        "partition.duration.ms",
        "Round times down to this duration, in local time, before path.format is applied; daily"
        " and hourly have their own.",
        default=-1,
        parse=_parse_duration_ms,
    )
    path_format: str = option(
        "path.format",
        "Joda pattern of directories for time and field-time: 'year'=YYYY/'month'=MM/'day'=dd;"
        " daily and hourly have their own.",
        default="",
        parse=parse_path_format,
    )
    locale: str = option(
        "locale",
        "Language of days, months, eras and time zones in paths, such as en, de or ja. en-US, C and"
        " languages that Java does not know use Java's short English names (Jan, CE).",
        default="en",
        parse=_parse_locale,
    )
    timezone: str = option(
        "timezone",
        "Time zone of paths: an id such as Europe/Berlin, or +09:00.",
        default="UTC",
        parse=_parse_timezone,
    )
    timestamp_extractor: str | None = option(
        "timestamp.extractor",
        "The time of a record: Wallclock (when it is archived), Record (its Kafka timestamp) or"
        " RecordField (timestamp.field). Default: Wallclock for time-based paths, as in Confluent's"
        " sink, and Record otherwise.",
        default=None,
        parse=_parse_extractor,
    )
    timestamp_field: str = option(
        "timestamp.field",
        "The field for RecordField, with dots for nested fields: milliseconds, a Timestamp, digits,"
        " or ISO-8601 (UTC if it has no offset).",
        default="timestamp",
        parse=str,
    )
    partition_path_encoding: str = option(
        "partition.path.encoding",
        "percent: characters that would change the path (/ \\ %, control characters, . and ..) are"
        " written as %XX, the text null as %6Eull, an empty text as %empty, and long texts end with"
        " a digest. raw: values are written unchanged, as in Confluent's sink.",
        default="percent",
        parse=_choice("path encoding", "percent", "raw", fold=str.lower),
    )
    s3_schema_partition_affix_type: str = option(
        "s3.schema.partition.affix.type",
        "Add schema_name=<name of the value's schema> before the directory (PREFIX) or after it"
        " (SUFFIX).",
        default="NONE",
        parse=_choice("affix type", "NONE", "PREFIX", "SUFFIX", fold=str.upper),
    )

    def __post_init__(self) -> None:
        wrong = {}
        labels = [field_label(name) for name in self.partition_field_name]
        if self.is_field and not labels:
            wrong["partition.field.name"] = f"{self.partitioner_class} needs a field"
        if self.is_field and len(set(labels)) != len(labels):
            wrong["partition.field.name"] = f"two parts of the path have the same name: {labels}"
        if self.is_time_based:
            wrong |= self._check_time()
        if self.extractor == "RecordField" and not self.timestamp_field.strip("."):
            wrong["timestamp.field"] = "RecordField needs the name of a field"
        if wrong:
            raise ConfigErrors(wrong)

    def _check_time(self) -> dict[str, str]:
        wrong = {}
        if self.duration_ms <= 0:
            wrong["partition.duration.ms"] = "must be a number of milliseconds above zero"
        if not self.pattern:
            wrong["path.format"] = "must not be empty for time-based paths"
        return wrong

    @property
    def is_time_based(self) -> bool:
        """True if directories depend on times."""
        return self.partitioner_class in ("time", "daily", "hourly", "field-time")

    @property
    def is_field(self) -> bool:
        """True if directories depend on fields."""
        return self.partitioner_class in ("field", "field-time")

    @property
    def extractor(self) -> str:
        """Where the time of a record comes from: Wallclock, Record or RecordField."""
        return self.timestamp_extractor or ("Wallclock" if self.is_time_based else "Record")

    @property
    def uses_clock(self) -> bool:
        """True if directories depend on when a record is archived."""
        return self.extractor == "Wallclock"

    @property
    def pattern(self) -> str:
        """The Joda pattern in effect."""
        fixed = {"daily": DAILY_PATH, "hourly": HOURLY_PATH}
        return fixed.get(self.partitioner_class, self.path_format)

    @property
    def duration_ms(self) -> int:
        """The duration in effect."""
        fixed = {"daily": DAY_MS, "hourly": HOUR_MS}
        return fixed.get(self.partitioner_class, self.partition_duration_ms)
