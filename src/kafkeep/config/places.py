"""Where Kafka and the archive are, in a form that travels to tasks."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.storage import ArchiveAddress, StorageOptions


@dataclass(frozen=True, kw_only=True)
class Places:
    """A backup reads Kafka and writes the archive; a restore goes the other way."""

    kafka: KafkaOptions
    archive: str
    storage: StorageOptions

    def __post_init__(self) -> None:
        ArchiveAddress.parse(self.archive)  # told before Kafka is asked anything
