"""The function a Spark task runs: a bundle of ranges in, entries and reports out."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.backup.fetch import REQUEST_BYTES, RangeReader, iter_chunks
from kafkeep.failpoint import failpoint
from kafkeep.kafka.client.wire import wire_for
from kafkeep.objects.range_writer import Chunk
from kafkeep.objects.segment.writer import NameTakenError, SegmentWriter, WriteOptions
from kafkeep.objects.sink.spec import SinkShape
from kafkeep.objects.sink.stored_object import Uploads
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

if TYPE_CHECKING:
    from kafkeep.objects.sink.writer import SinkWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BundledRange:
    """A range of a bundle; ``number`` is its place in the intent."""

    number: int
    planned: PlannedRange
    begins_stretch: bool
    est_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupBundle:
    """Everything one task needs; travels to the executor as it is."""

    ranges: tuple[BundledRange, ...]
    kafka: KafkaOptions
    archive: str
    storage: StorageOptions
    log_name: str
    connector: str
    """What people know the writer by: for dead letters."""
    write: WriteOptions | SinkShape
    seconds: float
    """Stop after about this long, at the end of what was read by then."""
    at_ms: int = 0
    """The clock reading of the intent."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Options of a sink that no intent may hold."""


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
    """Of a batch at the end or behind it; -1 when none is known."""
    tail: Mapping[str, Any] | None = None
    """Of a sink: what was read and is left in Kafka."""
    bad: int = 0
    """Records left out as errors.tolerance allows."""
    complaints: tuple[str, ...] = ()
    """What was wrong with the first of them."""

    @property
    def has_read(self) -> bool:
        """Whether it says anything: its time may be over before its first batch has come."""
        return self.finished or self.next > self.first or bool(self.gaps)

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
            "tail": self.tail,
            "bad": self.bad,
            "complaints": list(self.complaints),
        }

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> RangeReport:
        """Rebuild a report from a row."""
        gaps = tuple(OffsetRange(*pair) for pair in row["gaps"])
        return cls(**{**row, "gaps": gaps, "complaints": tuple(row["complaints"])})


@dataclass(slots=True)
class _Work:
    """One range at work: who reads it, who writes it, what was lost of it."""

    number: int
    reader: RangeReader
    writer: SegmentWriter | SinkWriter
    gaps: list[OffsetRange]

    def take(self, chunk: Chunk) -> Iterator[Entry]:
        """Store what was read; yield the entries of objects that are complete."""
        if chunk.gap is not None:
            self.gaps.append(chunk.gap)
        yield from self.writer.add(chunk, self.reader.first)
        if self.writer.resume_at is not None:
            self.reader.skip_to(self.writer.resume_at)
        self.reader.must_go_on = (
            not isinstance(self.writer, SegmentWriter) and not self.writer.closed
        )

    def is_cut_short(self, deadline: float) -> bool:
        """Whether its segment would wait, open and in memory, for an answer that nobody asks for.

        A sink's files end with their range.
        """
        return isinstance(self.writer, SegmentWriter) and time.monotonic() > deadline

    def end(self) -> Iterator[Entry]:
        """End the open objects where reading has come to."""
        yield from self.writer.end(self.reader.position, finished=self.reader.finished)

    def report(self) -> RangeReport:
        """Tell how far the range is archived."""
        report = RangeReport(
            number=self.number,
            first=self.reader.first,
            next=self.writer.reached(self.reader.position),
            finished=self.reader.finished,
            gone=self.reader.gone,
            gaps=tuple(self.gaps),
            leader_epoch=self.reader.leader_epoch,
        )
        if isinstance(self.writer, SegmentWriter):
            return report
        tail, letters = self.writer.tail, self.writer.letters
        source = self.reader.planned.partition_id
        return replace(
            report,
            tail=None if tail is None else tail.to_json(),
            bad=len(letters),
            complaints=tuple(
                letter.describe(source, details=self.writer.tells_details)
                for letter in letters.first
            ),
        )


def archive_bundle(bundle: BackupBundle) -> Iterator[tuple[str, dict[str, Any]]]:
    """Read, store and report every range of the bundle.

    Yields ``("object", {"number", "entry"})`` for each object and ``("range", report)`` for each
    range; they hold only when the iterator ends without an error. Safe to run again: objects that
    are there are adopted.
    """
    failpoint("task.start")
    try:
        rows = list(_archive(bundle, looks_first=False))
    except NameTakenError as taken:
        log.info("%s: looking at each name from here on", taken.message)
    else:
        yield from rows
        return
    # Not inside of except: what the first attempt held would be held beside the second.
    yield from list(_archive(bundle, looks_first=True))


def _archive(bundle: BackupBundle, *, looks_first: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    deadline = time.monotonic() + bundle.seconds
    store = open_store(bundle.archive, bundle.storage)
    wire = wire_for(bundle.kafka)
    with Uploads() as uploads:
        works = _works(bundle, _writers(bundle, store, uploads, looks_first=looks_first))
        try:
            for turn in _turns(list(works.values())):
                if time.monotonic() > deadline and _has_closed(works.values()):
                    break  # what was not begun stays intended
                readers = [work.reader for work in turn]
                for reader, chunk in iter_chunks(wire, readers, deadline=deadline):
                    work = works[id(reader)]
                    yield from _rows(work, work.take(chunk))
                    if not reader.is_open or work.is_cut_short(deadline):
                        yield from _rows(work, work.end())
                for work in turn:
                    if work.reader.is_open:
                        yield from _rows(work, work.end())
            uploads.wait()
            for work in works.values():
                yield from _rows(work, work.writer.done())
                if not isinstance(work.writer, SegmentWriter):
                    work.writer.send_dead_letters(wire, bundle.connector)
                yield "range", work.report().to_json()
        finally:
            for work in works.values():
                work.writer.abort()


def _turns(works: list[_Work]) -> Iterator[list[_Work]]:
    """Say which ranges are read side by side.

    Segments all are. A sink's files are held until their range ends: it reads one range after the
    other, small ones together, so that one is stored while the next is read.
    """
    if all(isinstance(work.writer, SegmentWriter) for work in works):
        yield works
        return
    turn: list[_Work] = []
    for work in works:
        if turn and sum(w.reader.est_bytes for w in (*turn, work)) > REQUEST_BYTES:
            yield turn
            turn = []
        turn.append(work)
    yield turn


def _has_closed(works: Iterable[_Work]) -> bool:
    """Whether a task of a sink has something to show already."""
    return any(not isinstance(w.writer, SegmentWriter) and w.writer.closed for w in works)


def _rows(work: _Work, entries: Iterator[Entry]) -> Iterator[tuple[str, dict[str, Any]]]:
    for entry in entries:
        yield "object", {"number": work.number, "entry": entry.to_json()}


def _works(
    bundle: BackupBundle, open_writer: Callable[[PlannedRange], SegmentWriter | SinkWriter]
) -> dict[int, _Work]:
    works: dict[int, _Work] = {}
    for item in bundle.ranges:
        reader = RangeReader(
            item.planned, item.begins_stretch, item.est_bytes, bundle.write.keeps_aborted
        )
        writer = open_writer(item.planned)
        reader.must_go_on = not isinstance(writer, SegmentWriter)
        works[id(reader)] = _Work(item.number, reader, writer, [])
    return works


def _writers(
    bundle: BackupBundle, store: ObjectStore, uploads: Uploads, *, looks_first: bool
) -> Callable[[PlannedRange], SegmentWriter | SinkWriter]:
    """Return what opens the writer of a range."""
    write = bundle.write
    if isinstance(write, WriteOptions):
        return lambda planned: SegmentWriter(
            store, bundle.log_name, planned, write, uploads, looks_first=looks_first
        )
    # Formats and converters take a second to import; segments need none of them.
    from kafkeep.objects.sink.writer import SinkWriters  # noqa: PLC0415

    opened = SinkWriters(
        store, write, uploads, secrets=bundle.secrets, at_ms=bundle.at_ms, name=bundle.log_name
    )
    return opened.open
