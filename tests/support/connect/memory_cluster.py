"""A Kafka cluster in memory, as far as the catalog reads one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.support.fake_kafka import FakeFetchWire, FakeLog

from kafkeep.connect.catalog.cluster import LiveCluster
from kafkeep.errors import TransientError
from kafkeep.kafka.admin.admin import ConfigValue, OffsetSpec
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.client.metadata import PartitionDescription, TopicDescription
from kafkeep.options.kafka import KafkaOptions


def log_of(records: Sequence[Record], *, start: int | None = None, batch: int = 10) -> FakeLog:
    """Return a partition with these records; it begins at ``start`` if that is later."""
    log = FakeLog()
    for i in range(0, len(records), batch):
        some = records[i : i + batch]
        log.batches.append((some[0].offset, some[-1].offset, build_batch(some)))
    log.visible = list(records)
    log.end = records[-1].offset + 1 if records else 0
    log.start = start if start is not None else (records[0].offset if records else 0)
    return log


class MemoryCluster(LiveCluster):
    """Topics whose partitions are lists of records; ``is_down`` makes every request fail."""

    def __init__(self) -> None:
        super().__init__(KafkaOptions(bootstrap_servers="memory:9092"))
        self.described: dict[str, TopicDescription] = {}
        self.logs: dict[tuple[str, int], FakeLog] = {}
        self.settings: dict[str, Mapping[str, ConfigValue]] = {}
        self.is_down = False
        self.answer_bytes = 1 << 20

    def add(
        self, name: str, *logs: FakeLog, topic_id: str | None = None, internal: bool = False
    ) -> None:
        """Add a topic with a partition for each log."""
        partitions = {
            n: PartitionDescription(index=n, leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
            for n in range(len(logs))
        }
        self.described[name] = TopicDescription(
            name, f"id-{name}" if topic_id is None else topic_id, internal, partitions
        )
        self.logs.update({(name, n): log for n, log in enumerate(logs)})

    def topics(self) -> Mapping[str, TopicDescription]:
        self._check()
        return dict(self.described)

    def admin(self, *, for_readings: bool = False) -> Any:
        self._check()
        return MemoryAdmin(self)

    def wire(self, *, for_readings: bool = False) -> Any:
        self._check()
        return FakeFetchWire(self.logs, self.answer_bytes)

    def close(self) -> None:
        """There is nothing to close."""

    def _check(self) -> None:
        if self.is_down:
            raise TransientError("no broker of memory:9092 answers")


@dataclass
class MemoryAdmin:
    """The requests that the catalog makes."""

    cluster: MemoryCluster

    @property
    def routes(self) -> Any:
        return SimpleNamespace(link=None)

    @property
    def wire(self) -> MemoryAdmin:
        return self

    def call(self, *_: Any) -> list[Any]:
        """Answer a request for groups: there are none."""
        return []

    def offsets(
        self, partitions: Collection[tuple[str, int]], spec: OffsetSpec
    ) -> dict[tuple[str, int], int]:
        logs = self.cluster.logs
        return {
            key: logs[key].start if spec is OffsetSpec.EARLIEST else logs[key].end
            for key in partitions
        }

    def offset_bounds(
        self, partitions: Collection[tuple[str, int]], end: OffsetSpec = OffsetSpec.LATEST
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        return self.offsets(partitions, OffsetSpec.EARLIEST), self.offsets(partitions, end)

    def offsets_for_times(
        self, times_ms: Mapping[tuple[str, int], int], **_: Any
    ) -> dict[tuple[str, int], int | None]:
        return {
            key: next((r.offset for r in self._records(key) if r.timestamp >= at), None)
            for key, at in times_ms.items()
        }

    def _records(self, key: tuple[str, int]) -> Iterable[Record]:
        log = self.cluster.logs[key]
        return [one for one in log.visible if one.offset >= log.start]

    def partition_sizes(self, topics: Mapping[str, Collection[int]]) -> dict[tuple[str, int], int]:
        return {
            (name, n): sum(len(body) for _, _, body in self.cluster.logs[name, n].batches)
            for name, numbers in topics.items()
            for n in numbers
        }

    def all_topic_configs(self, names: Collection[str]) -> dict[str, Mapping[str, ConfigValue]]:
        return {name: self.cluster.settings.get(name, {}) for name in names}
