"""Write one planned range as segment objects, each created once. Runs in tasks.

A writer assumes that its names are free, which is nearly always true. The conditional PUT fails if
a name is taken. The caller then writes the range again with a writer that checks each name first.
That writer adopts an object that a failed attempt at the same plan left, and never touches any
other object.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import orjson
import zstandard

from kafkeep.archive.adoption import OwnObject, identify_object, object_metadata, plan_digest
from kafkeep.archive.commit import PlannedRange
from kafkeep.archive.document import RepeatedReads
from kafkeep.archive.entry import Entry, IndexPoint, OffsetRange
from kafkeep.archive.keys import data_key
from kafkeep.archive.object_store import ObjectInfo, ObjectStore, ObjectWriter
from kafkeep.errors import (
    DamagedError,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    TransientError,
)
from kafkeep.failpoint import failpoint
from kafkeep.kafka.batch.decode import decode
from kafkeep.kafka.batch.scan import Batches, check_crcs, min_timestamps, scan_batches
from kafkeep.objects.range_writer import MAX_NAMES, Chunk, Uploads, WriteReport
from kafkeep.objects.segment.format import SegmentEncoder, SegmentSummary
from kafkeep.options.backup import SEGMENT_SPARE

FEED_BYTES = 64 * 1024


def read_adopted(
    store: ObjectStore,
    key: str,
    planned: PlannedRange,
    start: int,
    aborted: tuple[OffsetRange, ...],
) -> Entry:
    """Build the entry of the object at ``key`` from its bytes, and check every CRC.

    The entry's range ends at the last batch. The caller reads from Kafka again from there.
    """
    readings = RepeatedReads(key)
    while True:
        data = store.get(key)
        try:
            return _describe(data, key, planned, start, aborted)
        except DamagedError:
            if readings.is_conclusive(data):
                raise


def _describe(
    data: bytes, key: str, planned: PlannedRange, start: int, aborted: tuple[OffsetRange, ...]
) -> Entry:
    index: list[IndexPoint] = []
    records = raw_bytes = outside = 0
    end = start
    for position, raw in _iter_frames(data, key):
        batches = scan_batches(raw)
        if batches.consumed != len(raw) or not len(batches):
            raise DamagedError(f"{key}: a frame does not hold whole record batches")
        check_crcs(batches)
        low, high = int(min_timestamps(batches).min()), int(batches.max_timestamps.max())
        index.append(IndexPoint(int(batches.base_offsets[0]), position, records, low, high))
        if not raw_bytes and int(batches.base_offsets[0]) < start:
            first = batches.select(slice(0, 1))
            outside = decode(first, range=OffsetRange(0, start)).num_rows
        records += int(batches.record_counts.sum())
        raw_bytes += len(raw)
        end = int(batches.last_offsets[-1]) + 1
    if not index:
        raise DamagedError(f"{key}: the object is empty")
    return Entry(
        key=key,
        partition_id=planned.partition_id,
        topic_id=planned.topic_id,
        range=OffsetRange(start, end),
        records=records - outside,
        min_timestamp=min(point.min_timestamp for point in index),
        max_timestamp=max(point.max_timestamp for point in index),
        size_bytes=len(data),
        raw_bytes=raw_bytes,
        format="segment",
        codec="zstd",
        sha256=hashlib.sha256(data).hexdigest(),
        index=tuple(index),
        aborted=aborted,
    )


def _iter_frames(data: bytes, key: str) -> Iterator[tuple[int, bytes]]:
    """Yield the position and the decompressed bytes of each zstd frame."""
    view, position = memoryview(data), 0
    while position < len(view):
        frame = zstandard.ZstdDecompressor().decompressobj()
        pieces, fed = [], position
        try:
            while not frame.eof and fed < len(view):
                pieces.append(frame.decompress(view[fed : fed + FEED_BYTES]))
                fed = min(fed + FEED_BYTES, len(view))
        except zstandard.ZstdError as error:
            raise DamagedError(f"{key}: not a zstd frame at byte {position}") from error
        if not frame.eof:
            raise DamagedError(f"{key}: cut short after byte {position}")
        yield position, b"".join(pieces)
        position = fed - len(frame.unused_data)


EXTENSION = ".log.zst"
ABORTED_KEY = "kafkeep-aborted"
MAX_ABORTED_METADATA = 1024
log = logging.getLogger(__name__)


class NameTakenError(TransientError):
    """The name of an object is taken. Its records must be read from Kafka again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentIntent:
    """The options that determine the bytes of segments. Part of the intent and the plan digest."""

    segment_bytes: int
    keeps_aborted: bool
    format: str = "segment"
    level: int = 1

    def to_json(self) -> dict[str, int | bool | str]:
        """Return the form that an intent stores."""
        return {
            "segment_bytes": self.segment_bytes,
            "keeps_aborted": self.keeps_aborted,
            "format": self.format,
            "level": self.level,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, object]) -> SegmentIntent:
        """Return the options that an intent stores."""
        return cls(**document)  # type: ignore[arg-type]


@dataclass(slots=True)
class _OpenObject:
    """An object being written."""

    key: str
    start: int
    writer: ObjectWriter
    segment: SegmentEncoder
    outside: int
    """The number of records in the first batch before ``start``."""
    end: int = 0
    """The offset after the last batch so far."""
    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    aborted: list[OffsetRange] = field(default_factory=list)


class SegmentWriter:
    """Writes one range as segment objects, each created once. Implements ``RangeWriter``.

    With ``checks_names``, it checks that each name is free before it writes. Otherwise it raises
    NameTakenError when an upload finds the name taken.
    """

    streams = True

    def __init__(
        self,
        store: ObjectStore,
        log_name: str,
        planned: PlannedRange,
        options: SegmentIntent,
        uploads: Uploads,
        *,
        checks_names: bool,
    ) -> None:
        self._store = store
        self._uploads = uploads
        self._checks_names = checks_names
        self._planned = planned
        self._options = options
        self._log_name = log_name
        self._plan = plan_digest(log_name, planned, options.to_json())
        self._object: _OpenObject | None = None
        self._start: int | None = None
        self._entries: list[Entry] = []
        self.resume_at: int | None = None
        self.ends_when_full = False

    @property
    def closed(self) -> int:
        """The number of objects closed or adopted so far."""
        return len(self._entries)

    @property
    def is_filling(self) -> bool:
        """True while an object is open."""
        return self._object is not None

    def add(self, chunk: Chunk, first: int) -> None:
        """Write a chunk, and close each object that is full.

        When it adopts an object, or closes one and ``ends_when_full`` is set, it drops the rest of
        the chunk and sets ``resume_at`` to the end of that object.
        """
        self.resume_at = None
        if self._start is None:
            self._start = first
        if chunk.gap is not None:
            self._close(chunk.gap.start)
            self._start = chunk.gap.end
        batches = chunk.batches
        while batches is not None and len(batches):
            if self._object is None:
                adopted = self._open(batches)
                if adopted is not None:
                    self._start = self.resume_at = adopted.range.end
                    self._entries.append(adopted)
                    return
            count, is_full = self._count_fitting(batches)
            now, batches = _cut(batches, count)
            self._write(now, chunk.aborted)
            if is_full:
                assert self._object is not None
                self._close(self._object.end)
                if self.ends_when_full:
                    self.resume_at = self._start
                    return

    def end(self, position: int, *, finished: bool) -> None:
        """Close the open object at ``position``, whether or not the range is finished."""
        self._close(position)

    def finish(self) -> list[Entry]:
        """Return the entries, in offset order, after the uploads have succeeded."""
        return self._entries

    def report(self, position: int) -> WriteReport:
        """Report that everything read is archived."""
        return WriteReport(archived_to=position)

    def abort(self) -> None:
        """Discard the open object, which never becomes visible."""
        if self._object is not None:
            self._object.writer.abort()
            self._object = None

    def _close(self, end: int) -> None:
        """End the open object, if there is one, at ``end`` (exclusive)."""
        if self._object is None:
            return
        current = self._object
        last, summary = current.segment.finish()
        if last:
            current.digest.update(last)
            current.writer.write(last)
        self._object = None  # only now: if the write fails, abort discards the object
        entry = self._entry(current, end, summary)
        finish = partial(_finish, current.writer, entry, self._final_metadata(entry))
        self._uploads.add(finish, size_bytes=entry.size_bytes)
        self._start = end
        self._entries.append(entry)

    def _open(self, batches: Batches) -> Entry | None:
        """Begin an object, or return the entry of an adopted one."""
        assert self._start is not None
        mine = self._metadata(self._start)
        for extra in range(MAX_NAMES):
            key = data_key(self._planned.folder_id, self._start, EXTENSION, pad=10 + extra)
            there = self._find(key)
            if there is None:
                break
            if isinstance(identify_object(there.metadata, mine), OwnObject) and self._can_adopt(
                there.metadata
            ):
                failpoint("object.adopted")
                return read_adopted(
                    self._store, key, self._planned, self._start, _aborted_of(there.metadata)
                )
            log.warning("%s is not ours: writing beside it", key)
        else:
            raise KafkeepError(f"{key}: {MAX_NAMES} names for it are taken")
        first = batches.select(slice(0, 1))
        begins_inside = int(first.base_offsets[0]) < self._start
        outside = decode(first, range=OffsetRange(0, self._start)).num_rows if begins_inside else 0
        self._object = _OpenObject(
            key=key,
            start=self._start,
            writer=self._store.create(key, mine),
            segment=SegmentEncoder(level=self._options.level),
            outside=outside,
        )
        return None

    def _find(self, key: str) -> ObjectInfo | None:
        """Return the object at ``key``, or None when it does not exist or names are unchecked."""
        try:
            return self._store.head(key) if self._checks_names else None
        except KeyMissingError:
            return None

    def _write(self, now: Batches, aborted: tuple[OffsetRange, ...]) -> None:
        """Add batches to the open object."""
        current = self._object
        assert current is not None
        for frame in current.segment.add(now, min_timestamps(now)):
            current.digest.update(frame)
            current.writer.write(frame)
        covered = OffsetRange(int(now.base_offsets[0]), int(now.last_offsets[-1]) + 1)
        current.end = covered.end
        current.aborted.extend(r for a in aborted if (r := a.overlap(covered)) is not None)

    def _count_fitting(self, batches: Batches) -> tuple[int, bool]:
        """Return how many batches belong to the open object, and whether they fill it.

        It takes up to a quarter more if the rest of the range is less than that. So where it ends
        follows from offsets and sizes alone, whatever part of them an answer brings.
        """
        current, limit = self._object, self._options.segment_bytes
        assert current is not None
        before, count = current.segment.raw_bytes, len(batches)
        ends = np.cumsum(batches.sizes) + before
        if before < limit:
            count = int(np.searchsorted(ends, limit, side="left")) + 1
            if count > len(batches):
                return len(batches), False
            full_at = int(batches.last_offsets[count - 1]) + 1
            if (self._planned.range.end - full_at) * SEGMENT_SPARE > full_at - current.start:
                return count, True
        count = int(np.searchsorted(ends, limit + limit // SEGMENT_SPARE, side="left")) + 1
        return min(count, len(batches)), count <= len(batches)

    def _entry(self, current: _OpenObject, end: int, summary: SegmentSummary) -> Entry:
        return Entry(
            key=current.key,
            partition_id=self._planned.partition_id,
            topic_id=self._planned.topic_id,
            range=OffsetRange(current.start, end),
            records=summary.records - current.outside,
            min_timestamp=summary.min_timestamp,
            max_timestamp=summary.max_timestamp,
            size_bytes=summary.size_bytes,
            raw_bytes=summary.raw_bytes,
            format=self._options.format,
            codec="zstd",
            sha256=current.digest.hexdigest(),
            index=summary.index,
            aborted=tuple(current.aborted),
        )

    def _metadata(self, start: int) -> dict[str, str]:
        return object_metadata(
            writer=self._log_name, planned=self._planned, start=start, plan=self._plan
        )

    def _final_metadata(self, entry: Entry) -> dict[str, str]:
        metadata = {"kafkeep-end": str(entry.range.end), "kafkeep-sha256": entry.sha256}
        aborted = orjson.dumps([[r.start, r.end] for r in entry.aborted]).decode()
        if self._options.keeps_aborted and len(aborted) <= MAX_ABORTED_METADATA:
            metadata[ABORTED_KEY] = aborted
        return metadata

    def _can_adopt(self, metadata: Mapping[str, str]) -> bool:
        """Return whether the metadata lists aborted batches, if the options keep them."""
        return not self._options.keeps_aborted or ABORTED_KEY in metadata


def _cut(batches: Batches, count: int) -> tuple[Batches, Batches | None]:
    if count == len(batches):
        return batches, None
    return batches.select(slice(0, count)), batches.select(slice(count, None))


def _finish(writer: ObjectWriter, entry: Entry, metadata: Mapping[str, str]) -> None:
    failpoint("object.before")
    try:
        writer.finish(metadata)
    except KeyExistsError as error:
        raise NameTakenError(f"{entry.key} is there already") from error
    finally:
        writer.abort()
    failpoint("object.after")


def _aborted_of(metadata: Mapping[str, str]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange(*pair) for pair in orjson.loads(metadata.get(ABORTED_KEY, "[]")))
