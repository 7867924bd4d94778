"""Options of partitioners: what is taken, what is refused and with which words."""

from __future__ import annotations

import pickle

import pytest

from kafkeep.options.option import ConfigErrors, parse_group
from kafkeep.options.sink.partitioners import PartitionOptions, parse_offset
from kafkeep.records.partitioners.partitioners import open_partitioner

PACKAGE = "io.confluent.connect.storage.partitioner."
HOURLY = {
    "partitioner.class": PACKAGE + "TimeBasedPartitioner",
    "partition.duration.ms": "3600000",
    "path.format": "YYYY/MM/dd/HH",
}


def parse(**given: str) -> PartitionOptions:
    return parse_group(PartitionOptions, {k.replace("_", "."): v for k, v in given.items()})


def parse_time(**given: str) -> PartitionOptions:
    more = {key.replace("_", "."): text for key, text in given.items()}
    return parse_group(PartitionOptions, {**HOURLY, **more})


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("DefaultPartitioner", "default"),
        ("FieldPartitioner", "field"),
        ("TimeBasedPartitioner", "time"),
        ("DailyPartitioner", "daily"),
        ("HourlyPartitioner", "hourly"),
        ("FieldAndTimeBasedPartitioner", "field-time"),
    ],
)
def test_confluents_classes_and_short_names_are_one(name: str, kind: str) -> None:
    for spelled in (PACKAGE + name, name, kind):
        options = parse_time(partitioner_class=spelled, partition_field_name="a")
        assert options.partitioner_class == kind


def test_defaults_are_those_of_the_real_sink() -> None:
    options = parse()
    assert (options.partitioner_class, options.locale, options.timezone) == ("default", "en", "UTC")
    assert (options.is_time_based, options.is_field) == (False, False)
    assert options.extractor == "Record"
    assert parse_time().extractor == "Wallclock"
    assert parse_time(timestamp_extractor="Record").extractor == "Record"


def test_daily_and_hourly_have_their_own_path_and_duration() -> None:
    daily = parse(partitioner_class="daily", path_format="YYYY", partition_duration_ms="5")
    assert (daily.pattern, daily.duration_ms) == ("'year'=YYYY/'month'=MM/'day'=dd", 86_400_000)
    hourly = parse(partitioner_class="hourly")
    assert hourly.pattern == daily.pattern + "/'hour'=HH"
    assert hourly.duration_ms == 3_600_000


def test_a_delimiter_at_the_end_of_the_path_is_dropped() -> None:
    assert parse_time(path_format="YYYY/MM/").pattern == "YYYY/MM"


@pytest.mark.parametrize("locale", ["en", "en-US", "de", "EN", "C", "en_US.UTF-8", "POSIX", ""])
def test_every_locale_has_names(locale: str) -> None:
    assert parse_time(locale=locale, path_format="YYYY/MMM/EEE a/z").is_time_based


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        (
            "partitioner.class",
            "com.example.MyPartitioner",
            "unknown partitioner 'com.example.MyPart",
        ),
        ("partition.duration.ms", "-1", "above zero"),
        ("partition.duration.ms", "0", "above zero"),
        ("partition.duration.ms", "1h", "not a whole number"),
        ("partition.duration.ms", "9" * 19, "is too long"),
        ("path.format", "", "must not be empty"),
        ("path.format", "/", "must not be empty"),
        ("path.format", "'", "gives ''"),
        ("path.format", "year=YYYY", "'r' in 'year=YYYY' is not a valid date field"),
        ("path.format", "YYYY/'..'/MM", "gives '..'"),
        ("path.format", "/YYYY", "gives ''"),
        ("path.format", "YYYY//MM", "gives ''"),
        ("path.format", "YYYY\\MM", "as a part of the path"),
        ("path.format", "YYYY\n", "as a part of the path"),
        ("locale", "!!", "not a locale"),
        ("timezone", "Mars/Olympus", "unknown time zone 'Mars/Olympus'"),
        ("timezone", "../UTC", "unknown time zone"),
        ("timezone", "PST", "unknown time zone 'PST'"),
        ("timestamp.extractor", "Clock", "must be one of Wallclock, Record, RecordField"),
        ("partition.path.encoding", "base64", "must be one of percent, raw"),
        ("s3.schema.partition.affix.type", "MIDDLE", "must be one of NONE, PREFIX, SUFFIX"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(key: str, text: str, why: str) -> None:
    given = {**HOURLY, "path.format": "YYYY/MMM", key: text}
    with pytest.raises(ConfigErrors) as caught:
        parse_group(PartitionOptions, given)
    assert why in caught.value.by_key[key]


def test_fields_are_needed_and_have_different_labels() -> None:
    with pytest.raises(ConfigErrors, match="field needs a field"):
        parse(partitioner_class="field")
    with pytest.raises(ConfigErrors, match="same name"):
        parse(partitioner_class="field", partition_field_name="id,key:id")
    for name in ("header:", "a..b", "key:.", "a,,b"):
        with pytest.raises(ConfigErrors, match="empty"):
            parse(partitioner_class="field", partition_field_name=name)


def test_offsets_of_fixed_zones() -> None:
    hour = 3_600_000
    for text in ("+09:00", "+09", "+0900", "UTC+09:00", "GMT+09:00", "UT+09"):
        assert parse_offset(text) == 9 * hour
    assert parse_offset("-03:30") == -3.5 * hour
    assert parse_offset("+01:02:03.4") == hour + 2 * 60_000 + 3400
    for text in ("+9", "-5", "+24:00", "GMT+9", "Asia/Tokyo"):
        assert parse_offset(text) is None


def test_options_and_partitioners_travel_to_tasks() -> None:
    options = parse_time(timezone="Asia/Tokyo")
    assert pickle.loads(pickle.dumps(options)) == options
    open_partitioner(pickle.loads(pickle.dumps(options)))
