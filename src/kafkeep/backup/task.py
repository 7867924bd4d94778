"""The function a Spark task runs: a bundle of ranges in, entries and reports out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange
from kafkeep.backup.fetch import RangeReader, iter_chunks
from kafkeep.backup.write import RangeWriter, WriteOptions
from kafkeep.config.kafka import KafkaOptions
from kafkeep.config.storage import StorageOptions
from kafkeep.failpoint import failpoint
from kafkeep.kafka.wire import wire_for
from kafkeep.store.open import open_store


@dataclass(frozen=True, slots=True)
class BundledRange:
    """A range of a bundle; ``number`` is its place in the intent."""

    number: int
    planned: PlannedRange
    begins_stretch: bool
    est_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Everything one task needs; travels to the executor as it is."""

    ranges: tuple[BundledRange, ...]
    kafka: KafkaOptions
    archive: str
    storage: StorageOptions
    log_name: str
    write: WriteOptions
    seconds: float
    """Stop after about this long, at the end of what was read by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReport:
    """How far one range was read: ``[first, next)``, less its gaps."""

    number: int
    first: int
    next: int
    finished: bool
    gone: bool
    gaps: tuple[OffsetRange, ...]
    leader_epoch: int = -1
    """Of the last batch read; -1 when none was."""

    def to_json(self) -> dict[str, Any]:
        """Return the row a task yields."""
        return {
            "number": self.number,
            "first": self.first,
            "next": self.next,
            "finished": self.finished,
            "gone": self.gone,
            "gaps": [[g.start, g.end] for g in self.gaps],
            "leader_epoch": self.leader_epoch,
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RangeReport:
        """Rebuild a report from a row."""
        gaps = tuple(OffsetRange(*pair) for pair in row["gaps"])
        return cls(**{**row, "gaps": gaps})


def archive_bundle(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read, store and report every range of the bundle.

    Yields ``("object", {"number", "entry"})`` for each object and ``("range", report)`` for each
    range. Safe to run again: objects that are there are adopted.
    """
    failpoint("task.start")
    deadline = time.monotonic() + bundle.seconds
    store = open_store(bundle.archive, bundle.storage)
    wire = wire_for(bundle.kafka)
    numbers: dict[int, int] = {}
    readers, writers = [], {}
    for item in bundle.ranges:
        reader = RangeReader(
            item.planned, item.begins_stretch, item.est_bytes, bundle.write.keeps_aborted
        )
        readers.append(reader)
        numbers[id(reader)] = item.number
        writers[id(reader)] = RangeWriter(store, bundle.log_name, item.planned, bundle.write)
    gaps: dict[int, list[OffsetRange]] = {id(reader): [] for reader in readers}
    try:
        for reader, chunk in iter_chunks(wire, readers, deadline=deadline):
            writer, number = writers[id(reader)], numbers[id(reader)]
            if chunk.gap is not None:
                gaps[id(reader)].append(chunk.gap)
            for entry in writer.add(chunk, reader.first):
                yield "object", {"number": number, "entry": entry.to_json()}
            if writer.resume_at is not None:
                reader.skip_to(writer.resume_at)
            if not reader.is_open:
                for entry in writer.close(reader.position):
                    yield "object", {"number": number, "entry": entry.to_json()}
        for reader in readers:
            for entry in writers[id(reader)].close(reader.position):
                yield "object", {"number": numbers[id(reader)], "entry": entry.to_json()}
            yield "range", _report(reader, numbers[id(reader)], gaps[id(reader)]).to_json()
    finally:
        for writer in writers.values():
            writer.abort()


def _report(reader: RangeReader, number: int, gaps: list[OffsetRange]) -> RangeReport:
    return RangeReport(
        number=number,
        first=reader.first,
        next=reader.position,
        finished=reader.finished,
        gone=reader.gone,
        gaps=tuple(gaps),
        leader_epoch=reader.leader_epoch,
    )
