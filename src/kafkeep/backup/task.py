"""The function a Spark task runs: a bundle of ranges in, entries and reports out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.backup.fetch import Chunk, RangeReader, iter_chunks
from kafkeep.backup.upload import Uploads
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


@dataclass(slots=True)
class _Work:
    """One range at work: who reads it, who writes it, what was lost of it."""

    number: int
    reader: RangeReader
    writer: RangeWriter
    gaps: list[OffsetRange]

    def take(self, chunk: Chunk) -> Iterator[tuple[str, dict[str, Any]]]:
        """Store what was read; yield a row for each object that is complete."""
        if chunk.gap is not None:
            self.gaps.append(chunk.gap)
        yield from map(self._row, self.writer.add(chunk, self.reader.first))
        if self.writer.resume_at is not None:
            self.reader.skip_to(self.writer.resume_at)
        if not self.reader.is_open:
            yield from self.close()

    def close(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """End the open object where reading has come to."""
        yield from map(self._row, self.writer.close(self.reader.position))

    def _row(self, entry: Entry) -> tuple[str, dict[str, Any]]:
        return "object", {"number": self.number, "entry": entry.to_json()}


def archive_bundle(bundle: Bundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read, store and report every range of the bundle.

    Yields ``("object", {"number", "entry"})`` for each object and ``("range", report)`` for each
    range; they hold only when the iterator ends without an error. Safe to run again: objects that
    are there are adopted.
    """
    failpoint("task.start")
    deadline = time.monotonic() + bundle.seconds
    store = open_store(bundle.archive, bundle.storage)
    wire = wire_for(bundle.kafka)
    with Uploads() as uploads:
        works: dict[int, _Work] = {}
        for item in bundle.ranges:
            reader = RangeReader(
                item.planned, item.begins_stretch, item.est_bytes, bundle.write.keeps_aborted
            )
            writer = RangeWriter(store, bundle.log_name, item.planned, bundle.write, uploads)
            works[id(reader)] = _Work(item.number, reader, writer, [])
        try:
            readers = [work.reader for work in works.values()]
            for reader, chunk in iter_chunks(wire, readers, deadline=deadline):
                yield from works[id(reader)].take(chunk)
            for work in works.values():
                yield from work.close()
                yield "range", _report(work.reader, work.number, work.gaps).to_json()
            uploads.wait()
        finally:
            for work in works.values():
                work.writer.abort()


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
