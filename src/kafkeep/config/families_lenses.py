"""Lenses' S3 sink: its keys and its KCQL in kafkeep's keys."""

# ruff: noqa: RUF009  (``option`` makes a dataclass field, also where the type is a class)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.config.choose import one_of
from kafkeep.config.family import Family, Meaning
from kafkeep.config.group import ConfigErrors, parse_group
from kafkeep.config.kcql import Statement, parse_kcql
from kafkeep.config.option import option
from kafkeep.config.standing import StandingKey, any_number, any_text, any_truth, only
from kafkeep.errors import UsageError

CLASSES = ("io.lenses.streamreactor.connect.aws.s3.sink.S3SinkConnector",)
KCQL = "connect.s3.kcql"
OFFSET_DIGITS = 12
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FORMATS = {
    "JSON": ("json", ".json"),
    "AVRO": ("avro", ".avro"),
    "PARQUET": ("parquet", ".parquet"),
    "TEXT": ("bytes", ".text"),
    "BYTES": ("bytes", ".bytes"),
    "BYTES_VALUEONLY": ("bytes", ".bytes"),
}
_ENDS = {"none": "", "gzip": ".gz", "zstd": ".zst", "snappy": ".sz", "lz4": ".lz4"}
_PROPERTIES = (
    "flush.count",
    "flush.size",
    "flush.interval",
    "padding.length.offset",
    "padding.length.partition",
    "padding.char",
    "padding.type",
    "partition.include.keys",
    "store.envelope",
    "key.suffix",
)


@dataclass(frozen=True, kw_only=True)
class LensesOptions:
    """What is written where."""

    kcql: Statement = option(
        KCQL,
        "Lenses: INSERT INTO bucket:prefix SELECT * FROM topic [PARTITIONBY fields] STOREAS "
        "`JSON|AVRO|PARQUET|TEXT|BYTES` PROPERTIES('flush.count'=…, 'flush.size'=…, "
        "'flush.interval'=seconds, 'padding.length.offset'=…, 'key.suffix'=…); one statement.",
        parse=parse_kcql,
        metavar="KCQL",
    )
    auth_mode: str = option(
        "connect.s3.aws.auth.mode",
        "Lenses: Credentials uses the two keys, Default finds them as AWS's tools do.",
        default="Default",
        parse=lambda text: one_of("auth mode", "Credentials", "Default")(text.strip().title()),
    )
    codec: str = option(
        "connect.s3.compression.codec",
        "Lenses: none, gzip, zstd, snappy or lz4; in Avro (deflate, snappy, zstd) and Parquet "
        "inside the object.",
        default="none",
        parse=lambda text: text.strip().lower().replace("uncompressed", "none"),
    )
    disable_flush_count: bool = option(
        "connect.s3.disable.flush.count",
        "Lenses: do not close objects after a number of records, 50000 unless KCQL has another.",
        default=False,
    )


PLAIN: Mapping[str, str] = {
    "connect.s3.aws.access.key": "aws.access.key.id",
    "connect.s3.aws.secret.key": "aws.secret.access.key",
    "connect.s3.aws.region": "s3.region",
    "connect.s3.custom.endpoint": "store.url",
    "connect.s3.vhost.bucket": "s3.path.style.access.enabled",
    "connect.s3.http.max.retries": "s3.part.retries",
    "connect.s3.http.retry.interval": "s3.retry.backoff.ms",
    "connect.s3.retry.interval": "retry.backoff.ms",
    "connect.s3.compression.level": "s3.compression.level",
}
"""Keys that mean the same under another name. Lenses' vhost.bucket sets the path style there."""
_STANDING = (
    StandingKey(
        "connect.s3.exactly.once.enable",
        "boolean",
        "true",
        "Each record is archived exactly once.",
        only("true"),
    ),
    StandingKey(
        "connect.s3.error.policy",
        "string",
        "THROW",
        "An error stops the run, after it was tried again where that can help.",
        only("THROW", "RETRY"),
    ),
    StandingKey(
        "connect.s3.max.retries",
        "int",
        "20",
        "What can pass is tried again for a minute, whatever the number.",
        any_number,
    ),
    StandingKey(
        "connect.s3.write.mode",
        "string",
        "Streamed",
        "Objects appear whole or not at all.",
        any_text,
    ),
    StandingKey(
        "connect.s3.local.tmp.directory",
        "string",
        "",
        "Buffers lie where Spark has them.",
        any_text,
    ),
    StandingKey(
        "connect.s3.indexes.name", "string", ".indexes", "The log stands in place of it.", any_text
    ),
    StandingKey(
        "connect.s3.pool.max.connections",
        "int",
        "50",
        "As many connections are open as tasks need.",
        any_number,
    ),
    StandingKey(
        "connect.progress.enabled", "boolean", "false", "Progress is told anyway.", any_truth
    ),
)


def _translate(texts: Mapping[str, str], _name: str) -> Meaning:
    options = parse_group(LensesOptions, texts)
    statement = options.kcql
    found = {ours: texts[theirs] for theirs, ours in PLAIN.items() if theirs in texts}
    if options.auth_mode == "Default":
        found.pop("aws.access.key.id", None)
        found.pop("aws.secret.access.key", None)
    try:
        _check(statement, texts)
        found |= _place(statement) | _flush(statement, options) | _objects(statement, options.codec)
    except ConfigErrors:
        raise
    except UsageError as error:
        raise ConfigErrors({KCQL: error.message}) from error
    instead: dict[str, str | None] = {}
    if found.get("format.class") == "bytes":
        instead["value.converter"] = _BYTES
    called = {ours: theirs for theirs, ours in PLAIN.items()}
    called |= dict.fromkeys(_FROM_KCQL, KCQL)
    return Meaning(texts=found, instead=instead, called=called)


_FROM_KCQL = (
    "s3.bucket.name",
    "topics.dir",
    "flush.size",
    "flush.bytes",
    "rotate.schedule.interval.ms",
    "format.class",
    "partition.field.name",
    "object.name.template",
)


def _check(statement: Statement, texts: Mapping[str, str]) -> None:
    told = statement.properties
    if others := [name for name in told if name not in _PROPERTIES]:
        raise UsageError(f"the property {others[0]} is not known here")
    fixed = {
        "padding.char": "0",
        "padding.type": "leftpad",
        "partition.include.keys": "true",
        "store.envelope": "false",
    }
    for name, value in fixed.items():
        if told.get(name, value).lower() != value:
            raise UsageError(f"the property {name} can be had as {value} alone")
    topics = [name.strip() for name in texts.get("topics", "").split(",") if name.strip()]
    if statement.topic != "*" and topics and topics != [statement.topic]:
        raise UsageError(f"the statement is about {statement.topic}, but topics are {topics}")
    if statement.topic != "*" and texts.get("topics.regex"):
        raise UsageError("with topics.regex the statement must be FROM `*`")


def _place(statement: Statement) -> dict[str, str]:
    found = {"s3.bucket.name": statement.bucket, "topics.dir": statement.prefix}
    if not statement.partition_by:
        return found
    fields = [name.removeprefix("_value.") for name in statement.partition_by]
    if other := [name for name in fields if name.startswith("_")]:
        raise UsageError(f"PARTITIONBY {other[0]} is not known here: fields of the value are")
    return {**found, "partitioner.class": "field", "partition.field.name": ",".join(fields)}


def _flush(statement: Statement, options: LensesOptions) -> dict[str, str]:
    told = statement.properties
    count = _number("flush.count", told.get("flush.count", "50000"))
    size = _number("flush.size", told.get("flush.size", "500000000"))
    seconds = _number("flush.interval", told.get("flush.interval", "3600"))
    found = {"flush.bytes": str(size), "rotate.schedule.interval.ms": str(seconds * 1000)}
    return found if options.disable_flush_count else {**found, "flush.size": str(count)}


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name} is {text!r}, but must be a whole number above zero")
    return int(text)


def _objects(statement: Statement, codec: str) -> dict[str, str]:
    if statement.store_as not in _FORMATS:
        raise UsageError(f"STOREAS {statement.store_as} cannot be had: use {', '.join(_FORMATS)}")
    kind, extension = _FORMATS[statement.store_as]
    found = {"format.class": kind}
    if kind == "bytes":
        separator = "\n" if statement.store_as == "TEXT" else ""
        found |= {"format.bytearray.separator": separator, "format.bytearray.extension": ""}
    else:
        found |= {"store.envelope": "false"}
    if kind == "json":
        found["behavior.on.null.values"] = "write"
    if kind == "parquet":
        found["parquet.codec"] = codec
    elif kind == "avro":
        found["avro.codec"] = {"none": "null", "zstd": "zstandard"}.get(codec, codec)
    else:
        if codec not in _ENDS:
            raise ConfigErrors({"connect.s3.compression.codec": f"{codec} cannot be had"})
        found["s3.compression.type"] = codec
        extension += _ENDS[codec]
    return {**found, "object.name.template": _template(statement, extension)}


def _template(statement: Statement, extension: str) -> str:
    """Return ``topic/partition/last_first_last``, or with fields ``path/topic(partition_last)``."""
    told = statement.properties
    digits = _pad(told.get("padding.length.offset", str(OFFSET_DIGITS)))
    partition = f"{{{{partition:padding={_pad(told.get('padding.length.partition', '0'))}}}}}"
    offset = f"{{{{last_offset:padding={digits}}}}}"
    end = told.get("key.suffix", "") + extension
    if statement.partition_by:
        return f"{{{{path}}}}/{{{{topic}}}}({partition}_{offset}){end}"
    times = "{{first_timestamp}}_{{last_timestamp}}"
    return f"{{{{topic}}}}/{partition}/{offset}_{times}{end}"


def _pad(text: str) -> int:
    if not text.isdecimal() or int(text) > 100:
        raise UsageError(f"a padding of {text!r} is not a number from 0 to 100")
    return int(text)


SINK = Family(
    name="lenses",
    kind="sink",
    classes=CLASSES,
    groups=(LensesOptions,),
    standing=_STANDING,
    renamed=PLAIN,
    translate=_translate,
)
