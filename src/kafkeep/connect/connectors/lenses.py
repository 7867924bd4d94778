"""Lenses' S3 sink: translate its keys and its KCQL statement into kafkeep's keys. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.connect.connectors.family import Family, TranslatedConfig
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_number, any_text, any_truth, only
from kafkeep.errors import UsageError
from kafkeep.options.option import ConfigErrors, one_of, option, parse_group

_WORD = r"(?:`[^`]+`|[^\s`;,()]+)"
_HEAD = re.compile(
    rf"insert\s+into\s+({_WORD})\s+select\s+(\S+(?:\s+\S+)*?)\s+from\s+({_WORD})(?:\s+(.*))?",
    re.I | re.S,
)
_CLAUSES = re.compile(
    r"\b(PARTITIONBY|STOREAS|PROPERTIES|NOPARTITION|WITHPARTITIONER|WITH_FLUSH_COUNT|"
    r"WITH_FLUSH_SIZE|WITH_FLUSH_INTERVAL|LIMIT|WHERE)\b|['`]",
    re.I,
)
_PROPERTY = re.compile(r"\s*'([^']+)'\s*=\s*('[^']*'|[^',)\s]+)\s*(?:,|\Z)")
_OLD_FLUSH = {
    "WITH_FLUSH_COUNT": "flush.count",
    "WITH_FLUSH_SIZE": "flush.size",
    "WITH_FLUSH_INTERVAL": "flush.interval",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class KcqlStatement:
    """``INSERT INTO bucket:prefix SELECT * FROM topic …``; topic ``*`` means all topics."""

    bucket: str
    prefix: str
    topic: str
    store_as: str = "JSON"
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


def parse_kcql(text: str) -> KcqlStatement:
    """Parse one statement; UsageError names what is not supported."""
    whole = text.strip().rstrip(";").strip()
    if ";" in re.sub(r"['`][^'`]*['`]", "", whole):
        raise UsageError("only one statement is supported, with one bucket and prefix")
    match = _HEAD.fullmatch(whole)
    if match is None:
        raise UsageError("not INSERT INTO bucket:prefix SELECT * FROM topic STOREAS …")
    target, selected, topic, rest = match.groups()
    if selected.strip() != "*":
        raise UsageError(f"SELECT {selected.strip()} is not supported: use SELECT *")
    bucket, _, prefix = _bare(target).partition(":")
    return KcqlStatement(
        bucket=bucket, prefix=prefix.strip("/"), topic=_bare(topic), **_clauses(rest or "")
    )


def _clauses(rest: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    properties: dict[str, str] = {}
    marks = _marks(rest)
    if (rest[: marks[0].start()] if marks else rest).strip():
        raise UsageError(f"{rest.split(maxsplit=1)[0]} is not supported in KCQL")
    ends = [*(mark.start() for mark in marks[1:]), len(rest)]
    for mark, end in zip(marks, ends, strict=False):
        word = mark[1].upper()
        body = rest[mark.end() : end].strip()
        if word == "STOREAS":
            found["store_as"] = _bare(body).upper()
        elif word == "PARTITIONBY":
            found["partition_by"] = tuple(_bare(name) for name in body.strip("()").split(","))
        elif word == "PROPERTIES":
            properties |= _properties(body)
        elif word in _OLD_FLUSH:
            properties[_OLD_FLUSH[word]] = body.lstrip("=").strip()
        else:
            raise UsageError(f"{word} is not supported")
    return {**found, "properties": properties}


def _marks(rest: str) -> list[re.Match[str]]:
    """Return the words that begin clauses: an even number of quotes follows them."""
    marks: list[re.Match[str]] = []
    is_quoted = False
    for found in reversed(list(_CLAUSES.finditer(rest))):
        if found[1] is None:
            is_quoted = not is_quoted
        elif not is_quoted:
            marks.append(found)
    return marks[::-1]


def _properties(body: str) -> dict[str, str]:
    if not (body.startswith("(") and body.endswith(")")):
        raise UsageError("PROPERTIES must be ('name'=value, …)")
    inner, found, at = body[1:-1].strip(), {}, 0
    while at < len(inner):
        match = _PROPERTY.match(inner, at)
        if match is None:
            raise UsageError(f"PROPERTIES: {inner[at:]!r} is not 'name'=value")
        found[match[1]] = match[2].strip("'")
        at = match.end()
    return found


def _bare(word: str) -> str:
    return word.strip().strip("`").strip()


# ruff: noqa: RUF009  (``option`` makes a dataclass field, also where the type is a class)


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
    """What to write, and where."""

    kcql: KcqlStatement = option(
        KCQL,
        "Lenses: INSERT INTO bucket:prefix SELECT * FROM topic [PARTITIONBY fields] STOREAS "
        "`JSON|AVRO|PARQUET|TEXT|BYTES` PROPERTIES('flush.count'=…, 'flush.size'=…, "
        "'flush.interval'=seconds, 'padding.length.offset'=…, 'key.suffix'=…); one statement.",
        parse=parse_kcql,
        metavar="KCQL",
    )
    auth_mode: str = option(
        "connect.s3.aws.auth.mode",
        "Lenses: Credentials uses the two keys; Default uses AWS's credential chain.",
        default="Default",
        parse=lambda text: one_of("auth mode", "Credentials", "Default")(text.strip().title()),
    )
    codec: str = option(
        "connect.s3.compression.codec",
        "Lenses: none, gzip, zstd, snappy or lz4. Avro (deflate, snappy, zstd) and Parquet "
        "compress inside the object.",
        default="none",
        parse=lambda text: text.strip().lower().replace("uncompressed", "none"),
    )
    disable_flush_count: bool = option(
        "connect.s3.disable.flush.count",
        "Lenses: do not close objects by record count (flush.count of KCQL, 50000 by default).",
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
"""Keys with the same meaning as one of kafkeep's. vhost.bucket sets the path style."""
_FIXED_KEYS = (
    FixedKey(
        "connect.s3.exactly.once.enable",
        "boolean",
        "true",
        "Each record is archived exactly once.",
        only("true"),
    ),
    FixedKey(
        "connect.s3.error.policy",
        "string",
        "THROW",
        "Transient errors are retried; other errors stop the connector.",
        only("THROW", "RETRY"),
    ),
    FixedKey(
        "connect.s3.max.retries",
        "int",
        "20",
        "Transient errors are retried for one minute, whatever the number.",
        any_number,
    ),
    FixedKey(
        "connect.s3.write.mode",
        "string",
        "Streamed",
        "Objects appear whole or not at all.",
        any_text,
    ),
    FixedKey(
        "connect.s3.local.tmp.directory",
        "string",
        "",
        "Buffers are in Spark's local folder.",
        any_text,
    ),
    FixedKey(
        "connect.s3.indexes.name",
        "string",
        ".indexes",
        "The commit log replaces the index.",
        any_text,
    ),
    FixedKey(
        "connect.s3.pool.max.connections",
        "int",
        "50",
        "Each task opens the connections it needs.",
        any_number,
    ),
    FixedKey(
        "connect.progress.enabled", "boolean", "false", "Progress is always reported.", any_truth
    ),
)


def _translate(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
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
    return TranslatedConfig(texts=found, instead=instead, called=called)


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


def _check(statement: KcqlStatement, texts: Mapping[str, str]) -> None:
    properties = statement.properties
    if others := [name for name in properties if name not in _PROPERTIES]:
        raise UsageError(f"the property {others[0]} is not supported")
    fixed = {
        "padding.char": "0",
        "padding.type": "leftpad",
        "partition.include.keys": "true",
        "store.envelope": "false",
    }
    for name, value in fixed.items():
        if properties.get(name, value).lower() != value:
            raise UsageError(f"the property {name} must be {value}")
    topics = [name.strip() for name in texts.get("topics", "").split(",") if name.strip()]
    if statement.topic != "*" and topics and topics != [statement.topic]:
        raise UsageError(f"the statement is about {statement.topic}, but topics are {topics}")
    if statement.topic != "*" and texts.get("topics.regex"):
        raise UsageError("with topics.regex the statement must be FROM `*`")


def _place(statement: KcqlStatement) -> dict[str, str]:
    found = {"s3.bucket.name": statement.bucket, "topics.dir": statement.prefix}
    if not statement.partition_by:
        return found
    fields = [name.removeprefix("_value.") for name in statement.partition_by]
    if other := [name for name in fields if name.startswith("_")]:
        raise UsageError(f"PARTITIONBY {other[0]} is not supported: use fields of the value")
    return {**found, "partitioner.class": "field", "partition.field.name": ",".join(fields)}


def _flush(statement: KcqlStatement, options: LensesOptions) -> dict[str, str]:
    properties = statement.properties
    count = _number("flush.count", properties.get("flush.count", "50000"))
    size = _number("flush.size", properties.get("flush.size", "500000000"))
    seconds = _number("flush.interval", properties.get("flush.interval", "3600"))
    found = {"flush.bytes": str(size), "rotate.schedule.interval.ms": str(seconds * 1000)}
    return found if options.disable_flush_count else {**found, "flush.size": str(count)}


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise UsageError(f"{name} is {text!r}, but must be a whole number above zero")
    return int(text)


def _objects(statement: KcqlStatement, codec: str) -> dict[str, str]:
    if statement.store_as not in _FORMATS:
        raise UsageError(
            f"STOREAS {statement.store_as} is not supported: use {', '.join(_FORMATS)}"
        )
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
            raise ConfigErrors({"connect.s3.compression.codec": f"{codec} is not supported"})
        found["s3.compression.type"] = codec
        extension += _ENDS[codec]
    return {**found, "object.name.template": _template(statement, extension)}


def _template(statement: KcqlStatement, extension: str) -> str:
    """Return ``topic/partition/last_first_last``, or with fields ``path/topic(partition_last)``."""
    properties = statement.properties
    digits = _pad(properties.get("padding.length.offset", str(OFFSET_DIGITS)))
    partition = f"{{{{partition:padding={_pad(properties.get('padding.length.partition', '0'))}}}}}"
    offset = f"{{{{last_offset:padding={digits}}}}}"
    end = properties.get("key.suffix", "") + extension
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
    fixed_keys=_FIXED_KEYS,
    renamed=PLAIN,
    translate=_translate,
)
