"""Verify, print, list and measure a bucket that has no log.

Topics and partitions follow from the names of objects, without reading them. ``verify`` reads every
object: without a log there are no digests, so it cannot detect an object that is missing or was
replaced by another readable one. ``cat`` reads objects twice, once to count and once to
print, because an object's end follows from its rows and the start of the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, NoSuchArchiveError, UsageError
from kafkeep.maintenance.inspect.cat import (
    CatOptions,
    Planned,
    ToLine,
    iter_line_groups,
    limited,
    plan_windows,
)
from kafkeep.maintenance.inspect.inventory import TopicUsage, Usage
from kafkeep.maintenance.verify.finding import Finding, FindingKind, Severity, VerifyReport
from kafkeep.maintenance.verify.verify import DEFAULT_WORKERS, OnProgress, in_order
from kafkeep.objects.sink.read_windows import LAST, entries_by_partition, iter_windows
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.objects.unlogged.entries import GroupedFiles, expects, group
from kafkeep.objects.unlogged.listing import ListedFile, Listing
from kafkeep.objects.unlogged.scan import ScanIndex, ScannedObject, list_objects, scan
from kafkeep.objects.unlogged.view import unlogged_view
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.unlogged import UnloggedOptions

FIRST_FILES = 4
GROWTH = 4


def iter_unlogged_lines(
    store: ObjectStore, unlogged: UnloggedOptions, options: CatOptions, to_line: ToLine
) -> Iterator[bytes]:
    """Yield the selected records as text, several at a time, by topic, partition and offset.

    A record whose offset is unknown gets the offset -1 and is selected with the offsets of its
    object. Unreadable objects are skipped; at the end, DamagedError names one.
    """
    _refuse(options, unlogged)
    yield from limited(_iter_all(store, unlogged, options, to_line), options.count)


def _refuse(options: CatOptions, unlogged: UnloggedOptions) -> None:
    for flag, given in (
        ("--incarnation", options.incarnation is not None),
        ("--aborted", options.aborted),
    ):
        if given:
            raise UsageError(f"{flag} needs a log, and there is none")
    timed = options.from_ms is not None or options.until_ms is not None
    if timed and unlogged.time_field is None:
        raise UsageError(
            "--from and --until need record times, which these objects do not hold",
            hint="If values have a time field, name it: --set timestamp.extractor=RecordField "
            "--set timestamp.field=…",
        )


def _iter_all(
    store: ObjectStore, unlogged: UnloggedOptions, options: CatOptions, to_line: ToLine
) -> Iterator[list[bytes]]:
    read_options = ReadOptions(unlogged=unlogged).read_only()
    problems: list[tuple[str, str]] = []
    for topic in sort_by_topic(list_objects(store, unlogged), options.topics):
        for partition in topic.partitions:
            if options.partitions and partition.partition not in options.partitions:
                continue
            for planned in _iter_planned(store, partition, unlogged, options, problems):
                yield from iter_line_groups(store, planned, read_options, options, to_line)
    for key, why in problems[:1]:
        more = f"; {len(problems) - 1:,} more cannot be read" if len(problems) > 1 else ""
        raise DamagedError(f"{key}: {why}{more}", hint="Run kafkeep verify to list all of them.")


def _iter_planned(
    store: ObjectStore,
    partition: NamedPartition,
    unlogged: UnloggedOptions,
    options: CatOptions,
    problems: list[tuple[str, str]],
) -> Iterator[list[Planned]]:
    """Yield windows in order; the last of a stretch waits for the next one, which ends it."""
    needed = expects((one.name for one in partition.objects), unlogged)
    beside = {f"store.kafka.{view}": str(there).lower() for view, there in needed.items()}
    pinned = replace(unlogged, texts={**unlogged.texts, **beside})
    carried: list[ScannedObject] = []
    for stretch, is_last in _iter_stretches(partition, options):
        scanned = [*carried, *scan(store, stretch, unlogged)]
        found = unlogged_view(store, ScanIndex(0, tuple(scanned)), pinned)
        problems.extend(found.grouped.problems)
        entries = found.grouped.entries
        open_from = LAST if is_last else max((e.range.start for e in entries), default=LAST)
        left = {entry.key for entry in entries if entry.range.start == open_from}
        carried = [one for one in scanned if one.name.key in left]
        planned = plan_windows(found.view, replace(options, topics=()))
        yield [(window, wanted) for window, wanted in planned if window.range.start != open_from]


def _iter_stretches(
    partition: NamedPartition, options: CatOptions
) -> Iterator[tuple[list[ListedFile], bool]]:
    """Yield the needed objects in growing stretches, and whether a stretch is the last.

    All objects form one stretch if the end must be known first, or if they hold raw bytes, whose
    records can only be counted together.
    """
    start = options.start
    from_end = start.kind == "from-end"
    first = max(0, partition.last_start + 1 - start.value) if from_end else start.value
    files = [list(mine) for _, mine in groupby(_from(partition.objects, first), _start)]
    whole = from_end or any(one.name.format is FormatKind.BYTES for one in partition.objects)
    size, done = len(files) if whole else FIRST_FILES, 0
    while done < len(files):
        piece = files[done : done + size]
        done, size = done + size, size * GROWTH
        yield [one for file in piece for one in file], done >= len(files)


def _start(one: ListedFile) -> int:
    return one.name.start


def _from(objects: Sequence[ListedFile], first: int) -> list[ListedFile]:
    """Leave out objects before the last one in their folder that starts at or before ``first``."""
    before: dict[str, int] = {}
    for one in objects:
        if one.name.start <= first:
            folder = one.name.folder
            before[folder] = max(before.get(folder, 0), one.name.start)
    return [one for one in objects if one.name.start >= before.get(one.name.folder, 0)]


NOTE = (
    "there is no log: this follows from the names of objects; kafkeep verify reads them and counts "
    "their records"
)


@dataclass(frozen=True, slots=True)
class NamedPartition:
    """The objects of one partition."""

    partition: int
    objects: tuple[ListedFile, ...]

    @property
    def start(self) -> int:
        """The lowest offset in a name: that of the first record."""
        return min(one.name.start for one in self.objects)

    @property
    def last_start(self) -> int:
        """The highest offset in a name: the start of the last object; its end is in no name."""
        return max(one.name.start for one in self.objects)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the objects."""
        return sum(one.size_bytes for one in self.objects)

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "partition": self.partition,
            "start": self.start,
            "last_start": self.last_start,
            "objects": len(self.objects),
            "stored_bytes": self.stored_bytes,
        }


@dataclass(frozen=True, slots=True)
class NamedTopic:
    """The objects of one topic."""

    topic: str
    partitions: tuple[NamedPartition, ...]

    @property
    def objects(self) -> list[ListedFile]:
        return [one for partition in self.partitions for one in partition.objects]

    @property
    def stored_bytes(self) -> int:
        """Bytes of the objects."""
        return sum(partition.stored_bytes for partition in self.partitions)

    @property
    def formats(self) -> tuple[str, ...]:
        """The formats of values."""
        values = [one.name for one in self.objects if one.name.view == "value"]
        return tuple(sorted({name.format.value for name in values}))

    @property
    def beside(self) -> tuple[str, ...]:
        """The objects stored beside values: keys, headers, tombstones."""
        names = [one.name for one in self.objects]
        views = {name.view for name in names if not name.tombstones} - {"value"}
        return (*sorted(views), *(["tombstones"] if any(n.tombstones for n in names) else []))

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``info --output json``."""
        return {
            "topic": self.topic,
            "objects": len(self.objects),
            "stored_bytes": self.stored_bytes,
            "formats": list(self.formats),
            "beside": list(self.beside),
            "partitions": [partition.to_json() for partition in self.partitions],
        }


def sort_by_topic(listing: Listing, topics: Collection[str] | None = None) -> list[NamedTopic]:
    """Return all topics, or the selected ones; NoSuchArchiveError if one has no object."""
    there = listing.topics
    missing = sorted(set(topics or ()) - there)
    if missing:
        raise NoSuchArchiveError(
            f"there are no objects of topic {', '.join(missing)}",
            hint=f"There are objects of: {', '.join(sorted(there))}.",
        )
    wanted = [one for one in listing.objects if not topics or one.name.topic in topics]
    return [
        NamedTopic(topic, tuple(_partitions(mine)))
        for topic, mine in groupby(wanted, key=lambda one: one.name.topic)
    ]


def _partitions(objects: Iterable[ListedFile]) -> Iterable[NamedPartition]:
    for partition, mine in groupby(objects, key=lambda one: one.name.partition):
        yield NamedPartition(partition, tuple(mine))


def describe_object(one: ListedFile) -> dict[str, Any]:
    """Return the form printed by ``ls --output json``; fields that need a log are null."""
    name = one.name
    return {
        "log": None,
        "key": name.key,
        "topic": name.topic,
        "partition": name.partition,
        "start": name.start,
        "view": "tombstones" if name.tombstones else name.view,
        "format": name.format.value,
        "codec": name.compression.value,
        "size_bytes": one.size_bytes,
    }


def usage_of(archive: str, listing: Listing, topics: Sequence[NamedTopic]) -> Usage:
    """Return the space that objects use; objects whose names do not match are orphans."""
    return Usage(
        archive=archive,
        topics=tuple(
            TopicUsage(
                log="",
                folder=topic.topic,
                objects=len(topic.objects),
                records=None,
                raw_bytes=None,
                stored_bytes=topic.stored_bytes,
                formats=topic.formats,
            )
            for topic in topics
        ),
        log_objects=0,
        log_bytes=0,
        orphans=listing.odd_count,
        orphan_bytes=listing.odd_bytes,
    )


def verify_unlogged(
    store: ObjectStore,
    options: UnloggedOptions,
    *,
    deep: bool = False,
    topics: Collection[str] | None = None,
    workers: int = DEFAULT_WORKERS,
    on_progress: OnProgress | None = None,
) -> VerifyReport:
    """Read every row of every object; a row that is not valid in its format is damage.

    Without digests every row must be decoded anyway, so ``deep`` only appears in the report.
    """
    listing = list_objects(store, options)
    objects = [one for topic in sort_by_topic(listing, topics) for one in topic.objects]
    scanned = []
    for one in scan(store, objects, options, checks_rows=True, threads=workers):
        scanned.append(one)
        if on_progress is not None:
            on_progress(len(scanned), len(objects))
    grouped = group(scanned, options)
    findings = [
        _no_log(store),
        *_iter_problems(scanned, grouped),
        *_iter_repeats(grouped),
        *_iter_holes(grouped.entries),
        *(_iter_odd(listing) if topics is None else ()),
    ]
    return VerifyReport(
        archive=store.describe(),
        logs=(),
        deep=deep,
        commits=0,
        objects=len(scanned),
        records=sum(entry.own_records for entry in grouped.entries),
        read_bytes=sum(one.size_bytes for one in scanned),
        findings=in_order(findings),
    )


def _no_log(store: ObjectStore) -> Finding:
    text = (
        "there is no log, and so no digests: objects that are missing or were replaced by other "
        "readable ones cannot be detected"
    )
    return _finding(Severity.INFO, FindingKind.NO_LOG, store.describe(), text)


def _iter_problems(scanned: Sequence[ScannedObject], grouped: GroupedFiles) -> Iterator[Finding]:
    by_key = {one.name.key: one for one in scanned}
    for key, why in grouped.problems:
        one = by_key[key]
        # Bytes without separators were written that way: they are not damaged.
        vague = one.name.format is FormatKind.BYTES and not one.problem
        severity = Severity.WARNING if vague else Severity.DAMAGE
        kind = FindingKind.UNDECODABLE if one.problem or vague else FindingKind.MISCOUNTED
        pid = PartitionId(one.name.topic, 1, one.name.partition)
        yield _finding(severity, kind, key, why, pid)


def _iter_repeats(grouped: GroupedFiles) -> Iterator[Finding]:
    text = "it repeats records of the object before it: a restore writes them twice"
    for key in grouped.repeats:
        yield _finding(Severity.WARNING, FindingKind.OVERLAP, key, text)


def _iter_holes(entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield ranges with fewer records than offsets; the end of the last window is unknown."""
    for pid, mine in entries_by_partition(entries).items():
        windows = list(iter_windows(mine))
        for window in windows[:-1]:
            lacking = len(window.range) - window.records
            if lacking:
                yield _hole(pid, window.entries[0].key, window.range, lacking)


def _hole(pid: PartitionId, key: str, offsets: OffsetRange, lacking: int) -> Finding:
    where = f"offsets {offsets.start} to {offsets.end - 1}"
    text = f"{lacking} of the {where} held no record, or an object that held them is missing"
    return _finding(Severity.INFO, FindingKind.NO_OBJECT, key, text, pid)


def _iter_odd(listing: Listing) -> Iterator[Finding]:
    for key, why in listing.odd:
        yield _finding(Severity.INFO, FindingKind.ORPHAN, key, f"it was not read: it {why}")


def _finding(
    severity: Severity, kind: FindingKind, key: str, message: str, pid: PartitionId | None = None
) -> Finding:
    return Finding(severity=severity, kind=kind, log="", key=key, message=message, partition_id=pid)
