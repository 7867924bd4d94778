"""Aiven's S3 sink: translate its keys into kafkeep's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kafkeep.connect.connectors.family import Family, TranslatedConfig
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_number
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, names, one_of, option, parse_group

CLASSES = (
    "io.aiven.kafka.connect.s3.AivenKafkaConnectS3SinkConnector",
    "io.aiven.kafka.connect.s3.S3SinkConnector",
)
DEFAULT_TEMPLATE = "{{topic}}-{{partition}}-{{start_offset}}"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_ENVELOPE, _OFFSET, _LINE = "kafkeepEnvelope", "kafkeepOffset", "kafkeepLine"
_SMT = "org.apache.kafka.connect.transforms."
_ENDS = {"gzip": ".gz", "snappy": ".snappy", "zstd": ".zst", "none": ""}
_UNITS = {"yyyy": "YYYY", "YYYY": "YYYY", "MM": "MM", "dd": "dd", "HH": "HH"}
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000
_TIME = re.compile(r"\{\{\s*(?:timestamp\s*:\s*unit\s*=\s*(\w+)|(utc_date))\s*\}\}")
_OTHER = re.compile(r"\{\{\s*(key|header|local_date)\b[^{}]*\}\}")


def _choice(what: str, *choices: str) -> Callable[[str], str]:
    parse = one_of(what, *choices)
    return lambda text: parse(text.strip().lower())


def _output_type(text: str) -> str:
    name = text.strip().lower()
    if name == "json":
        raise UsageError("json (one list per object) is not supported; use jsonl")
    return one_of("format.output.type", "csv", "jsonl", "avro", "parquet")(name)


def _fields(text: str) -> tuple[str, ...]:
    found = names(text.lower())
    for name in found:
        one_of("field", "key", "value", "offset", "timestamp", "headers")(name)
    if "headers" in found:
        raise UsageError("headers are not supported; kafkeep.Backup archives them")
    return found


def _count(text: str) -> int | None:
    if not text.strip().isdecimal():
        raise UsageError(f"{text!r} is not a whole number")
    return int(text) or None


@dataclass(frozen=True, kw_only=True)
class AivenOptions:
    """The names and contents of the objects."""

    file_name_template: str | None = option(
        "file.name.template",
        "Aiven: template of object names, with {{topic}}, {{partition}}, {{start_offset}} "
        "(:padding=true) and {{timestamp:unit=yyyy|MM|dd|HH}}. "
        f"Default: {DEFAULT_TEMPLATE} and the extension of the compression.",
        default=None,
        parse=lambda text: text.strip() or None,
        metavar="TEMPLATE",
    )
    file_name_prefix: str = option(
        "file.name.prefix", "Aiven: prefix of every object name.", default="", parse=str.strip
    )
    file_compression_type: str = option(
        "file.compression.type",
        "Aiven: gzip, snappy, zstd or none. Parquet compresses inside the object.",
        default="gzip",
        parse=_choice("file.compression.type", *_ENDS),
    )
    file_max_records: int | None = option(
        "file.max.records",
        "Aiven: maximum number of records per object, like flush.size; 0 for no limit.",
        default=None,
        parse=_count,
        metavar="COUNT",
    )
    timestamp_source: str = option(
        "file.name.timestamp.source",
        "Aiven: the source of {{timestamp}}: wallclock, or event for the record's timestamp.",
        default="wallclock",
        parse=_choice("file.name.timestamp.source", "wallclock", "event"),
    )
    timestamp_timezone: str = option(
        "file.name.timestamp.timezone", "Aiven: time zone of {{timestamp}}.", default="UTC"
    )
    format_output_type: str = option(
        "format.output.type",
        "Aiven: csv, jsonl, avro or parquet. json (one list per object) is refused.",
        default="csv",
        parse=_output_type,
    )
    format_output_fields: tuple[str, ...] = option(
        "format.output.fields",
        "Aiven: fields of a record to write: value and offset; csv also key and timestamp. "
        "headers are refused.",
        default=("value",),
        parse=_fields,
        metavar="NAMES",
    )
    format_output_envelope: bool = option(
        "format.output.envelope",
        'Aiven: wrap the value in a record, {"value": …}, if it is the only field.',
        default=True,
    )
    value_encoding: str = option(
        "format.output.fields.value.encoding",
        "Aiven, csv: encoding of values: base64, or none.",
        default="base64",
        parse=_choice("format.output.fields.value.encoding", "base64", "none"),
    )


PLAIN: Mapping[str, str] = {
    "aws.s3.bucket.name": "s3.bucket.name",
    "aws.s3.endpoint": "store.url",
    "aws.s3.region": "s3.region",
    "aws.s3.part.size.bytes": "s3.part.size",
    "aws.s3.backoff.delay.ms": "s3.retry.backoff.ms",
    "aws.s3.backoff.max.retries": "s3.part.retries",
    "kafka.retry.backoff.ms": "retry.backoff.ms",
    "aws.s3.sse.algorithm": "s3.ssea.name",
}
"""Keys that mean the same under another name."""
OLD_NAMES: Mapping[str, str] = {
    "aws_access_key_id": "aws.access.key.id",
    "aws_secret_access_key": "aws.secret.access.key",
    "aws_s3_bucket": "aws.s3.bucket.name",
    "aws_s3_endpoint": "aws.s3.endpoint",
    "aws_s3_region": "aws.s3.region",
    "aws_s3_prefix": "file.name.prefix",
    "aws.s3.prefix": "file.name.prefix",
    "output_compression": "file.compression.type",
    "output_fields": "format.output.fields",
    "timestamp.timezone": "file.name.timestamp.timezone",
    "timestamp.source": "file.name.timestamp.source",
}
_ROLE = "To assume a role, use a profile in the AWS configuration files: s3.profile.name."
_FIXED_KEYS = (
    FixedKey(
        "aws.s3.backoff.max.delay.ms",
        "long",
        "20000",
        "Retries of a request take at most one minute in total.",
        any_number,
    ),
    *(
        FixedKey(name, "string", "", _ROLE)
        for name in (
            "aws.sts.role.arn",
            "aws.sts.role.external.id",
            "aws.sts.role.session.name",
            "aws.sts.role.session.duration",
            "aws.sts.config.endpoint",
            "aws.credentials.provider",
        )
    ),
)


def _translate(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    given = {OLD_NAMES.get(key, key): text for key, text in texts.items()}
    options = parse_group(AivenOptions, given)
    wanted = {ours: given[theirs] for theirs, ours in PLAIN.items() if theirs in given}
    wanted |= {
        key: given[key] for key in ("aws.access.key.id", "aws.secret.access.key") if key in given
    }
    kind = options.format_output_type
    instead: dict[str, str | None] = {}
    if kind == "csv":
        wanted |= _lines(options, given)
        instead |= {"key.converter": _BYTES, "value.converter": _BYTES}
    else:
        wanted |= _rows(options, given)
    template, times = _names(options)
    found = {
        **wanted,
        **times,
        "topics.dir": "",
        "object.name.template": template,
        "rotate.schedule.interval.ms": "60000",
    }
    if options.file_max_records is not None:
        found["flush.size"] = str(options.file_max_records)
    instead |= {key: found.pop(key) for key in ("transforms",) if key in found}
    called = {ours: theirs for theirs, ours in PLAIN.items()}
    called |= {"object.name.template": "file.name.template", "flush.size": "file.max.records"}
    return TranslatedConfig(texts=found, instead=instead, called=called)


def _lines(options: AivenOptions, given: Mapping[str, str]) -> dict[str, str]:
    for role in ("key", "value"):
        name = given.get(f"{role}.converter", "").rpartition(".")[2]
        if name not in ("", "ByteArrayConverter", "StringConverter"):
            raise ConfigErrors({f"{role}.converter": "csv needs ByteArrayConverter"})
    steps = [step for step in given.get("transforms", "").split(",") if step.strip()]
    return {
        "format.class": "bytes",
        "format.bytearray.extension": "",
        "s3.compression.type": options.file_compression_type,
        "transforms": ",".join([*steps, _LINE]),
        f"transforms.{_LINE}.type": "kafkeep.transforms.CsvLine",
        f"transforms.{_LINE}.fields": ",".join(options.format_output_fields),
        f"transforms.{_LINE}.value.encoding": options.value_encoding,
    }


def _rows(options: AivenOptions, given: Mapping[str, str]) -> dict[str, str]:
    kind, codec = options.format_output_type, options.file_compression_type
    if others := [name for name in options.format_output_fields if name in ("key", "timestamp")]:
        raise ConfigErrors({"format.output.fields": f"{others[0]} is supported only with csv"})
    if "value" not in options.format_output_fields:
        raise ConfigErrors({"format.output.fields": "value must be one of the fields"})
    found = {"format.class": "json" if kind == "jsonl" else kind, "store.envelope": "false"}
    if kind == "jsonl":
        found |= {"s3.compression.type": codec, "behavior.on.null.values": "write"}
    elif kind == "parquet":
        found["parquet.codec"] = codec
    elif codec != "none":
        raise ConfigErrors({"file.compression.type": "must be none for avro"})
    alone = options.format_output_fields == ("value",)
    if alone and not options.format_output_envelope:
        return found
    steps = [step for step in given.get("transforms", "").split(",") if step.strip()] + [_ENVELOPE]
    found |= {
        f"transforms.{_ENVELOPE}.type": _SMT + "HoistField$Value",
        f"transforms.{_ENVELOPE}.field": "value",
    }
    if "offset" in options.format_output_fields:
        steps.append(_OFFSET)
        found |= {
            f"transforms.{_OFFSET}.type": _SMT + "InsertField$Value",
            f"transforms.{_OFFSET}.offset.field": "offset",
        }
    return {**found, "transforms": ",".join(steps)}


def _names(options: AivenOptions) -> tuple[str, dict[str, str]]:
    """Return the template with kafkeep's variables, and the keys of its time partitioner."""
    template = options.file_name_template
    if template is None:
        template = DEFAULT_TEMPLATE + _ENDS[options.file_compression_type]
    template = options.file_name_prefix + template
    if other := _OTHER.search(template):
        raise ConfigErrors({"file.name.template": f"{other[0]} is not supported"})
    formats: list[str] = []

    def part(match: re.Match[str]) -> str:
        unit = "YYYY-MM-dd" if match[2] else _UNITS.get(match[1])
        if unit is None:
            raise ConfigErrors({"file.name.template": f"{match[0]} is not yyyy, MM, dd or HH"})
        if unit not in formats:
            formats.append(unit)
        return f"{{{{path:{formats.index(unit)}}}}}"

    template = _TIME.sub(part, template)
    if not formats:
        return template, {}
    by_event = options.timestamp_source == "event"
    return template, {
        "partitioner.class": "time",
        "path.format": "/".join(formats),
        "partition.duration.ms": str(_HOUR_MS if "HH" in formats else _DAY_MS),
        "timezone": options.timestamp_timezone,
        "timestamp.extractor": "Record" if by_event else "Wallclock",
    }


SINK = Family(
    name="aiven",
    kind="sink",
    classes=CLASSES,
    groups=(AivenOptions,),
    fixed_keys=_FIXED_KEYS,
    renamed={**PLAIN, **OLD_NAMES},
    translate=_translate,
    region="us-east-1",
)
