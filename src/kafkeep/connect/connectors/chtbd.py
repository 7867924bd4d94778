"""ch.tbd's Kafka Backup: a sink, its pair for compacted topics, and the source that restores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kafkeep.archive.names import connector_log
from kafkeep.connect.connectors.family import Family, Meaning
from kafkeep.connect.connectors.fixed_keys import FixedKey, any_text, what_parses
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
"""How long the bucket keeps objects of BackupSinkConnector where nothing is said, at least."""
_DAYS, _OWN_DAYS = "s3.retention.policy.days", "s3.retention.days"


def _hours(text: str) -> float:
    try:
        hours = float(text.strip().replace(",", "."))
    except ValueError:
        hours = 0.0
    if not 0 < hours < 24 * 3650:
        raise UsageError(f"{text!r} is not a number of hours above zero")
    return hours


@dataclass(frozen=True, kw_only=True)
class CompactOptions:
    """The pair of connectors that take turns at writing a fresh snapshot of a compacted topic."""

    initial_status: str = option(
        "compacted.log.backup.initial.status",
        "CompactBackupSinkConnector: whether this one of the pair begins: ACTIVATE or PASSIVATE.",
        parse=lambda text: one_of("status", "ACTIVATE", "PASSIVATE")(text.strip().upper()),
    )
    length_hours: float = option(
        "compacted.log.backup.length.hours",
        "CompactBackupSinkConnector: hours after which the pair change roles; decimals are "
        "allowed.",
        parse=_hours,
        metavar="HOURS",
    )

    @property
    def length_ms(self) -> int:
        """How long a role lasts."""
        return max(1, round(self.length_hours * HOUR_MS))


_NO_TOPIC = "The pair speak through a document in their archive, not through a topic of their own."
_FIXED_KEYS = (
    FixedKey(
        "compacted.log.backup.interval.offsets",
        "int",
        "10000",
        "Every commit of the log tells how far the one that writes is, and the other one reads it "
        "there: it is never told later than the objects are.",
        what_parses(positive("the interval")),
    ),
    FixedKey(
        "compacted.log.backup.path.configuration",
        "string",
        "",
        f"{_NO_TOPIC} No file of client settings is read for it.",
        any_text,
    ),
    FixedKey(
        "compacted.log.backup.login.name.jaas.configuration", "string", "", _NO_TOPIC, any_text
    ),
)


def compact_options(texts: Mapping[str, str]) -> CompactOptions | None:
    """Return the keys of the pair when the class is theirs; ConfigErrors when one is wrong."""
    last = texts.get("connector.class", "").strip().rpartition(".")[2]
    is_pair = last.removesuffix("Connector") == "CompactBackupSink"
    return parse_group(CompactOptions, texts) if is_pair else None


def _whole_records(folder: str) -> Meaning:
    given = {
        "format.class": "avro",
        "store.envelope": "true",
        "topics.dir": "",
        "object.name.template": f"{{{{topic}}}}/{folder}{_NAME}",
        "value.converter": _BYTES,
    }
    return Meaning(texts=given)


def _backup(texts: Mapping[str, str], _name: str) -> Meaning:
    days = texts.get(_DAYS, str(RETENTION_DAYS))
    whole = _whole_records("")
    return replace(
        whole,
        texts={**whole.texts, _OWN_DAYS: days},
        called={_OWN_DAYS: _DAYS} if _DAYS in texts else {},
    )


def _compact(_texts: Mapping[str, str], name: str) -> Meaning:
    return _whole_records(f"{connector_log(name) if name.strip() else 'backup'}/")


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
