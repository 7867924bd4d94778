"""The keys of every sink connector, ``consumer.override.*`` included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkeep.archive.names import connector_log
from kafkeep.connect.connectors.confluent import CONFLUENT
from kafkeep.connect.connectors.families import OURS, find_family, matches
from kafkeep.connect.connectors.family import Family
from kafkeep.connect.connectors.fixed_keys import FIXED_KEYS, FixedKey, any_text, fixed_key, only
from kafkeep.connect.connectors.s3_keys import SECRETS, S3Options
from kafkeep.errors import UsageError
from kafkeep.options.java_regex import java_regex
from kafkeep.options.kafka import parse_servers
from kafkeep.options.option import (
    ConfigErrors,
    did_you_mean,
    iter_options,
    one_of,
    option,
    parse_group,
    parse_option,
    positive,
    topic_names,
)
from kafkeep.options.sink.converters import ConverterChoice, ConverterClass, Role, is_secret_key
from kafkeep.options.sink.formats import FormatOptions
from kafkeep.options.sink.naming import NamingOptions, TagOptions
from kafkeep.options.sink.partitioners import PartitionOptions
from kafkeep.options.sink.rotation import RotateOptions
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
"""Default codecs of kafkeep.Backup; Confluent's class has its own."""
DEFAULT_CONVERTERS: Mapping[str, Mapping[str, str]] = {
    "json": {"value.converter": _JSON, "value.converter.schemas.enable": "false"},
    "avro": {"value.converter": _BYTES, "store.envelope": "true"},
    "parquet": {"value.converter": _BYTES, "store.envelope": "true"},
    "bytes": {"value.converter": _BYTES},
}
"""Defaults if neither the connector nor the worker sets value.converter, by format."""


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
        "Maximum number of parallel read tasks. Default: as many as Spark runs at once. The "
        "objects are the same with any number.",
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


SPEC_GROUPS: tuple[type, ...] = (
    FormatOptions,
    ConverterChoice,
    PartitionOptions,
    RotateOptions,
    NamingOptions,
    NullOptions,
    ErrorOptions,
    TagOptions,
)
"""Groups whose keys form the sink spec, with those under transforms and converters."""


def is_spec_key(key: str) -> bool:
    """Return True for a key that describes the objects, not their place."""
    below = ("transforms", "predicates", *(f"{role}.converter" for role in ROLES))
    return key in _SPEC_KEYS or key.startswith(tuple(f"{name}." for name in below))


def is_default(key: str, text: str) -> bool:
    """Return True if a key of the sink spec is set to its default."""
    option = _SPEC_OPTIONS.get(key)
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


def is_known_key(key: str, family: Family) -> bool:
    """Return whether a key is known, except keys under transforms and converters."""
    if key in DECLARED or family.has_key(key):
        return True
    return is_known_override(key) if key.startswith(OVERRIDE) else fixed_key(key) is not None


def unknown_key_message(key: str, texts: Mapping[str, str], family: Family) -> str:
    """Return the error message for an unknown key."""
    for role in ROLES:
        if key.startswith(f"{role}.converter."):
            owner = texts.get(f"{role}.converter")
            return f"is not a key of {owner}" if owner else f"{role}.converter is not set"
    if key.startswith(("transforms.", "predicates.")):
        kind = key.partition(".")[0]
        return f"{kind} does not name {key.split('.')[1]}"
    near = near_override(key) if key.startswith(OVERRIDE) else _near(key, family)
    return "there is no such key" + (f". {near}" if near else "")


def _near(key: str, family: Family) -> str | None:
    return did_you_mean(key, [*DECLARED, *FIXED_KEYS, *sorted(family.keys)])


def format_name(text: str) -> str:
    """Return the short name of a format class, or an empty text."""
    try:
        return parse_group(FormatOptions, {"format.class": text}).format_class.value
    except UsageError:
        return ""


def has_sinetstream_objects(spec: Mapping[str, str]) -> bool:
    """Return whether each object is one SINETStream payload, without a separator."""
    name = spec.get("value.converter", "").strip().rpartition(".")[2]
    alone = spec.get("flush.size", "").strip() == "1"
    return alone and name == ConverterClass.SINETSTREAM.value.rpartition(".")[2]


_STEPS = frozenset({"transforms", "predicates"})
_SPEC_OPTIONS = {one.name: one for group in SPEC_GROUPS for one in iter_options(group)}
_SPEC_KEYS = _SPEC_OPTIONS.keys() | _STEPS
DECLARED = _SPEC_KEYS | {
    one.name for group in (ConnectorOptions, S3Options) for one in iter_options(group)
}


OVERRIDE = "consumer.override."
_TUNING = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "connections.max.idle.ms",
    "default.api.timeout.ms",
    "exclude.internal.topics",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.instance.id",
    "group.protocol",
    "heartbeat.interval.ms",
    "max.partition.fetch.bytes",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.max.age.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
)
_NO_EFFECT = (
    "A setting of the Java consumer. kafkeep fetches whole record batches with its own client: no "
    "effect on what is stored."
)
_SECURITY = ("sasl.", "ssl.")
_CLIENT = ("security.protocol", "bootstrap.servers", "client.id")

_FIXED_OVERRIDES = (
    *(FixedKey(OVERRIDE + name, "string", "", _NO_EFFECT, any_text) for name in _TUNING),
    FixedKey(
        OVERRIDE + "check.crcs",
        "boolean",
        "true",
        "Checksums of record batches are always checked.",
        only("true"),
    ),
    FixedKey(
        OVERRIDE + "enable.auto.commit",
        "boolean",
        "false",
        "Offsets are committed only after records are stored.",
        only("false"),
    ),
    FixedKey(
        OVERRIDE + "group.id",
        "string",
        "",
        "The consumer group is always connect-<name>.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class ConsumerReadOptions:
    """The overrides that decide which records are read, under their full names."""

    isolation_level: str = option(
        OVERRIDE + "isolation.level",
        "read_committed skips records of aborted transactions; read_uncommitted reads them. "
        "Connect's default is read_uncommitted.",
        default="read_committed",
        parse=lambda text: one_of("isolation level", "read_committed", "read_uncommitted")(
            text.strip().lower()
        ),
    )
    auto_offset_reset: str = option(
        OVERRIDE + "auto.offset.reset",
        "Where to start if the group connect-<name> has no offset: earliest or latest.",
        default="earliest",
        parse=lambda text: one_of("auto.offset.reset", "earliest", "latest")(text.strip().lower()),
    )


@dataclass(frozen=True, kw_only=True)
class ConsumerOptions:
    """All overrides of a connector; ``kafka`` are client properties under Java's names."""

    isolation_level: str = "read_committed"
    auto_offset_reset: str = "earliest"
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> ConsumerOptions:
        """Parse the keys under the prefix; ConfigErrors names all invalid ones."""
        wrong: dict[str, str] = {}
        kafka: dict[str, str] = {}
        for key in (key for key in given if key.startswith(OVERRIDE)):
            try:
                if _is_client(key):
                    kafka[key.removeprefix(OVERRIDE)] = _client_value(key, given[key])
                elif found := fixed_override(key):
                    found.check(given[key])
            except UsageError as error:
                wrong[key] = error.message
        try:
            read = parse_group(ConsumerReadOptions, given)
        except ConfigErrors as error:
            raise ConfigErrors({**wrong, **error.by_key}) from error
        if wrong:
            raise ConfigErrors(wrong)
        return cls(**vars(read), kafka=kafka)


def is_known_override(key: str) -> bool:
    """Return whether a key under the prefix is known."""
    declared = {one.name for one in iter_options(ConsumerReadOptions)}
    return key in declared or _is_client(key) or fixed_override(key) is not None


def is_secret_override(key: str) -> bool:
    """Return whether the value of a key under the prefix may be a secret."""
    return key.startswith((OVERRIDE + "sasl.", OVERRIDE + "ssl."))


def fixed_override(key: str) -> FixedKey | None:
    """Return the fixed key of this name; None if there is none."""
    return next((one for one in _FIXED_OVERRIDES if one.name == key), None)


def iter_fixed_overrides() -> tuple[FixedKey, ...]:
    """Return all fixed keys, for the documentation."""
    return _FIXED_OVERRIDES


def near_override(key: str) -> str | None:
    """Return a hint for an unknown key."""
    known = [one.name for one in iter_options(ConsumerReadOptions)] + [
        one.name for one in _FIXED_OVERRIDES
    ]
    return did_you_mean(key, [*known, *(OVERRIDE + name for name in _CLIENT)])


def _is_client(key: str) -> bool:
    name = key.removeprefix(OVERRIDE)
    return key.startswith(OVERRIDE) and (name in _CLIENT or name.startswith(_SECURITY))


def _client_value(key: str, text: str) -> str:
    if key == OVERRIDE + "bootstrap.servers":
        parse_servers(text)
    return text
