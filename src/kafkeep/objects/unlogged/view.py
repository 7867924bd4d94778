"""Present unlogged objects as a view of a log; list what they lack. Sends no request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kafkeep.archive.checkpoint import Checkpoint, LoadedLog
from kafkeep.archive.commit import BROKER_DEFAULT, Changes, Commit, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.archive.view import ArchiveView
from kafkeep.objects.sink.read_windows import entries_by_partition, first_offset, iter_windows
from kafkeep.objects.unlogged.entries import GroupedFiles, group
from kafkeep.objects.unlogged.scan import ScanIndex
from kafkeep.options.sink.converters import ConverterClass, ConverterOptions
from kafkeep.options.sink.formats import FormatKind
from kafkeep.options.unlogged import UnloggedOptions

NAME = "confluent-objects"
"""The name of the log in the view."""


@dataclass(frozen=True, slots=True)
class UnloggedView:
    """A view of unlogged objects, with the grouping and the index it was made from."""

    view: ArchiveView
    grouped: GroupedFiles
    index: ScanIndex


def unlogged_view(store: ObjectStore, index: ScanIndex, options: UnloggedOptions) -> UnloggedView:
    """Return a view of the objects in ``index``.

    The partition count of a topic is the larger one of the object names and ``index``.
    """
    grouped = group(index.objects, options)
    topics = tuple(_topics(grouped, index))
    changes = Changes(entries=tuple(grouped.entries), topics=topics)
    state = LogState(
        name=NAME,
        commit=index.number,
        topics={(info.topic, info.incarnation): info for info in topics},
        positions=_positions(grouped.entries),
    )
    commit = Commit(
        log=NAME, number=index.number, previous="", epoch=0, writer="", at_ms=0, changes=changes
    )
    base = Checkpoint(LogState(name=NAME))
    return UnloggedView(ArchiveView(store, LoadedLog(state, base, (commit,))), grouped, index)


def _topics(grouped: GroupedFiles, index: ScanIndex) -> list[TopicInfo]:
    counts: dict[str, int] = {}
    for one in index.objects:
        counts[one.name.topic] = max(counts.get(one.name.topic, 0), one.name.partition + 1)
    return [
        TopicInfo(
            topic=topic,
            incarnation=1,
            topic_id="",
            partitions=max(count, index.partitions.get(topic, 0)),
            replication_factor=BROKER_DEFAULT,
            configs={},
        )
        for topic, count in sorted(counts.items())
    ]


def _positions(entries: list[Entry]) -> dict[PartitionId, int]:
    found: dict[PartitionId, int] = {}
    for entry in entries:
        found[entry.partition_id] = max(found.get(entry.partition_id, 0), entry.range.end)
    return found


_NAMES = {"json": "JSON", "avro": "Avro", "parquet": "Parquet", "bytes": "bytes"}


def what_objects_lack(entries: Sequence[Entry], options: UnloggedOptions) -> tuple[str, ...]:
    """Return one sentence for each kind of information that the objects of a topic lack."""
    return (
        *_about_times(options),
        *_about_views(entries, options),
        *_about_tombstones(entries),
        *_about_offsets(entries),
        *_about_bytes(entries, options),
    )


def _about_times(options: UnloggedOptions) -> Iterator[str]:
    if options.time_field is None:
        yield (
            "timestamps are not in objects: restored records have none (where values have one, "
            "name it with timestamp.extractor=RecordField and timestamp.field)"
        )
    else:
        yield f"timestamps are those of the field {options.time_field}; without it there is none"


def _about_views(entries: Sequence[Entry], options: UnloggedOptions) -> Iterator[str]:
    values = sum(entry.records for entry in entries if entry.view == "value")
    made = any(spec.kind == "ValueToKey" for spec in options.transforms)
    for view in ("keys", "headers"):
        stored = sum(entry.records for entry in entries if entry.view == view)
        if stored < values and not (view == "keys" and made):
            some = f" for {values - stored:,} records" if stored else ""
            yield f"{view} were not stored{some}: restored records have none"
    if any(e.view in ("keys", "tombstones") and e.format == FormatKind.BYTES for e in entries):
        yield "no key and an empty one are alike in bytes objects: both are restored as empty"


def _about_tombstones(entries: Sequence[Entry]) -> Iterator[str]:
    if not any(entry.view == "tombstones" for entry in entries):
        yield (
            "there are no tombstones: a sink writes them only if it was configured to "
            "(behavior.on.null.values=write)"
        )


def _about_offsets(entries: Sequence[Entry]) -> Iterator[str]:
    lost = mixed = 0
    for mine in entries_by_partition(entries).values():
        for window in iter_windows(mine):
            mains = [entry for entry in window.entries if entry.own_records]
            vague = sum(e.records for e in mains if first_offset(e) is None)
            lost += vague
            mixed += vague if len(mains) > 1 else 0
    if lost:
        yield (
            f"offsets of {lost:,} records are unknown: names say where objects begin, not "
            "which offsets have no record"
        )
    if mixed:
        yield (
            f"the order of {mixed:,} records is known only within each directory: "
            "directories are restored one after another, for each range of offsets"
        )


def _about_bytes(entries: Sequence[Entry], options: UnloggedOptions) -> Iterator[str]:
    roles = {"value": "value", "keys": "key", "tombstones": "key"}
    seen = sorted({(roles[e.view], e.format) for e in entries if e.view in roles})
    for role, kind in seen:
        converter = options.converters.get(role)
        if converter is None and kind != FormatKind.BYTES:
            what = "their JSON texts" if kind == FormatKind.JSON else "text, bytes or JSON"
            yield (
                f"{role}s in {_NAMES[kind]} objects are restored as {what}: how they were encoded "
                f"is unknown (set {role}.converter)"
            )
        elif kind == FormatKind.JSON and _wants_schemas(converter):
            yield f"schemas of {role}s are not in JSON objects: restored ones have none"
    if any(e.view == "headers" for e in entries) and "header" not in options.converters:
        yield "header values are restored as the texts in the objects"


def _wants_schemas(converter: ConverterOptions | None) -> bool:
    if converter is None or converter.kind is not ConverterClass.JSON:
        return False
    return converter.output.get("schemas.enable", "true").lower() == "true"
