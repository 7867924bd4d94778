"""Settings of a target topic: while it is written, and afterwards. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LARGEST = str(2**63 - 1)
BATCH_ROOM_BYTES = 64 * 1024 * 1024

WHILE_WRITING: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "compression.type": "producer",
    "message.timestamp.before.max.ms": LARGEST,
    "message.timestamp.after.max.ms": LARGEST,
}
"""With these, Kafka does not refuse, change, compact or expire records during the restore."""


KafkaRelease = tuple[int, ...]
"""A release of Kafka, such as (3, 9)."""
_BEFORE, _AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
_DIFFERENCE = "message.timestamp.difference.max.ms"
SETTINGS_SINCE: Mapping[str, KafkaRelease] = {
    _BEFORE: (3, 6),
    _AFTER: (3, 6),
    "remote.storage.enable": (3, 0),
    "local.retention.bytes": (3, 0),
    "local.retention.ms": (3, 0),
    "compression.gzip.level": (3, 8),
    "compression.lz4.level": (3, 8),
    "compression.zstd.level": (3, 8),
    "remote.log.copy.disable": (3, 9),
    "remote.log.delete.on.disable": (3, 9),
}
"""The first release that has a setting."""
SETTINGS_UNTIL: Mapping[str, KafkaRelease] = {
    _DIFFERENCE: (4, 0),
    "message.format.version": (4, 0),
    "message.downconversion.enable": (4, 0),
}
"""The first release that has a setting no more."""


def unknown_settings(archived: Mapping[str, str], kafka: KafkaRelease) -> list[str]:
    """Return the settings that the release does not have and that say nothing there."""
    return [
        key for key in archived if not has_setting(kafka, key) and not key.startswith("message.t")
    ]


def translate_settings(archived: Mapping[str, str], kafka: KafkaRelease) -> dict[str, str]:
    """Return the archived settings by the names that the release has."""
    kept = {key: value for key, value in archived.items() if has_setting(kafka, key)}
    if not has_setting(kafka, _DIFFERENCE) and _DIFFERENCE in archived:
        kept = {_BEFORE: archived[_DIFFERENCE], _AFTER: archived[_DIFFERENCE], **kept}
    if not has_setting(kafka, _BEFORE):
        limits = [archived[key] for key in (_BEFORE, _AFTER) if key in archived]
        kept = {**({_DIFFERENCE: max(limits, key=int)} if limits else {}), **kept}
    return kept


def has_setting(kafka: KafkaRelease, key: str) -> bool:
    """Return whether the release has a setting; true for those that are not known here."""
    return SETTINGS_SINCE.get(key, kafka) <= kafka and not kafka >= SETTINGS_UNTIL.get(key, (99,))


@dataclass(frozen=True, slots=True)
class HeldBack:
    """A setting that was not put back: it would delete restored records, or block all writes."""

    topic: str
    key: str
    value: str
    reason: str

    @property
    def command(self) -> str:
        """The command that sets it after all."""
        return (
            "kafka-configs --alter --entity-type topics"
            f" --entity-name {self.topic} --add-config {self.key}={self.value}"
        )


@dataclass(frozen=True, slots=True)
class FinalSettings:
    """The settings of a topic after its data is restored."""

    set: Mapping[str, str]
    delete: tuple[str, ...]
    held_back: tuple[HeldBack, ...]


def settings_while_writing(
    archived: Mapping[str, str], replicas: int | None, kafka: KafkaRelease
) -> dict[str, str]:
    """Return the settings a target has during the restore; ``replicas`` as for final_settings."""
    room = max(int(archived.get("max.message.bytes", 0)), BATCH_ROOM_BYTES)
    made = {
        **translate_settings(archived, kafka),
        **translate_settings(WHILE_WRITING, kafka),
        "max.message.bytes": str(room),
    }
    if _wants_more_than(replicas, archived):
        del made[_IN_SYNC]
    return made


def _wants_more_than(replicas: int | None, archived: Mapping[str, str]) -> bool:
    """Return whether min.insync.replicas exceeds the replicas: brokers may refuse every record."""
    return replicas is not None and int(archived.get(_IN_SYNC, 0)) > replicas


_IN_SYNC = "min.insync.replicas"


def final_settings(
    topic: str,
    archived: Mapping[str, str],
    defaults: Mapping[str, str],
    *,
    kafka: KafkaRelease,
    replicas: int | None,
    oldest_ms: int | None,
    largest_partition_bytes: int,
    now_ms: int,
    apply_retention: bool,
) -> FinalSettings:
    """Return the archived settings without those that would delete restored records at once.

    ``defaults`` are the defaults of the target cluster; they can delete records, too.
    ``kafka`` is the release of the target. ``replicas`` is the number of replicas if the topic had
    more before, else None. ``oldest_ms`` is None if nothing was restored.
    """
    archived = translate_settings(archived, kafka)
    wanted = dict(archived)
    ours = (*translate_settings(WHILE_WRITING, kafka), "max.message.bytes")
    delete = [key for key in ours if key not in archived]
    held: list[HeldBack] = []
    if _wants_more_than(replicas, archived):
        reason = f"the topic has {replicas} replica{'s' if replicas != 1 else ''}"
        held.append(HeldBack(topic, _IN_SYNC, wanted.pop(_IN_SYNC), reason))
    policy = archived.get("cleanup.policy", defaults.get("cleanup.policy", "delete"))
    if not (apply_retention or oldest_ms is None or "delete" not in policy):
        deleting = _deleting(topic, archived, defaults, oldest_ms, largest_partition_bytes, now_ms)
        wanted |= {item.key: "-1" for item in deleting}
        held += deleting
    return FinalSettings(wanted, tuple(key for key in delete if key not in wanted), tuple(held))


def _deleting(  # noqa: PLR0917
    topic: str,
    archived: Mapping[str, str],
    defaults: Mapping[str, str],
    oldest_ms: int,
    largest_partition_bytes: int,
    now_ms: int,
) -> list[HeldBack]:
    """Return the settings that would delete restored records at once."""
    held: list[HeldBack] = []
    age = int(archived.get("retention.ms", defaults.get("retention.ms", "-1")))
    if age >= 0 and oldest_ms < now_ms - age:
        held.append(HeldBack(topic, "retention.ms", str(age), "records are older than that"))
    size = int(archived.get("retention.bytes", defaults.get("retention.bytes", "-1")))
    if 0 <= size < largest_partition_bytes:
        held.append(HeldBack(topic, "retention.bytes", str(size), "a partition is larger"))
    return held
