"""Spredfast's S3 sink and source: translate their keys into kafkeep's. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.connect.connectors.family import Family, TranslatedConfig, interval_ms
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_number, any_text, any_truth
from kafkeep.errors import UsageError
from kafkeep.options.backup import BackupOptions
from kafkeep.options.option import ConfigErrors, iter_options, one_of, option, parse_group, truth
from kafkeep.options.storage import ArchiveAddress

PACKAGE = "com.spredfast.kafka.connect.s3."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_DAY_MS = 86_400_000
_CLASSES = {"bytelengthformat": "binary", "stringwithdelimiterformat": "text"}


def _format(text: str) -> str:
    name = text.strip().rpartition(".")[2].lower()
    return one_of("format", "binary", "text")(_CLASSES.get(name, name))


def _number(text: str) -> int | None:
    bare = text.strip()
    if bare == "-1":
        return None
    if not bare.isdecimal() or int(bare) == 0:
        raise UsageError(f"{text!r} is not a whole number above zero")
    return int(bare)


def _prefix(text: str) -> str:
    bare = text.strip().strip("/")
    try:
        return ArchiveAddress.parse(f"s3://bucket/{bare}").path
    except UsageError as error:
        raise UsageError(f"{text!r} is not a prefix") from error


@dataclass(frozen=True, kw_only=True)
class SpredfastPlace:
    """The bucket and prefix, for the sink and the source."""

    s3_bucket: str | None = option(
        "s3.bucket", "Spredfast: the bucket, like s3.bucket.name.", default=None
    )
    s3_prefix: str = option(
        "s3.prefix", "Spredfast: prefix of the archive in the bucket.", default="", parse=_prefix
    )
    s3_endpoint: str | None = option(
        "s3.endpoint", "Spredfast: address of the store, like store.url.", default=None
    )
    s3_path_style: bool | None = option(
        "s3.path_style",
        "Spredfast: put the bucket in the path, like s3.path.style.access.enabled.",
        default=None,
        parse=truth,
    )

    def meaning(self) -> dict[str, str]:
        """Return the options as kafkeep's keys."""
        found = {"s3.bucket.name": self.s3_bucket, "store.url": self.s3_endpoint}
        if self.s3_path_style is not None:
            found["s3.path.style.access.enabled"] = str(self.s3_path_style).lower()
        return {key: text for key, text in found.items() if text is not None}


CALLED = {
    "s3.bucket.name": "s3.bucket",
    "store.url": "s3.endpoint",
    "s3.path.style.access.enabled": "s3.path_style",
}


@dataclass(frozen=True, kw_only=True)
class SpredfastSinkOptions:
    """The format of the objects, and when they are closed."""

    format: str | None = option(
        "format",
        "Spredfast: text writes values as lines, in one folder per day, compressed with gzip. "
        "binary, and no format, write segments, which hold keys, values, headers and timestamps.",
        default=None,
        parse=_format,
        metavar="binary|text",
    )
    format_include_keys: bool = option(
        "format.include.keys",
        "Spredfast: also write keys. Segments always hold them; text cannot.",
        default=False,
    )
    compressed_file_size: int | None = option(
        "compressed_file_size",
        "Spredfast, text: close an object at this size, before compression.",
        default=None,
        parse=_number,
        metavar="BYTES",
    )
    flush_interval_ms: int | None = option(
        "flush.interval.ms",
        "Spredfast, text: close an object when a record is this much later than the first one.",
        default=None,
        parse=_number,
        metavar="MS",
    )


@dataclass(frozen=True, kw_only=True)
class SpredfastSourceOptions:
    """Spredfast's S3 source; ``targetTopic.<topic>`` gives a topic another name."""

    poll_interval_ms: int = option(
        "s3.new.record.poll.interval",
        "Spredfast's source: check the log for new commits this often, in ms.",
        default=10_000,
        parse=interval_ms,
        metavar="MS",
    )


_SINK_KEYS = (
    FixedKey("local.buffer.dir", "string", "", "Buffers are in Spark's local folder.", any_text),
    FixedKey(
        "compressed_block_size",
        "long",
        "67108864",
        "Objects always consist of independent blocks; kafkeep chooses their size.",
        any_number,
    ),
    FixedKey(
        "flush.grace.period.ms",
        "long",
        "",
        "There is no grace period: the log says what was written.",
        any_number,
    ),
    FixedKey(
        "format.key.delimiter",
        "string",
        "",
        "Text holds values only; segments hold keys and need no delimiter.",
    ),
)
_LOG = "The log names the objects and says how they were written."
_SOURCE_KEYS = (
    FixedKey("format", "string", "", _LOG, any_text),
    FixedKey("format.include.keys", "boolean", "false", _LOG, any_truth),
    FixedKey(
        "max.partition.count", "int", "200", "The log has the number of partitions.", any_number
    ),
    FixedKey("s3.page.size", "int", "100", "The bucket is not listed.", any_number),
    FixedKey(
        "max.poll.records", "int", "1000", "Batches are as large as Kafka allows.", any_number
    ),
    FixedKey("s3.error.backoff", "long", "1000", "Failed requests are always retried.", any_number),
    FixedKey(
        "s3.start.marker",
        "string",
        "",
        "A restore reads whole commits: use restore.at or restore.commit.",
    ),
)


def _sink(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    place = parse_group(SpredfastPlace, texts)
    options = parse_group(SpredfastSinkOptions, texts)
    found = place.meaning()
    if options.format == "text":
        _check_text(options, texts)
        return TranslatedConfig(
            texts=found | _text(options),
            instead={"value.converter": _BYTES},
            called=CALLED,
            prefix=place.s3_prefix,
        )
    _check_segments(options)
    note = "format=binary: the objects are kafkeep's segments, which Spredfast cannot read"
    return TranslatedConfig(
        texts=found,
        # Segments hold the bytes of Kafka: converters would only decode and encode them again.
        instead=dict.fromkeys(("key.converter", "value.converter", "header.converter")),
        called=CALLED,
        prefix=place.s3_prefix,
        notes=(note,) if options.format == "binary" else (),
    )


def _check_segments(options: SpredfastSinkOptions) -> None:
    asked = {
        "compressed_file_size": (options.compressed_file_size, "segment.bytes"),
        "flush.interval.ms": (options.flush_interval_ms, "segment.age"),
    }
    wrong = {
        key: f"needs format=text; for segments use {ours}"
        for key, (value, ours) in asked.items()
        if value is not None
    }
    if wrong:
        raise ConfigErrors(wrong)


def _check_text(options: SpredfastSinkOptions, texts: Mapping[str, str]) -> None:
    if options.format_include_keys:
        raise ConfigErrors({"format.include.keys": "format=text holds values only"})
    name = texts.get("value.converter", "").rpartition(".")[2]
    if name not in ("", "ByteArrayConverter", "AlreadyBytesConverter", "StringConverter"):
        raise ConfigErrors(
            {"value.converter": "format=text needs ByteArrayConverter or StringConverter"}
        )


def _text(options: SpredfastSinkOptions) -> dict[str, str]:
    found = {
        "format.class": "bytes",
        "format.bytearray.extension": "",
        "s3.compression.type": "gzip",
        "topics.dir": "",
        "object.name.template": "{{path}}/{{topic}}-{{partition:padding=5}}-"
        "{{start_offset:padding=12}}.gz",
        "partitioner.class": "time",
        "path.format": "YYYY-MM-dd",
        "partition.duration.ms": str(_DAY_MS),
        "rotate.file.on.partition.change": "false",
    }
    if options.compressed_file_size is not None:
        found["flush.bytes"] = str(options.compressed_file_size)
    if options.flush_interval_ms is not None:
        found["rotate.interval.ms"] = str(options.flush_interval_ms)
    return found


def _source(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    place = parse_group(SpredfastPlace, texts)
    options = parse_group(SpredfastSourceOptions, texts)
    found = {
        **place.meaning(),
        "poll.interval.ms": str(options.poll_interval_ms),
        "restore.into.non.empty": "true",
    }
    renames = {
        key.removeprefix("targetTopic."): target
        for key, target in texts.items()
        if key.startswith("targetTopic.")
    }
    topics = [name.strip() for name in texts.get("topics", "").split(",") if name.strip()]
    if unknown := sorted(renames.keys() - set(topics)) if topics else []:
        raise ConfigErrors({f"targetTopic.{unknown[0]}": "topics does not name this topic"})
    chosen = ",".join(f"{name}:{renames.get(name, name)}" for name in topics or renames)
    instead: dict[str, str | None] = {"topics": chosen} if chosen else {}
    return TranslatedConfig(texts=found, instead=instead, called=CALLED, prefix=place.s3_prefix)


SINK = Family(
    name="spredfast",
    kind="sink",
    classes=(PACKAGE + "sink.S3SinkConnector",),
    groups=(SpredfastPlace, SpredfastSinkOptions),
    fixed_keys=_SINK_KEYS,
    # Segments are closed by the keys of kafkeep.Backup; Spredfast leaves it to its worker.
    extra=tuple(one for one in iter_options(BackupOptions) if one.name.startswith("segment.")),
    translate=_sink,
)
SOURCE = Family(
    name="spredfast",
    kind="source",
    classes=(PACKAGE + "source.S3SourceConnector",),
    groups=(SpredfastPlace, SpredfastSourceOptions),
    fixed_keys=_SOURCE_KEYS,
    below=("targetTopic.",),
    translate=_source,
)
