"""ch.tbd's Kafka Backup: a sink, its pair for compacted topics, and the source that restores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkeep.archive.names import connector_log
from kafkeep.connect.connectors.family import Family, TranslatedConfig
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_text, parsed_by
from kafkeep.errors import UsageError
from kafkeep.options.option import one_of, option, parse_group, positive

PACKAGE = "ch.tbd.kafka.backuprestore."
BACKUP = PACKAGE + "backup.kafkaconnect.BackupSinkConnector"
COMPACT = PACKAGE + "backup.kafkaconnect.compact.CompactBackupSinkConnector"
RESTORE = PACKAGE + "restore.kafkaconnect.RestoreSourceConnector"
HOUR_MS = 3_600_000
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_NAME = "{{partition}}/{{topic}}-{{partition}}-{{start_offset}}{{incarnation}}{{extension}}"
RETENTION_DAYS = 30
"""The default retention of BackupSinkConnector's objects, at least."""
_DAYS, _OWN_DAYS = "s3.retention.policy.days", "s3.retention.days"


def _hours(text: str) -> float:
    try:
        hours = float(text.strip().replace(",", "."))
    except ValueError:
        hours = 0.0
    if not 0 < hours < 24 * 3650:
        raise UsageError(f"{text!r} is not a number of hours above zero")
    return hours


def _log_name(text: str) -> str | None:
    return connector_log(text) if text.strip() else None


@dataclass(frozen=True, kw_only=True)
class CompactOptions:
    """Options of a pair of connectors that alternate in writing snapshots of a compacted topic."""

    initial_status: str = option(
        "compacted.log.backup.initial.status",
        "CompactBackupSinkConnector: ACTIVATE for the connector of the pair that starts, "
        "PASSIVATE for the other.",
        parse=lambda text: one_of("status", "ACTIVATE", "PASSIVATE")(text.strip().upper()),
    )
    length_hours: float = option(
        "compacted.log.backup.length.hours",
        "CompactBackupSinkConnector: hours after which the two connectors change roles; decimals "
        "are allowed.",
        parse=_hours,
        metavar="HOURS",
    )

    @property
    def length_ms(self) -> int:
        """The duration of a role."""
        return max(1, round(self.length_hours * HOUR_MS))


@dataclass(frozen=True, kw_only=True)
class ChTbdSourceOptions:
    """ch.tbd's RestoreSourceConnector."""

    instance_name_restore: str | None = option(
        "instance.name.restore",
        "RestoreSourceConnector: the name of the connector of the pair whose snapshot to restore.",
        default=None,
        parse=_log_name,
    )


_NO_TOPIC = "The two connectors coordinate through a document in the archive, not through a topic."
_FIXED_KEYS = (
    FixedKey(
        "compacted.log.backup.interval.offsets",
        "int",
        "10000",
        "Every commit of the log records the progress of the active connector; the other one reads "
        "it there.",
        parsed_by(positive("the interval")),
    ),
    FixedKey(
        "compacted.log.backup.path.configuration",
        "string",
        "",
        f"{_NO_TOPIC} The file is not read.",
        any_text,
    ),
    FixedKey(
        "compacted.log.backup.login.name.jaas.configuration", "string", "", _NO_TOPIC, any_text
    ),
)


def compact_options(texts: Mapping[str, str]) -> CompactOptions | None:
    """Return the options of the pair if the class is theirs; ConfigErrors for invalid ones."""
    last = texts.get("connector.class", "").strip().rpartition(".")[2]
    is_pair = last.removesuffix("Connector") == "CompactBackupSink"
    return parse_group(CompactOptions, texts) if is_pair else None


def _whole_records(folder: str) -> TranslatedConfig:
    given = {
        "format.class": "avro",
        "store.envelope": "true",
        "topics.dir": "",
        "object.name.template": f"{{{{topic}}}}/{folder}{_NAME}",
        "value.converter": _BYTES,
    }
    return TranslatedConfig(texts=given)


def _backup(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    days = texts.get(_DAYS, str(RETENTION_DAYS))
    whole = _whole_records("")
    return replace(
        whole,
        texts={**whole.texts, _OWN_DAYS: days},
        called={_OWN_DAYS: _DAYS} if _DAYS in texts else {},
    )


def _compact(_texts: Mapping[str, str], name: str) -> TranslatedConfig:
    return _whole_records(f"{connector_log(name) if name.strip() else 'backup'}/")


def _restore(texts: Mapping[str, str], _name: str) -> TranslatedConfig:
    options = parse_group(ChTbdSourceOptions, texts)
    found = {"restore.into.non.empty": "true"}
    if options.instance_name_restore:
        found["restore.log"] = options.instance_name_restore
    return TranslatedConfig(texts=found)


SINK = Family(
    name="ch.tbd",
    kind="sink",
    classes=(BACKUP,),
    renamed={_DAYS: _OWN_DAYS},
    translate=_backup,
)
PAIR = Family(
    name="ch.tbd",
    kind="sink",
    classes=(COMPACT,),
    groups=(CompactOptions,),
    fixed_keys=_FIXED_KEYS,
    translate=_compact,
)
SOURCE = Family(
    name="ch.tbd",
    kind="source",
    classes=(RESTORE,),
    groups=(ChTbdSourceOptions,),
    translate=_restore,
)
