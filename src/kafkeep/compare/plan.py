"""Plan a comparison: which archived partitions are compared with which of the target. Pure.

The document of the restore that wrote a target states where its records start and how they were
changed. Objects that a retention rule has deleted are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.compare.differences import Leniency
from kafkeep.compare.digest import FIELDS
from kafkeep.compare.repartitioned import shares_for
from kafkeep.compare.work import ArchivePart, CompareWork, RecordSelection, TargetPart
from kafkeep.errors import NoSuchArchiveError, PreflightError, UsageError
from kafkeep.kafka.batch.schema_ids import IdMap
from kafkeep.objects.choose_log import choose_incarnation
from kafkeep.objects.sink.read_windows import (
    ENVELOPE,
    SEGMENT,
    entries_by_partition,
    iter_windows,
    with_companions,
)
from kafkeep.options.maintenance import CompareOptions
from kafkeep.options.option import did_you_mean
from kafkeep.options.record_changes import ChangeOptions


def archive_part(
    partition: int, entries: Sequence[Entry], selection: RecordSelection, expired: frozenset[str]
) -> ArchivePart:
    """Leave out expired objects, and note where their records were: the target may have them.

    The number of records before them is known only without a selection.
    """
    gone = with_companions(entries, expired & {entry.key for entry in entries})
    kept = tuple(entry for entry in entries if entry.key not in gone)
    places: dict[int | None, int] = {}
    before = 0
    for window in iter_windows(entries):
        lost = sum(entry.own_records for entry in window.entries if entry.key in gone)
        if lost:
            place = before if selection == RecordSelection() else None
            places[place] = places.get(place, 0) + lost
        before += window.records - lost
    return ArchivePart(partition, kept, selection, tuple(places.items()))


def expired_notes(entries: Sequence[Entry], expired: Mapping[str, str]) -> Iterator[str]:
    """State for each partition which offsets are no longer archived, and why."""
    gone = [entry for entry in entries if entry.key in expired]
    for partition_id, mine in sorted(entries_by_partition(gone).items()):
        start, end = min(e.range.start for e in mine), max(e.range.end for e in mine)
        yield (
            f"partition {partition_id.partition}: objects with offsets from {start} to {end - 1} "
            f"are gone and not compared: {expired[mine[0].key]}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredTopic:
    """The contents of a restore's document on one target topic; empty without one."""

    bases: Mapping[int, int] = field(default_factory=dict)
    """The first restored offset of each partition."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The selection and the routing of the restore: ``RestoreOptions.selection``."""
    ids: IdMap | None = None
    """The new schema ids of records; None if they kept theirs."""
    source: tuple[str, int] | None = None
    """The archived topic and its incarnation."""
    commit: tuple[str, int] | None = None
    """The log and the commit that were restored."""

    @property
    def spread(self) -> bool:
        """True if the restore changed the partitions of records."""
        return bool(self.asked.get("partition_map") or self.asked.get("partition_count"))

    def moved(self, partitions: Collection[int]) -> dict[int, int] | None:
        """Return the target of each partition; None if partitions were split or merged."""
        if not self.spread:
            return {number: number for number in partitions}
        chosen = {
            int(source): int(target) for source, target in self.asked.get("partition_map", ())
        }
        whole = len(set(chosen.values())) == len(chosen) and set(partitions) <= chosen.keys()
        return chosen if whole else None


NOT_RESTORED = RestoredTopic()


def as_restored(
    topics: Mapping[tuple[str, int], TopicInfo],
    newest: TopicInfo,
    restored: RestoredTopic,
    options: CompareOptions,
) -> TopicInfo:
    """Return the incarnation to compare with: the selected one, else the restored one."""
    selected = dict(options.incarnations)
    if newest.topic in selected or restored.source is None or restored.source[0] != newest.topic:
        return newest
    return topics.get(restored.source, newest)


def check_comparable(
    topic: str, restored: RestoredTopic, changes: ChangeOptions | None = None
) -> None:
    """Refuse a topic whose restore filtered its records, or transformed them in another way."""
    if restored.asked.get("filter"):
        raise PreflightError(
            f"topic {topic} was restored with --filter: filtered records cannot be distinguished "
            "from lost ones",
            hint="Leave it out with --topics.",
        )
    known = changes.to_json().get("transforms") if changes is not None else None
    if restored.asked.get("transforms") not in (None, known):
        raise PreflightError(
            f"topic {topic} was restored with transforms: its records are not the archived ones",
            hint="Leave it out with --topics.",
        )


def restore_notes(
    side: ArchiveSide, restored: RestoredTopic, options: CompareOptions
) -> Iterator[str]:
    """Yield notes on how the restore affects the comparison."""
    bases = {n: base for n, base in restored.bases.items() if base}
    if bases:
        yield "records before the restore began are not compared: " + ", ".join(
            f"partition {n} begins at {base}" for n, base in sorted(bases.items())
        )
    if restored.ids is not None:
        yield "its restore changed schema ids: records are compared with the new ids"
    source = side.info
    if restored.source == (source.topic, source.incarnation) and not side.is_newest:
        yield f"its restore used incarnation {source.incarnation}: compared with that incarnation"
    if restored.commit is not None and restored.commit != (side.log, side.commit):
        log, number = restored.commit
        yield f"its restore used commit {number} of {log}, this comparison uses {side.commit}"
    given = {
        "partitions": options.partitions,
        "offsets": options.offsets,
        "from": options.from_ms,
        "until": options.until_ms,
    }
    for name, value in given.items():
        if restored.asked.get(name) is not None and value in (None, ()):
            yield f"its restore used --{name}, this comparison does not"


def is_exact(restored: RestoredTopic, options: CompareOptions) -> bool:
    """Return whether the options or the document require original offsets."""
    return options.exact_offsets or bool(restored.asked.get("exact"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSide:
    """A topic of the archive at one commit."""

    info: TopicInfo
    entries: Sequence[Entry]
    expired: Mapping[str, str] = field(default_factory=dict)
    """Keys of objects that a retention rule has deleted, with the reason."""
    log: str
    commit: int
    is_newest: bool = True
    """True if the topic has no newer incarnation."""


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic of the target as it was when the comparison began."""

    name: str
    topic_id: str
    offsets: Mapping[int, OffsetRange]
    """The offsets of each partition."""
    compacts: bool = False
    restored: RestoredTopic = NOT_RESTORED
    """The contents of its restore's document."""


@dataclass(frozen=True, slots=True)
class TopicComparison:
    """How one topic is compared."""

    source: TopicInfo
    target: TargetTopic
    fields: tuple[str, ...]
    work: tuple[CompareWork, ...]
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Fields that are not compared because the objects do not hold them."""
        return tuple(name for name in FIELDS if name not in self.fields)

    @property
    def by_key(self) -> bool:
        """True if only the order within each key matters."""
        return any(work.share is not None for work in self.work)


def choose_topics(
    archived: Mapping[tuple[str, int], TopicInfo], options: CompareOptions
) -> list[tuple[TopicInfo, str]]:
    """Return the archived topics and their names in the target.

    Each topic in its newest incarnation, or the selected one.
    """
    selected = dict(options.incarnations)
    known = {name for name, _ in archived} | selected.keys()
    chosen = {
        name: choose_incarnation(archived, name, selected.get(name)) for name in sorted(known)
    }
    pairs = options.topics or [(name, name) for name in chosen]
    for source, _ in pairs:
        if source not in chosen:
            raise NoSuchArchiveError(
                f"topic {source} is not in the archive",
                hint=did_you_mean(source, chosen) or f"It holds: {', '.join(chosen)}.",
            )
    for pick in options.offsets:
        if pick.topic not in dict(pairs):
            raise UsageError(f"topic {pick.topic} is not among those to compare")
    return [(chosen[source], target) for source, target in pairs]


def plan_topic(
    side: ArchiveSide,
    target: TargetTopic,
    options: CompareOptions,
    changes: ChangeOptions | None = None,
) -> TopicComparison:
    """Plan one topic; raise PreflightError if its partitions differ without an explanation.

    Expired objects are left out with a note.
    """
    source, entries, expired = side.info, side.entries, side.expired
    check_comparable(target.name, target.restored, changes)
    fields = comparable(entries)
    by_partition: dict[int, tuple[Entry, ...]] = dict.fromkeys(range(source.partitions), ())
    for partition_id, mine in entries_by_partition(entries).items():
        by_partition[partition_id.partition] = tuple(sorted(mine, key=lambda e: e.range))
    wanted = _wanted(source.topic, sorted(by_partition), options)
    parts = [
        archive_part(n, by_partition[n], _selection(source.topic, n, options), frozenset(expired))
        for n in wanted
    ]
    notes = [
        f"its objects do not hold the {name}: not compared" for name in FIELDS if name not in fields
    ]
    notes.extend(expired_notes(entries, expired))
    if target.restored.asked.get("shift") and "timestamp" in fields:
        fields = tuple(name for name in fields if name != "timestamp")
        notes.append("its restore shifted timestamps: they are not compared")
    notes.extend(restore_notes(side, target.restored, options))
    moved = None if options.repartitioned else target.restored.moved(wanted)
    if moved is None:
        _check_by_key(target, options, expired)
        work = _plan_by_key(source, target, parts, fields)
        if "key" not in fields:
            notes.append("its objects do not hold keys: compared without regard to order")
    else:
        _check_partitions(source, target, sorted(by_partition))
        work = [
            _side_by_side(source, target, part, moved[part.partition], fields, options)
            for part in parts
        ]
    return TopicComparison(source, target, fields, tuple(work), tuple(notes))


def comparable(entries: Collection[Entry]) -> tuple[str, ...]:
    """Return the fields that the objects hold of all their records; see objects/choose_log.py."""
    parts = entries_by_partition(entry for entry in entries if entry.format != SEGMENT)
    objects = [e for mine in parts.values() for w in iter_windows(mine) for e in w.entries]
    mains = [e for e in objects if e.own_records and e.converter != ENVELOPE]
    lacking = set()
    if any(entry.min_timestamp != entry.max_timestamp for entry in mains):
        lacking.add("timestamp")
    values = sum(entry.records for entry in mains if entry.view == "value")
    if sum(e.records for e in objects if e.view == "keys") < values:
        lacking.add("key")
    if sum(e.records for e in objects if e.view == "headers") < sum(e.records for e in mains):
        lacking.add("headers")
    return tuple(name for name in FIELDS if name not in lacking)


def _wanted(topic: str, there: Sequence[int], options: CompareOptions) -> list[int]:
    for number in options.partitions:
        if number not in there:
            raise UsageError(f"topic {topic} has no partition {number} in the archive")
    return [n for n in there if not options.partitions or n in options.partitions]


def _selection(topic: str, partition: int, options: CompareOptions) -> RecordSelection:
    mine = [pick for pick in options.offsets if pick.topic == topic]
    ranges = tuple(p.range for p in mine if p.partition == partition) if mine else None
    return RecordSelection(ranges, options.from_ms, options.until_ms)


def _check_by_key(target: TargetTopic, options: CompareOptions, expired: Mapping[str, str]) -> None:
    """Refuse a comparison that is impossible with repartitioned records."""
    if options.exact_offsets:
        raise PreflightError(
            f"topic {target.name}: its restore repartitioned the records, so their offsets changed",
            hint="Leave out --exact-offsets.",
        )
    if expired:
        raise PreflightError(
            f"topic {target.name}: its records were repartitioned and objects of the archive have "
            "expired: the expired records cannot be identified",
            hint="Leave it out with --topics, or select a time that is still archived with --from.",
        )


def _check_partitions(source: TopicInfo, target: TargetTopic, there: Sequence[int]) -> None:
    if target.restored.spread or len(target.offsets) == len(there):
        return
    raise PreflightError(
        f"topic {target.name} has {len(target.offsets)} partitions, {source.topic} had "
        f"{len(there)} when it was archived",
        hint="If its records were repartitioned, add --repartitioned to compare them by key.",
    )


def _read_from(target: TargetTopic, partition: int) -> OffsetRange:
    """Return the offsets to read from a partition of the target."""
    held = target.offsets[partition]
    start = min(held.end, max(held.start, target.restored.bases.get(partition, 0)))
    return OffsetRange(start, held.end)


def _side_by_side(  # noqa: PLR0917
    source: TopicInfo,
    target: TargetTopic,
    part: ArchivePart,
    number: int,
    fields: tuple[str, ...],
    options: CompareOptions,
) -> CompareWork:
    """Compare an archived partition with partition ``number`` of the target."""
    offsets = _read_from(target, number)
    exact = is_exact(target.restored, options)
    return CompareWork(
        source=source.topic,
        target=target.name,
        topic_id=target.topic_id,
        archive=(part,),
        parts=(TargetPart(number, offsets),),
        fields=fields,
        ids=target.restored.ids,
        leniency=Leniency(
            compacts=target.compacts,
            starts_at=offsets.start if exact else 0,
            exact=exact,
            unheld=part.unheld,
        ),
    )


def _plan_by_key(
    source: TopicInfo,
    target: TargetTopic,
    parts: Sequence[ArchivePart],
    fields: tuple[str, ...],
) -> list[CompareWork]:
    theirs = tuple(TargetPart(n, _read_from(target, n)) for n in sorted(target.offsets))
    records = max(sum(p.records for p in parts), sum(len(p.offsets) for p in theirs))
    return [
        CompareWork(
            source=source.topic,
            target=target.name,
            topic_id=target.topic_id,
            archive=tuple(parts),
            parts=theirs,
            fields=fields,
            ids=target.restored.ids,
            leniency=Leniency(compacts=target.compacts),
            share=share,
        )
        for share in shares_for(records)
    ]
