"""The input and the results of comparison tasks, as values that Spark serializes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.compare.differences import Leniency, Tally
from kafkeep.compare.repartitioned import KeyShare
from kafkeep.kafka.batch.schema_ids import IdMap
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.kafka import Locations
from kafkeep.spark.bundles import pack_evenly


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The archived records of a partition that the target must have; None means all."""

    ranges: tuple[OffsetRange, ...] | None = None
    from_ms: int | None = None
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ArchivePart:
    """One archived partition."""

    partition: int
    entries: tuple[Entry, ...]
    selection: RecordSelection
    unheld: tuple[tuple[int | None, int], ...] = ()
    """Where objects have expired; see ``Leniency``."""

    @property
    def records(self) -> int:
        """The number of archived records, each counted once; unknown for a selection."""
        return sum(entry.own_records for entry in self.entries)

    @property
    def raw_bytes(self) -> int:
        """The estimated number of bytes to read."""
        return sum(entry.raw_bytes or entry.size_bytes for entry in self.entries)

    @property
    def sha256(self) -> str:
        """A digest over the digests of its objects; it identifies the compared data."""
        whole = hashlib.sha256()
        for entry in self.entries:
            whole.update(f"{entry.key} {entry.sha256}\n".encode())
        return whole.hexdigest()


@dataclass(frozen=True, slots=True)
class TargetPart:
    """One partition of the target, and the offsets to read."""

    partition: int
    offsets: OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareWork:
    """Archived partitions and the target partitions that must hold the same records.

    One of each, compared record by record; with a ``share``, all of a topic, compared by key.
    """

    source: str
    target: str
    topic_id: str
    archive: tuple[ArchivePart, ...]
    parts: tuple[TargetPart, ...]
    fields: tuple[str, ...]
    leniency: Leniency
    share: KeyShare | None = None
    ids: IdMap | None = None
    """The schema ids of archived records in the target; None if they kept theirs."""

    @property
    def est_bytes(self) -> int:
        """The estimated number of bytes to read."""
        return sum(part.raw_bytes for part in self.archive)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareBundle:
    """The input of one task; serialized to the executor."""

    work: tuple[CompareWork, ...]
    locations: Locations
    reading: ReadOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkResult:
    """The result of one work item; ``partition`` is None for a share of a whole topic."""

    source: str
    target: str
    partition: int | None
    archived: int
    """Records of the archive."""
    found: int
    """Records of the target."""
    matched: int
    tally: Tally
    sha256: str
    began_ms: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the form of task rows and reports."""
        return {
            "source": self.source,
            "target": self.target,
            "partition": self.partition,
            "archived": self.archived,
            "found": self.found,
            "matched": self.matched,
            **self.tally.to_json(),
            "objects_sha256": self.sha256,
            "began_ms": self.began_ms,
            "seconds": round(self.seconds, 3),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> WorkResult:
        """Rebuild it."""
        return cls(
            source=document["source"],
            target=document["target"],
            partition=document["partition"],
            archived=document["archived"],
            found=document["found"],
            matched=document["matched"],
            tally=Tally.from_json(document),
            sha256=document["objects_sha256"],
            began_ms=document["began_ms"],
            seconds=document["seconds"],
        )


def pack(work: Sequence[CompareWork], bundles: int) -> list[tuple[CompareWork, ...]]:
    """Distribute work over at most ``bundles`` tasks of even weight."""
    largest_first = sorted(work, key=lambda one: -one.est_bytes)
    return pack_evenly(largest_first, bundles, lambda one: one.est_bytes + 1)
