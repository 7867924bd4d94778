"""What forms offer for a key, and whether they show it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkeep.config.converters import HEADER_CLASSES, ConverterClass
from kafkeep.config.formats import CLASS_NAMES, PARQUET_CODECS, FormatKind
from kafkeep.connect.plugins.key_info import PARTITIONERS, VERSION

Given = Mapping[str, str]
_TIMES = ("TimeBasedPartitioner", "time", "FieldAndTimeBasedPartitioner", "field-time")
_CLOCKS = (*_TIMES, "DailyPartitioner", "daily", "HourlyPartitioner", "hourly")
_FIELDS = ("FieldPartitioner", "field", "FieldAndTimeBasedPartitioner", "field-time")
_CONVERTERS = [one.value for one in ConverterClass if one is not ConverterClass.SIMPLE_HEADER]
_RECOMMENDED: Mapping[str, list[str]] = {
    "format.class": list(CLASS_NAMES),
    "keys.format.class": list(CLASS_NAMES),
    "headers.format.class": [n for n, kind in CLASS_NAMES.items() if kind is not FormatKind.BYTES],
    "key.converter": _CONVERTERS,
    "value.converter": _CONVERTERS,
    "header.converter": [one.value for one in HEADER_CLASSES],
    "avro.codec": ["null", "deflate", "snappy", "bzip2", "zstandard"],
    "parquet.codec": list(PARQUET_CODECS),
    "schema.compatibility": ["NONE", "BACKWARD", "FORWARD", "FULL"],
    "s3.ssea.name": ["AES256", "aws:kms", "aws:kms:dsse"],
    "s3.compression.level": [str(level) for level in range(-1, 10)],
    "s3.schema.partition.affix.type": ["SUFFIX", "PREFIX", "NONE"],
    "storage.class": ["io.confluent.connect.s3.storage.S3Storage"],
    "partitioner.class": [
        PARTITIONERS + name
        for name in (
            "DefaultPartitioner",
            "HourlyPartitioner",
            "DailyPartitioner",
            "TimeBasedPartitioner",
            "FieldPartitioner",
        )
    ],
}


def recommended(key: str) -> list[str]:
    """Return the values to offer; none where there are too many to list."""
    if key.endswith(".plugin.version"):
        return [VERSION]
    return list(_RECOMMENDED.get(key, ()))


def is_visible(key: str, given: Given) -> bool:
    """Tell whether a key matters with what is chosen elsewhere."""
    rule = _VISIBLE.get(key)
    return rule is None or rule(given)


def _last(given: Given, key: str) -> str:
    return given.get(key, "").strip().rpartition(".")[2]


def _partitioner(*names: str) -> Callable[[Given], bool]:
    return lambda given: _last(given, "partitioner.class") in names


def _format(kind: str) -> Callable[[Given], bool]:
    return lambda given: _last(given, "format.class").lower().removesuffix("format") == kind


def _true(key: str) -> Callable[[Given], bool]:
    return lambda given: given.get(key, "").strip().lower() == "true"


_VISIBLE: Mapping[str, Callable[[Given], bool]] = {
    "partition.field.name": _partitioner(*_FIELDS),
    "partition.duration.ms": _partitioner(*_TIMES),
    "path.format": _partitioner(*_TIMES),
    "locale": _partitioner(*_CLOCKS),
    "timezone": _partitioner(*_CLOCKS),
    "avro.codec": _format("avro"),
    "parquet.codec": _format("parquet"),
    "keys.format.class": _true("store.kafka.keys"),
    "headers.format.class": _true("store.kafka.headers"),
    "s3.sse.kms.key.id": lambda given: given.get("s3.ssea.name", "").startswith("aws:kms"),
}
