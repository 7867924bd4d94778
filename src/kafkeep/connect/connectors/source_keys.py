"""The keys that every source connector has, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kafkeep.archive.names import connector_log
from kafkeep.connect.connectors.family import Family
from kafkeep.connect.connectors.fixed_keys import (
    FixedKey,
    any_text,
    any_truth,
    fixed_key,
    only,
)
from kafkeep.connect.connectors.s3_keys import S3Options
from kafkeep.options.option import Option, did_you_mean, iter_options, option, positive
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.selection import parse_renames
from kafkeep.options.storage import ArchiveAddress

PRODUCER = "producer.override."
RESTORE = "restore."
ROLES = ("key", "value", "header")
_CLIENT = ("bootstrap.servers", "client.id", "security.protocol")
_SECURITY = ("sasl.", "ssl.")
_ELSEWHERE = ("topics", "name", "state", "dry.run", "tasks")
_TUNING = (
    "batch.size",
    "buffer.memory",
    "delivery.timeout.ms",
    "linger.ms",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "request.timeout.ms",
    "retries",
    "retry.backoff.ms",
)


def _renames(text: str) -> tuple[tuple[str, str], ...]:
    return parse_renames(text) if text.strip() else ()


def _interval(text: str) -> int | None:
    bare = text.strip()
    return None if bare == "-1" else positive("poll.interval.ms")(bare)


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """The options of every source connector."""

    name: str = option("name", "Name of the connector.", default="restore", parse=connector_log)
    tasks_max: int | None = option(
        "tasks.max",
        "Maximum number of parallel write tasks. Default: as many as Spark runs at once.",
        default=None,
        parse=positive("tasks.max"),
        metavar="COUNT",
    )
    topics: tuple[tuple[str, str], ...] = option(
        "topics",
        "Topics to restore; b:new-b restores b as new-b. Default: all.",
        default=(),
        parse=_renames,
        metavar="NAMES",
    )
    archive: str | None = option(
        "archive",
        "Address of the archive, instead of s3.bucket.name: s3://bucket/prefix or a folder.",
        default=None,
        parse=lambda text: str(ArchiveAddress.parse(text.strip())),
        metavar="ADDRESS",
    )
    poll_interval_ms: int | None = option(
        "poll.interval.ms",
        "Check the log for new commits this often; -1 restores once and stops.",
        default=None,
        parse=_interval,
        metavar="MS",
    )
    restore_log: str | None = option(
        "restore.log",
        "The log to read, if the archive has several: the name of the sink.",
        default=None,
        parse=connector_log,
        metavar="NAME",
    )


_TRANSFORMS = (
    "Applied to each restored record. Routers are refused: rename topics with topics. "
    "value.converter decodes and encodes the values of segments."
)
_FIXED_KEYS = (
    FixedKey(
        "errors.tolerance",
        "string",
        "none",
        "A record that cannot be converted or transformed stops the connector.",
        only("none"),
    ),
    FixedKey("errors.log.enable", "boolean", "false", "Problems are always logged.", any_truth),
    FixedKey(
        "errors.log.include.messages", "boolean", "false", "Problems are always logged.", any_truth
    ),
    FixedKey("transforms", "list", "", _TRANSFORMS, any_text),
    FixedKey("predicates", "list", "", _TRANSFORMS, any_text),
    *(
        FixedKey(
            PRODUCER + name,
            "string",
            "",
            "A setting of the Java producer, which is not used: no effect on what is written.",
            any_text,
        )
        for name in _TUNING
    ),
    FixedKey(
        PRODUCER + "acks",
        "string",
        "all",
        "Records are written to all replicas.",
        only("all", "-1"),
    ),
    FixedKey(
        PRODUCER + "enable.idempotence",
        "boolean",
        "true",
        "Each record is written exactly once.",
        only("true"),
    ),
    FixedKey(
        PRODUCER + "compression.type",
        "string",
        "",
        "Batches keep their original compression.",
    ),
)
_BELOW = (
    FixedKey("transforms.", "string", "", _TRANSFORMS, any_text),
    FixedKey("predicates.", "string", "", _TRANSFORMS, any_text),
    FixedKey(
        "topic.creation.",
        "string",
        "",
        "Topics are created with their archived settings, except restore.replication.factor.",
    ),
)


def restore_options() -> tuple[Option, ...]:
    """Return the options of a restore that a source takes under ``restore.``."""
    return tuple(one for one in iter_options(RestoreOptions) if one.name not in _ELSEWHERE)


def is_client_key(key: str) -> bool:
    """Return whether a key is a property of the Kafka client."""
    name = key.removeprefix(PRODUCER)
    return key.startswith(PRODUCER) and (name in _CLIENT or name.startswith(_SECURITY))


def source_fixed_key(key: str, family: Family) -> FixedKey | None:
    """Return the fixed key of this name; None if there is none."""
    if key in DECLARED or key in family.keys or is_client_key(key):
        return None
    own = family.fixed_key(key) or next((one for one in _FIXED_KEYS if one.name == key), None)
    below = next((one for one in _BELOW if key.startswith(one.name)), None)
    return own or below or (None if key.startswith(PRODUCER) else fixed_key(key))


def is_known_source_key(key: str, family: Family) -> bool:
    """Return whether a key is known; keys under a converter are, if its class is named."""
    if key in DECLARED or is_client_key(key) or family.has_key(key):
        return True
    below = key.startswith(tuple(f"{role}.converter." for role in ROLES))
    return below or source_fixed_key(key, family) is not None


def unknown_source_message(key: str, family: Family) -> str:
    """Return the error message for an unknown key."""
    near = did_you_mean(key, [*DECLARED, *family.keys, *(one.name for one in family.fixed_keys)])
    return "there is no such key" + (f". {near}" if near else "")


def iter_source_fixed_keys() -> tuple[FixedKey, ...]:
    """Return all fixed keys, for the documentation."""
    return (*_FIXED_KEYS, *_BELOW)


DECLARED: Mapping[str, None] = dict.fromkeys(
    [
        *(one.name for group in (SourceOptions, S3Options) for one in iter_options(group)),
        *(RESTORE + one.name for one in restore_options()),
        *(f"{role}.converter" for role in ROLES),
        "connector.class",
    ]
)
"""All keys that every source takes."""
