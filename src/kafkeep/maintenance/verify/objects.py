"""Compare one data object with its entry: read it once, in order, a few MiB at a time.

Every row of a sink's object is read.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa

from kafkeep.archive.document import WHOLE_OBJECT_READS, RepeatedReads
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, KeyMissingError, PreflightError
from kafkeep.maintenance.verify.finding import Finding, FindingKind, Severity, damage
from kafkeep.objects.segment.reader import FrameContents, SegmentFrame, check_frame, plan_frames
from kafkeep.objects.sink.read_windows import ENVELOPE, SEGMENT, RowOffsets
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.records.arrow import view_numbers


def iter_count_findings(source: BinaryIO, log: str, entry: Entry) -> Iterator[Finding]:
    """Yield damage if the number of rows in an object differs from the log.

    Rows are counted, not decoded, so a forged count is found without ``--deep``.
    """
    from kafkeep.objects.formats.open import most_rows  # noqa: PLC0415 - as below

    try:
        found, is_exact = most_rows(source, NO_OPTIONS.format(entry))
    except DamagedError as error:
        text = f"unchanged since it was written, but not valid: {error.message}"
        yield damage(FindingKind.UNDECODABLE, log, entry, text, entry.range)
        return
    if found < entry.records or (is_exact and found != entry.records):
        most = "" if is_exact else "at most "
        text = f"{most}{found} rows, the log says {entry.records}"
        yield damage(FindingKind.MISCOUNTED, log, entry, text, entry.range)


def iter_row_findings(
    source: BinaryIO, log: str, entry: Entry, options: ReadOptions
) -> Iterator[Finding]:
    """Yield damage in the rows of an object whose bytes are unchanged.

    Rows are counted. JSON must be valid. Complete records must have the offsets and times of the
    log.
    """
    # Formats and converters take a while to import; segments need none of them.
    from kafkeep.objects.sink.read_rows import from_whole, iter_source  # noqa: PLC0415

    facts = _Facts(entry)
    try:
        for column in iter_source(source, entry, options):
            if entry.converter == ENVELOPE:
                facts.take(from_whole(column))
    except DamagedError as error:
        text = f"unchanged since it was written, but not valid: {error.message}"
        yield damage(FindingKind.UNDECODABLE, log, entry, text, entry.range)
        return
    except PreflightError as error:
        found = damage(
            FindingKind.UNDECODABLE, log, entry, error.message.removeprefix(f"{entry.key}: ")
        )
        yield replace(found, severity=Severity.WARNING)
        return
    if (problem := facts.problem) is not None:
        yield damage(FindingKind.MISCOUNTED, log, entry, problem, entry.range)


class _Facts:
    """Compares the offsets and times of complete records with the log."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry
        self._offsets = RowOffsets(entry)
        self._rows = 0
        self._low: int | None = None
        self._high: int | None = None
        self._wrong: str | None = None

    def take(self, records: pa.RecordBatch) -> None:
        offsets = view_numbers(records.column("offset"), np.int64)
        times = view_numbers(records.column("timestamp"), np.int64)
        expected = self._offsets.rows(self._rows, self._rows + len(offsets))
        if self._wrong is None and self._offsets.known and np.any(offsets != expected):
            row = int(np.flatnonzero(offsets != expected)[0])
            self._wrong = f"offset {offsets[row]} where the log has {expected[row]}"
        self._rows += len(offsets)
        low, high = int(times.min()), int(times.max())
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    @property
    def problem(self) -> str | None:
        """The first disagreement, or None."""
        logged = (self._entry.min_timestamp, self._entry.max_timestamp)
        if self._wrong is None and self._low is not None and (self._low, self._high) != logged:
            return f"record times are {self._low} to {self._high}, the log says otherwise"
        return self._wrong


READ_BYTES = 4 << 20
SPOOL_BYTES = 16 << 20
_ROWS = {
    "value": "records",
    "tombstones": "records without value",
    "keys": "keys",
    "headers": "records' headers",
}


@dataclass(frozen=True, slots=True)
class CheckedObject:
    """The result of checking one object."""

    read_bytes: int
    findings: tuple[Finding, ...] = ()
    reading: bytes | None = b""
    """The digest of the bytes that were read, to compare repeated reads; None if they are known to
    be as stored."""


@dataclass(slots=True)
class _Reading:
    """The state of reading one object."""

    digest: hashlib._Hash = field(default_factory=hashlib.sha256)
    read_bytes: int = 0
    facts: list[tuple[SegmentFrame, FrameContents]] = field(default_factory=list)
    broken: list[tuple[SegmentFrame, str]] = field(default_factory=list)
    spool: BinaryIO | None = None
    """Its bytes, if rows are to be read."""

    def add(self, data: bytes) -> None:
        """Take the next bytes of the object."""
        self.digest.update(data)
        self.read_bytes += len(data)
        if self.spool is not None:
            self.spool.write(data)


def check_object(
    store: ObjectStore,
    log: str,
    entry: Entry,
    size_bytes: int | None,
    *,
    deep: bool,
    options: ReadOptions = NO_OPTIONS,
) -> CheckedObject:
    """Read the whole object of ``entry`` and return its damage.

    ``size_bytes`` is its size in a listing; if None, the store is asked. Frames of a segment are
    checked one by one, so that only the offsets of damaged frames count as lost. For other formats
    the SHA-256 is checked and rows are counted; with ``deep`` every row is decoded. A damaged
    object is read again, and the second result counts: a response may arrive damaged.
    """
    check = partial(_check, store, log, entry, size_bytes, deep=deep, options=options)
    readings = RepeatedReads(entry.key, WHOLE_OBJECT_READS)
    while True:
        checked = check()
        if (
            not checked.findings
            or checked.reading is None
            or readings.is_conclusive(checked.reading)
        ):
            return checked


def _check(
    store: ObjectStore,
    log: str,
    entry: Entry,
    size_bytes: int | None,
    *,
    deep: bool,
    options: ReadOptions,
) -> CheckedObject:
    reads_rows = entry.format != SEGMENT
    with tempfile.SpooledTemporaryFile(SPOOL_BYTES) if reads_rows else nullcontext() as spool:
        try:
            size = store.head(entry.key).size_bytes if size_bytes is None else size_bytes
            reading = _read(store, entry, size, deep=deep, spool=cast("BinaryIO | None", spool))
        except KeyMissingError:
            text = f"missing: it held {entry.records} {_ROWS[entry.view]}"
            return CheckedObject(
                0, (damage(FindingKind.MISSING, log, entry, text, held(entry)),), None
            )
        findings = list(_iter_findings(log, entry, size, reading))
        if reading.spool is not None and not findings:
            reading.spool.seek(0)
            if deep:
                findings.extend(iter_row_findings(reading.spool, log, entry, options))
            else:
                findings.extend(iter_count_findings(reading.spool, log, entry))
    is_settled = reading.broken or reading.digest.hexdigest() == entry.sha256
    told_apart = None if is_settled else reading.digest.digest()
    return CheckedObject(reading.read_bytes, tuple(findings), told_apart)


def held(entry: Entry) -> OffsetRange:
    """Return the range of offsets of its records."""
    if not entry.runs:
        return entry.range
    edges = entry.runs.edges()
    return OffsetRange(int(edges[0, 0]), int(edges[-1, 1]))


def _read(
    store: ObjectStore, entry: Entry, size: int, *, deep: bool, spool: BinaryIO | None = None
) -> _Reading:
    reading = _Reading(spool=spool)
    frames = (plan_frames(entry) or []) if entry.format == "segment" else []
    whole = [frame for frame in frames if frame.end <= size]
    cut = frames[len(whole) :]
    reading.broken.extend((frame, "cut off") for frame in cut)
    for stretch in _stretches(whole):
        data, checked = _read_stretch(store, entry, stretch, deep=deep)
        reading.add(data)
        for frame, facts in zip(stretch, checked, strict=True):
            if isinstance(facts, FrameContents):
                reading.facts.append((frame, facts))
            else:
                reading.broken.append((frame, facts))
    for start in range(reading.read_bytes, size, READ_BYTES):
        reading.add(store.get_range(entry.key, start, min(start + READ_BYTES, size)))
    reading.broken.sort(key=lambda broken: broken[0].number)
    return reading


def _read_stretch(
    store: ObjectStore, entry: Entry, stretch: Sequence[SegmentFrame], *, deep: bool
) -> tuple[bytes, list[FrameContents | str]]:
    """Return the bytes of some frames, and for each its facts or why it is damaged."""
    start, end = stretch[0].start, stretch[-1].end
    readings = RepeatedReads(f"{entry.key} from byte {start} on")
    while True:
        data = store.get_range(entry.key, start, end)
        checked = [_check_frame(memoryview(data), start, one, entry, deep) for one in stretch]
        if all(isinstance(facts, FrameContents) for facts in checked) or readings.is_conclusive(
            data
        ):
            return data, checked


def _check_frame(
    data: memoryview, start: int, frame: SegmentFrame, entry: Entry, deep: bool
) -> FrameContents | str:
    try:
        return check_frame(data[frame.start - start : frame.end - start], frame, entry, deep=deep)
    except DamagedError as error:
        return error.message


def _stretches(frames: Sequence[SegmentFrame]) -> Iterator[list[SegmentFrame]]:
    """Group neighbouring frames into reads of about ``READ_BYTES``."""
    stretch: list[SegmentFrame] = []
    for frame in frames:
        if stretch and frame.end - stretch[0].start > READ_BYTES:
            yield stretch
            stretch = []
        stretch.append(frame)
    if stretch:
        yield stretch


def _iter_findings(log: str, entry: Entry, size: int, reading: _Reading) -> Iterator[Finding]:
    same = reading.digest.hexdigest() == entry.sha256
    if size < entry.size_bytes:
        kind = FindingKind.TRUNCATED
        said = f"only {size} of {entry.size_bytes} bytes remain"
    elif not same:
        kind = FindingKind.ALTERED
        longer = f", {size} bytes instead of {entry.size_bytes}" if size != entry.size_bytes else ""
        said = f"its SHA-256 differs from the log{longer}"
    else:
        kind, said = FindingKind.UNDECODABLE, "unchanged since it was written, but not valid"
    for lost, cause in _merge(reading.broken):
        yield damage(kind, log, entry, f"{said}: {cause}", lost)
    if not same and not reading.broken:
        # Every batch is valid, so the changed record cannot be identified.
        yield damage(kind, log, entry, said, held(entry))
    if same:
        yield from _iter_miscounts(log, entry, reading)


def _merge(broken: Sequence[tuple[SegmentFrame, str]]) -> Iterator[tuple[OffsetRange, str]]:
    """Join the losses of neighbouring frames; the first cause is reported for all."""
    joined: tuple[OffsetRange, str, int] | None = None
    for frame, cause in broken:
        if joined and frame.number == joined[2] + 1:
            whole = OffsetRange(joined[0].start, frame.offsets.end)
            joined = (whole, joined[1], frame.number)
            continue
        if joined:
            yield joined[0], joined[1]
        joined = (frame.offsets, cause, frame.number)
    if joined:
        yield joined[0], joined[1]


def _iter_miscounts(log: str, entry: Entry, reading: _Reading) -> Iterator[Finding]:
    if entry.format != "segment" or reading.broken:
        return
    if not reading.facts:
        yield damage(FindingKind.MISCOUNTED, log, entry, "its index is invalid", entry.range)
        return
    before = 0
    for frame, facts in reading.facts:
        problem = facts.problem
        if problem is None and frame.point.records != before:
            problem = f"{before} records come before it, the index says {frame.point.records}"
        if problem is not None:
            text = f"frame at byte {frame.start}: {problem}"
            yield damage(FindingKind.MISCOUNTED, log, entry, text, frame.offsets)
        before += facts.records
    wanted = sum(facts.wanted for _, facts in reading.facts)
    raw = sum(facts.raw_bytes for _, facts in reading.facts)
    if wanted != entry.records:
        text = f"{wanted} records, the log says {entry.records}"
        yield damage(FindingKind.MISCOUNTED, log, entry, text, entry.range)
    if raw != entry.raw_bytes:
        text = f"{raw} bytes of batches, the log says {entry.raw_bytes}"
        yield damage(FindingKind.MISCOUNTED, log, entry, text)
