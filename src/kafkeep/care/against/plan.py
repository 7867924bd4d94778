"""What is held against what: archived partitions and those of the target. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.reader import ArchiveView
from kafkeep.care.against.digest import FIELDS
from kafkeep.care.against.expired import FindExpired, about_expired, held_part
from kafkeep.care.against.judge import Leniency
from kafkeep.care.against.keys import shares_for
from kafkeep.care.against.work import ArchivePart, Selection, TargetPart, Work
from kafkeep.config.against import AgainstOptions
from kafkeep.config.choose import did_you_mean
from kafkeep.contents.windows import ENVELOPE, SEGMENT, entries_by_partition, iter_windows
from kafkeep.errors import PreflightError, UsageError
from kafkeep.kafka.schema_ids import IdMap


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic of the target as it was when the comparison began."""

    name: str
    topic_id: str
    offsets: Mapping[int, OffsetRange]
    """What each partition holds."""
    compacts: bool = False
    bases: Mapping[int, int] = field(default_factory=dict)
    """Where a restore began to write, by its document; empty when there is none."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    """What that restore was asked for: ``RestoreOptions.selection``."""
    ids: IdMap | None = None
    """Which schema ids that restore gave to records; None: they kept theirs."""


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """How one topic is compared."""

    source: TopicInfo
    target: TargetTopic
    fields: tuple[str, ...]
    work: tuple[Work, ...]
    notes: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """Fields that its objects do not hold, and that are not compared."""
        return tuple(name for name in FIELDS if name not in self.fields)

    @property
    def by_key(self) -> bool:
        """Whether only the order inside of each key counts."""
        return any(work.share is not None for work in self.work)


def choose_topics(view: ArchiveView, options: AgainstOptions) -> list[tuple[TopicInfo, str]]:
    """Return the archived topics, each in its newest incarnation, and their names in the target."""
    newest: dict[str, TopicInfo] = {}
    for (name, _), info in sorted(view.topics.items()):
        newest[name] = info
    pairs = options.topics or [(name, name) for name in sorted(newest)]
    for source, _ in pairs:
        if source not in newest:
            raise UsageError(
                f"topic {source} is not in the archive",
                hint=did_you_mean(source, newest) or f"It holds: {', '.join(sorted(newest))}.",
            )
    for pick in options.offsets:
        if pick.topic not in dict(pairs):
            raise UsageError(f"topic {pick.topic} is not among those to compare")
    return [(newest[source], target) for source, target in pairs]


def plan_topic(
    view: ArchiveView,
    source: TopicInfo,
    target: TargetTopic,
    options: AgainstOptions,
    find_expired: FindExpired = lambda _entries: {},
) -> TopicPlan:
    """Plan one topic; PreflightError when its partitions are others and nothing says why.

    ``find_expired`` tells which objects are gone by a retention rule: they are left out, and said.
    """
    entries = view.entries(source.topic, source.incarnation)
    _check_asked(target)
    fields = comparable(entries)
    expired = find_expired(entries)
    by_partition: dict[int, tuple[Entry, ...]] = dict.fromkeys(range(source.partitions), ())
    for partition_id, mine in entries_by_partition(entries).items():
        by_partition[partition_id.partition] = tuple(sorted(mine, key=lambda e: e.range))
    wanted = _wanted(source.topic, sorted(by_partition), options)
    parts = [
        held_part(n, by_partition[n], _selection(source.topic, n, options), frozenset(expired))
        for n in wanted
    ]
    notes = [f"{name} is not in its objects: not compared" for name in FIELDS if name not in fields]
    notes.extend(about_expired(entries, expired))
    if target.asked.get("shift") and "timestamp" in fields:
        fields = tuple(name for name in fields if name != "timestamp")
        notes.append("its restore moved the times of records: not compared")
    notes.extend(_about_restore(target, options))
    spread = target.asked.get("partition_map") or target.asked.get("partition_count")
    if options.repartitioned or spread:
        if expired:
            raise PreflightError(
                f"topic {target.name}: records were spread anew, and objects of the archive have "
                "expired: whose records are no longer held cannot be told",
                hint="Leave it out with --topics, or compare a time that is held with --from.",
            )
        work = _by_keys(source, target, parts, fields)
        if "key" not in fields:
            notes.append("keys are not in its objects: compared without regard to order")
    else:
        _check_partitions(source, target, sorted(by_partition))
        work = [_side_by_side(source, target, part, fields, options) for part in parts]
    return TopicPlan(source, target, fields, tuple(work), tuple(notes))


def comparable(entries: Collection[Entry]) -> tuple[str, ...]:
    """Return the fields that the objects hold of all their records; see contents/missing.py."""
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


def _wanted(topic: str, there: Sequence[int], options: AgainstOptions) -> list[int]:
    for number in options.partitions:
        if number not in there:
            raise UsageError(f"topic {topic} has no partition {number} in the archive")
    return [n for n in there if not options.partitions or n in options.partitions]


def _selection(topic: str, partition: int, options: AgainstOptions) -> Selection:
    mine = [pick for pick in options.offsets if pick.topic == topic]
    ranges = tuple(p.range for p in mine if p.partition == partition) if mine else None
    return Selection(ranges, options.from_ms, options.until_ms)


def _check_asked(target: TargetTopic) -> None:
    if target.asked.get("filter"):
        raise PreflightError(
            f"topic {target.name} was restored with --filter: what it left out cannot be told "
            "from what was lost",
            hint="Leave it out with --topics.",
        )
    if target.asked.get("transforms"):
        raise PreflightError(
            f"topic {target.name} was restored with transforms: its records are not the archived "
            "ones",
            hint="Leave it out with --topics.",
        )


def _about_restore(target: TargetTopic, options: AgainstOptions) -> Iterator[str]:
    """Say what the restore's document tells, as far as it matters here."""
    bases = {n: base for n, base in target.bases.items() if base}
    if bases:
        yield "records before the restore began are not compared: " + ", ".join(
            f"partition {n} begins at {base}" for n, base in sorted(bases.items())
        )
    if target.ids is not None:
        yield "its restore gave records other schema ids: compared with those"
    given = {
        "partitions": options.partitions,
        "offsets": options.offsets,
        "from": options.from_ms,
        "until": options.until_ms,
    }
    for name, value in given.items():
        if target.asked.get(name) and not value:
            yield f"its restore was given --{name}, this comparison is not"


def is_exact(target: TargetTopic, options: AgainstOptions) -> bool:
    """Whether records must stand at their old offsets: said here, or by the restore's document."""
    return options.exact_offsets or bool(target.asked.get("exact"))


def _check_partitions(source: TopicInfo, target: TargetTopic, there: Sequence[int]) -> None:
    if len(target.offsets) == len(there):
        return
    raise PreflightError(
        f"topic {target.name} has {len(target.offsets)} partitions, {source.topic} had "
        f"{len(there)} when it was archived",
        hint="If its records were spread anew, say --repartitioned: then each key is compared.",
    )


def _read_from(target: TargetTopic, partition: int) -> OffsetRange:
    """Return what is read of a partition of the target."""
    held = target.offsets[partition]
    start = min(held.end, max(held.start, target.bases.get(partition, 0)))
    return OffsetRange(start, held.end)


def _side_by_side(
    source: TopicInfo,
    target: TargetTopic,
    part: ArchivePart,
    fields: tuple[str, ...],
    options: AgainstOptions,
) -> Work:
    offsets = _read_from(target, part.partition)
    exact = is_exact(target, options)
    return Work(
        source=source.topic,
        target=target.name,
        topic_id=target.topic_id,
        archive=(part,),
        parts=(TargetPart(part.partition, offsets),),
        fields=fields,
        ids=target.ids,
        leniency=Leniency(
            compacts=target.compacts,
            starts_at=offsets.start if exact else 0,
            exact=exact,
            unheld=part.unheld,
        ),
    )


def _by_keys(
    source: TopicInfo,
    target: TargetTopic,
    parts: Sequence[ArchivePart],
    fields: tuple[str, ...],
) -> list[Work]:
    theirs = tuple(TargetPart(n, _read_from(target, n)) for n in sorted(target.offsets))
    records = max(sum(p.records for p in parts), sum(len(p.offsets) for p in theirs))
    return [
        Work(
            source=source.topic,
            target=target.name,
            topic_id=target.topic_id,
            archive=tuple(parts),
            parts=theirs,
            fields=fields,
            ids=target.ids,
            leniency=Leniency(compacts=target.compacts),
            share=share,
        )
        for share in shares_for(records)
    ]
