"""The function of a Spark task: archive a bundle of ranges, return entries and reports."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.backup.fetch import REQUEST_BYTES, RangeFetch, iter_chunks
from kafkeep.failpoint import failpoint
from kafkeep.kafka.client.wire import Wire, wire_for
from kafkeep.objects.range_writer import Chunk, RangeWriter, Uploads
from kafkeep.objects.segment.writer import NameTakenError, SegmentIntent, SegmentWriter
from kafkeep.objects.sink.spec import SinkIntent
from kafkeep.options.backup import MIB
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.pace import Pace
from kafkeep.store.open import open_store

GROUP_BYTES = 256 * MIB
LEAST_IN_GROUP = 3
"""Ranges that stream are read in groups. A group of fewer keeps too few requests in flight."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BundledRange:
    """A range of a bundle. ``number`` is its index in the intent."""

    number: int
    planned: PlannedRange
    begins_stretch: bool
    est_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupBundle:
    """Everything one task needs. Spark pickles it and sends it to an executor."""

    ranges: tuple[BundledRange, ...]
    kafka: KafkaOptions
    archive: str
    storage: StorageOptions
    log_name: str
    connector: str
    """The connector name in the headers of dead letters."""
    write: SegmentIntent | SinkIntent
    seconds: float
    """Begin no range after this long, and stop reading after half as long again. In between, open
    segments are filled."""
    at_ms: int = 0
    """The clock reading of the intent."""
    rate_bytes: float | None = None
    """Read at most this many bytes per second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReport:
    """The offsets of one range that were archived: ``[first, next)``, except its gaps."""

    number: int
    first: int
    next: int
    finished: bool
    gone: bool
    gaps: tuple[OffsetRange, ...]
    leader_epoch: int = -1
    """The epoch of a batch at ``next`` or after it; -1 if unknown."""
    tail: Mapping[str, Any] | None = None
    """For a sink: records that were read and stay in Kafka."""
    bad: int = 0
    """Records skipped, as errors.tolerance allows."""
    complaints: tuple[str, ...] = ()
    """Reasons why the first of them were skipped."""

    @property
    def has_read(self) -> bool:
        """True if anything was read. The deadline may pass before the first batch arrives."""
        return self.finished or self.next > self.first or bool(self.gaps)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "first": self.first,
            "next": self.next,
            "finished": self.finished,
            "gone": self.gone,
            "gaps": [[g.start, g.end] for g in self.gaps],
            "leader_epoch": self.leader_epoch,
            "tail": self.tail,
            "bad": self.bad,
            "complaints": list(self.complaints),
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RangeReport:
        gaps = tuple(OffsetRange(*pair) for pair in row["gaps"])
        return cls(**{**row, "gaps": gaps, "complaints": tuple(row["complaints"])})


@dataclass(frozen=True, slots=True)
class Deadlines:
    """When no further segment is begun, and when open ones are closed; monotonic."""

    first: float
    last: float

    @classmethod
    def after(cls, seconds: float) -> Deadlines:
        """Return those of a cycle that begins now."""
        now = time.monotonic()
        return cls(now + seconds, now + seconds * 1.5)

    def has_passed(self) -> bool:
        """Return True if no further segment may be begun."""
        return time.monotonic() > self.first


@dataclass(slots=True)
class _RangeWork:
    """The reader, the writer and the gaps of one range."""

    number: int
    reader: RangeFetch
    writer: RangeWriter
    gaps: list[OffsetRange] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._decide_about_deadline()

    def add(self, chunk: Chunk, deadlines: Deadlines) -> None:
        """Write a chunk; move the reader if the writer took less or adopted an object."""
        self.writer.ends_when_full = deadlines.has_passed()
        if chunk.gap is not None:
            self.gaps.append(chunk.gap)
        self.writer.add(chunk, self.reader.first)
        if self.writer.resume_at is not None:
            self.reader.skip_to(self.writer.resume_at)
        self._decide_about_deadline()

    def _decide_about_deadline(self) -> None:
        # If a sink stops before its first window is closed, its work is lost.
        self.reader.ignores_deadline = not self.writer.streams and not self.writer.closed

    def must_end(self, deadlines: Deadlines) -> bool:
        """Return True if the range gets no further chunk, so that its open object can be closed."""
        if not self.reader.is_open:
            return True
        if not self.writer.streams or not deadlines.has_passed():
            return False
        return not self.writer.is_filling or time.monotonic() > deadlines.last

    def end(self) -> None:
        """End the open objects where reading stopped; nothing more is read."""
        self.writer.end(self.reader.position, finished=self.reader.finished)
        self.reader.ended = True

    def report(self) -> RangeReport:
        """Report how far the range is archived."""
        written = self.writer.report(self.reader.position)
        return RangeReport(
            number=self.number,
            first=self.reader.first,
            next=written.archived_to,
            finished=self.reader.finished,
            gone=self.reader.gone,
            gaps=tuple(self.gaps),
            leader_epoch=self.reader.leader_epoch,
            tail=None if written.tail is None else written.tail.to_json(),
            bad=written.bad,
            complaints=written.complaints,
        )


def archive_bundle(bundle: BackupBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read, store and report every range of the bundle.

    Yields ``("object", {"number", "entry"})`` for each object and ``("range", report)`` for each
    range; they are valid if the iterator ends without an error. Safe to repeat: existing objects
    are adopted.
    """
    failpoint("task.start")
    try:
        rows = list(_archive(bundle, checks_names=False))
    except NameTakenError as taken:
        log.info("%s: checking each name before writing from now on", taken.message)
    else:
        yield from rows
        return
    # Outside of the except block, so that the first attempt's memory is freed before the second.
    yield from list(_archive(bundle, checks_names=True))


def _archive(bundle: BackupBundle, *, checks_names: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    deadlines = Deadlines.after(bundle.seconds)
    store = open_store(bundle.archive, bundle.storage)
    wire = wire_for(bundle.kafka)
    pace = Pace(bundle.rate_bytes)
    with Uploads() as uploads:
        works = _open_works(
            bundle, _opener(bundle, store, uploads, wire, checks_names=checks_names)
        )
        try:
            for group in _iter_groups(list(works.values())):
                if deadlines.has_passed() and any(w.writer.closed for w in works.values()):
                    break  # ranges that were not started stay in the intent
                readers = [work.reader for work in group]
                streams = any(work.writer.streams for work in group)
                deadline = deadlines.last if streams else deadlines.first
                for reader, chunk in iter_chunks(wire, readers, deadline=deadline, pace=pace):
                    work = works[id(reader)]
                    work.add(chunk, deadlines)
                    if work.must_end(deadlines):
                        work.end()
                for work in group:
                    if work.reader.is_open:
                        work.end()
            uploads.wait()
            for work in works.values():
                for entry in work.writer.finish():
                    yield "object", {"number": work.number, "entry": entry.to_json()}
                yield "range", work.report().to_json()
        finally:
            for work in works.values():
                work.writer.abort()


def _iter_groups(works: list[_RangeWork]) -> Iterator[list[_RangeWork]]:
    """Yield the ranges that are read in parallel.

    Ranges that stream are read in groups of a few segments, or of many small ranges: few objects
    are then open when the time is over. Otherwise small ranges are grouped and large ones are read
    alone, so that one group is stored while the next is read.
    """
    streams = all(work.writer.streams for work in works)
    most, least = (GROUP_BYTES, LEAST_IN_GROUP) if streams else (REQUEST_BYTES, 1)
    group: list[_RangeWork] = []
    size = 0
    for work in works:
        size += work.reader.est_bytes
        if len(group) >= least and size > most:
            yield group
            group, size = [], work.reader.est_bytes
        group.append(work)
    yield group


def _open_works(
    bundle: BackupBundle, open_writer: Callable[[PlannedRange], RangeWriter]
) -> dict[int, _RangeWork]:
    works: dict[int, _RangeWork] = {}
    for item in bundle.ranges:
        reader = RangeFetch(
            item.planned, item.begins_stretch, item.est_bytes, bundle.write.keeps_aborted
        )
        works[id(reader)] = _RangeWork(item.number, reader, open_writer(item.planned))
    return works


def _opener(
    bundle: BackupBundle, store: ObjectStore, uploads: Uploads, wire: Wire, *, checks_names: bool
) -> Callable[[PlannedRange], RangeWriter]:
    """Return the function that opens the writer of a range."""
    write = bundle.write
    if isinstance(write, SegmentIntent):
        return lambda planned: SegmentWriter(
            store, bundle.log_name, planned, write, uploads, checks_names=checks_names
        )
    # Formats and converters take a second to import; segments need none of them.
    from kafkeep.objects.sink.writer import SinkWriters  # noqa: PLC0415

    return SinkWriters(
        store,
        write,
        uploads,
        at_ms=bundle.at_ms,
        name=bundle.log_name,
        wire=wire,
        connector=bundle.connector,
    ).open
