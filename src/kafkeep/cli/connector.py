"""What ``backup`` is to do, from its flags, ``--set`` and a connector's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkeep.cli.flags import build
from kafkeep.cli.places import parse_settings, storage_options
from kafkeep.config.backup import FORMATS, BackupOptions
from kafkeep.config.choose import one_of
from kafkeep.config.connector import ConnectorConfig, read_connector_file
from kafkeep.config.storage import StorageOptions
from kafkeep.errors import UsageError

_SEGMENT_FLAGS = {"segment_bytes": "flush.bytes", "segment_age_ms": "rotate.schedule.interval.ms"}


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """A backup as it was asked for; ``kafka`` are properties over those of the client's file."""

    options: BackupOptions
    archive: str
    storage: StorageOptions
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line says besides the options of a backup."""

    archive: str | None = None
    endpoint: str | None = None
    region: str | None = None
    profile: str | None = None
    connector_config: str | None = None
    settings: Sequence[str] = ()


def choose_backup(flags: Mapping[str, Any], asked: Asked) -> Chosen:
    """Put flags over ``--set`` over the file; UsageError tells everything that is wrong."""
    plain = flags.get("format") in (None, "segment")
    if plain and asked.connector_config is None and not asked.settings:
        if asked.archive is None:
            raise UsageError(
                "--archive is missing", hint="Write --archive s3://bucket/prefix or a folder."
            )
        storage = storage_options(asked.endpoint, asked.region, asked.profile)
        options = build(BackupOptions, dict(flags))
        return Chosen(options=options, archive=asked.archive, storage=storage)
    if flags.get("format") is not None:
        one_of("--format", *FORMATS)(flags["format"])
    config = _read(flags, asked)
    _refuse_what_backup_cannot(config, flags)
    return Chosen(
        options=_backup_options(config, flags),
        archive=config.archive,
        storage=config.storage,
        kafka=config.kafka,
        notes=config.notes,
    )


def _read(flags: Mapping[str, Any], asked: Asked) -> ConnectorConfig:
    texts: dict[str, str] = {}
    name: str | None = None
    if asked.connector_config is not None:
        document = read_connector_file(asked.connector_config)
        texts, name = dict(document.config), document.name
    texts |= parse_settings(asked.settings)
    _put_flags(texts, flags, asked)
    wanted = flags.get("name") or texts.get("name") or name
    return ConnectorConfig.from_map(texts, name=wanted, archive=asked.archive)


def _put_flags(texts: dict[str, str], flags: Mapping[str, Any], asked: Asked) -> None:
    if flags.get("topics") or flags.get("topics_regex"):
        texts.pop("topics", None)
        texts.pop("topics.regex", None)
    if asked.profile is not None:
        texts.pop("aws.access.key.id", None)
        texts.pop("aws.secret.access.key", None)
    if flags.get("format") == "segment":
        texts.pop("format.class", None)
    given = {
        "topics": flags.get("topics"),
        "topics.regex": flags.get("topics_regex"),
        "format.class": None if flags.get("format") == "segment" else flags.get("format"),
        "consumer.override.isolation.level": flags.get("isolation_level"),
        "store.url": asked.endpoint,
        "s3.region": asked.region,
        "s3.profile.name": asked.profile,
    }
    texts.update({key: text for key, text in given.items() if text is not None})


def _refuse_what_backup_cannot(config: ConnectorConfig, flags: Mapping[str, Any]) -> None:
    if config.compact is not None:
        raise UsageError(
            f"{config.connector_class} is one of a pair that take turns: kafkeep serve runs them"
        )
    if config.retention_days is not None and not config.retention_by_default:
        raise UsageError(
            "s3.retention.days: backup sets no lifecycle rule",
            hint="kafkeep serve sets it when the connector is defined.",
        )
    if config.format == "segment":
        return
    for name, instead in _SEGMENT_FLAGS.items():
        if flags.get(name) is not None:
            flag = "--segment-bytes" if name == "segment_bytes" else "--segment-age"
            raise UsageError(
                f"{flag} is for --format segment, not for {config.format}",
                hint=f"Use --set {instead}=…",
            )


def _backup_options(config: ConnectorConfig, flags: Mapping[str, Any]) -> BackupOptions:
    values = {
        **flags,
        "topics": ",".join(config.topics) or None,
        "topics_regex": config.topics_regex,
        "name": config.name,
        "format": config.format,
        "isolation_level": config.isolation_level,
    }
    options = build(BackupOptions, values)
    extra = {name: value for name, value in config.extra.items() if flags.get(name) is None}
    options = replace(
        options, tasks_max=config.tasks_max, start_at=config.auto_offset_reset, **extra
    )
    return config.shaped(options)
