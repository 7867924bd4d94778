"""Which keys a connector may have, and what each is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.archive.names import connector_log
from kafkeep.connect.connectors.consumer_overrides import (
    PREFIX,
    is_secret_override,
    knows_override,
    near_override,
)
from kafkeep.connect.connectors.families import CONFLUENT, OURS, find_family, matches
from kafkeep.connect.connectors.family import Family
from kafkeep.connect.connectors.fixed_keys import FIXED_KEYS, fixed_key
from kafkeep.connect.connectors.s3_keys import SECRETS, S3Options
from kafkeep.errors import UsageError
from kafkeep.options.java_regex import java_regex
from kafkeep.options.option import (
    did_you_mean,
    iter_options,
    option,
    parse_group,
    parse_option,
    positive,
    topic_names,
)
from kafkeep.options.sink.converters import ConverterChoice, ConverterClass, Role, is_secret_key
from kafkeep.options.sink.files import NamingOptions, RotateOptions, TagOptions
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.options.sink.sink import ErrorOptions, NullOptions
from kafkeep.options.storage import ArchiveAddress

ROLES: tuple[Role, ...] = ("key", "value", "header")
ADDRESSES = ("s3.proxy.url", "store.url", "s3.endpoint", "aws.s3.endpoint")
FAMILY_SECRETS = frozenset(
    {
        "aws_access_key_id",
        "aws_secret_access_key",
        "connect.s3.aws.access.key",
        "connect.s3.aws.secret.key",
    }
)
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_JSON = "org.apache.kafka.connect.json.JsonConverter"
OWN_CODECS: Mapping[str, Mapping[str, str]] = {
    "avro": {"avro.codec": "deflate"},
    "parquet": {"parquet.codec": "zstd"},
}
"""What kafkeep.Backup compresses with where nothing is asked for; Confluent's class has its own."""
DEFAULT_CONVERTERS: Mapping[str, Mapping[str, str]] = {
    "json": {"value.converter": _JSON, "value.converter.schemas.enable": "false"},
    "avro": {"value.converter": _BYTES, "store.envelope": "true"},
    "parquet": {"value.converter": _BYTES, "store.envelope": "true"},
    "bytes": {"value.converter": _BYTES},
}
"""What is taken where no value.converter is named: in Connect the worker's, which is not here."""


def _class(text: str) -> str:
    find_family(text.strip(), "sink")
    return matches(text)[0]


def _days(text: str) -> int | None:
    bare = text.strip()
    return None if bare in ("", "-1") else positive("s3.retention.days")(bare)


def _topics(text: str) -> tuple[str, ...]:
    return topic_names(text) if text.strip() else ()


@dataclass(frozen=True, kw_only=True)
class ConnectorOptions:
    """The options of every sink connector."""

    name: str = option(
        "name",
        "Name of the connector, of its log and, as connect-<name>, of its consumer group. If it "
        "has characters other than letters, digits, ., _ and -, the log is named by the allowed "
        "ones and a digest.",
        default="backup",
        parse=connector_log,
    )
    connector_class: str = option(
        "connector.class",
        f"{CONFLUENT}, or {OURS}, which needs neither format.class nor flush.size.",
        default="",
        parse=_class,
    )
    archive: str | None = option(
        "archive",
        "Address of the archive, instead of s3.bucket.name: s3://bucket/prefix or a folder.",
        default=None,
        parse=lambda text: str(ArchiveAddress.parse(text.strip())),
        metavar="ADDRESS",
    )
    tasks_max: int | None = option(
        "tasks.max",
        "Maximum number of parallel read tasks. Default: the number of cores. The objects are the "
        "same with any number.",
        default=None,
        parse=positive("tasks.max"),
        metavar="COUNT",
    )
    topics: tuple[str, ...] = option(
        "topics",
        "Topics to archive: a,b,c. Set either this or topics.regex.",
        default=(),
        parse=_topics,
    )
    topics_regex: str | None = option(
        "topics.regex",
        "Archive every topic whose whole name matches.",
        default=None,
        parse=lambda text: java_regex(text) if text else None,
    )
    retention_days: int | None = option(
        "s3.retention.days",
        "Days after which a lifecycle rule of the bucket deletes the objects of these topics; -1 "
        "keeps them. Default for ch.tbd's BackupSinkConnector: 30, and more for a topic that Kafka "
        "keeps longer.",
        default=None,
        parse=_days,
        metavar="DAYS",
    )


SHAPE_GROUPS: tuple[type, ...] = (
    FormatOptions,
    ConverterChoice,
    PartitionOptions,
    RotateOptions,
    NamingOptions,
    NullOptions,
    ErrorOptions,
    TagOptions,
)
"""Their keys make up ``shape``, with those of transforms and below converters."""


def is_shape_key(key: str) -> bool:
    """Tell whether a key says what objects are like, rather than where they go."""
    below = ("transforms", "predicates", *(f"{role}.converter" for role in ROLES))
    return key in _SHAPE or key.startswith(tuple(f"{name}." for name in below))


def is_default(key: str, text: str) -> bool:
    """Tell whether a key of the shape is set to what holds without it."""
    option = _SHAPE_OPTIONS.get(key)
    if option is None:
        return key in _STEPS and not text.strip()
    try:
        return bool(parse_option(option, text) == option.default)
    except UsageError:
        return False


def is_secret(key: str, text: str = "") -> bool:
    """Return whether a value must not be shown; an address may contain a password."""
    in_address = "@" in text and (".converter." in key or key in ADDRESSES)
    named = key in SECRETS or key in FAMILY_SECRETS or is_secret_key(key)
    return named or is_secret_override(key) or is_secret_producer(key) or in_address


def is_secret_producer(key: str) -> bool:
    """Return whether a key of a source's producer may hold a secret."""
    return key.startswith(("producer.override.sasl.", "producer.override.ssl."))


def means_something(key: str, family: Family) -> bool:
    """Return whether a key is known, except keys under transforms and converters."""
    if key in DECLARED or family.knows(key):
        return True
    return knows_override(key) if key.startswith(PREFIX) else fixed_key(key) is not None


def say_unknown(key: str, texts: Mapping[str, str], family: Family) -> str:
    """Return the error message for an unknown key."""
    for role in ROLES:
        if key.startswith(f"{role}.converter."):
            owner = texts.get(f"{role}.converter")
            return f"means nothing to {owner}" if owner else f"there is no {role}.converter"
    if key.startswith(("transforms.", "predicates.")):
        kind = key.partition(".")[0]
        return f"{kind} does not name {key.split('.')[1]}"
    near = near_override(key) if key.startswith(PREFIX) else _near(key, family)
    return "there is no such key" + (f". {near}" if near else "")


def _near(key: str, family: Family) -> str | None:
    return did_you_mean(key, [*DECLARED, *FIXED_KEYS, *sorted(family.keys)])


def format_name(text: str) -> str:
    """Return the short name of a format class, or an empty text."""
    try:
        return parse_group(FormatOptions, {"format.class": text}).format_class.value
    except UsageError:
        return ""


def has_sinetstream_objects(shape: Mapping[str, str]) -> bool:
    """Return whether each object is one SINETStream payload, without a separator."""
    name = shape.get("value.converter", "").strip().rpartition(".")[2]
    alone = shape.get("flush.size", "").strip() == "1"
    return alone and name == ConverterClass.SINETSTREAM.value.rpartition(".")[2]


_STEPS = frozenset({"transforms", "predicates"})
_SHAPE_OPTIONS = {one.name: one for group in SHAPE_GROUPS for one in iter_options(group)}
_SHAPE = _SHAPE_OPTIONS.keys() | _STEPS
DECLARED = _SHAPE | {
    one.name for group in (ConnectorOptions, S3Options) for one in iter_options(group)
}
