"""What is held against what: archived partitions and those of the target. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange
from kafkeep.archive.reader import ArchiveView
from kafkeep.care.against.digest import FIELDS
from kafkeep.care.against.expired import FindExpired, about_expired, held_part
from kafkeep.care.against.judge import Leniency
from kafkeep.care.against.keys import shares_for
from kafkeep.care.against.restored import (
    NOTHING_WRITTEN,
    Written,
    about_restore,
    check_asked,
    is_exact,
)
from kafkeep.care.against.work import ArchivePart, Selection, TargetPart, Work
from kafkeep.config.against import AgainstOptions
from kafkeep.config.choose import did_you_mean
from kafkeep.contents.choice import choose_incarnation
from kafkeep.contents.windows import ENVELOPE, SEGMENT, entries_by_partition, iter_windows
from kafkeep.errors import NoSuchArchiveError, PreflightError, UsageError


@dataclass(frozen=True, slots=True)
class TargetTopic:
    """A topic of the target as it was when the comparison began."""

    name: str
    topic_id: str
    offsets: Mapping[int, OffsetRange]
    """What each partition holds."""
    compacts: bool = False
    written: Written = NOTHING_WRITTEN
    """What the document of its restore says."""


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
    """Return the archived topics and their names in the target.

    Each in its newest incarnation, or the one asked for.
    """
    told = dict(options.incarnations)
    known = {name for name, _ in view.topics} | told.keys()
    chosen = {name: choose_incarnation(view, name, told.get(name)) for name in sorted(known)}
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
    check_asked(target.name, target.written)
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
    if target.written.asked.get("shift") and "timestamp" in fields:
        fields = tuple(name for name in fields if name != "timestamp")
        notes.append("its restore moved the times of records: not compared")
    notes.extend(about_restore(source, target.written, view, options))
    moved = None if options.repartitioned else target.written.moved(wanted)
    if moved is None:
        _check_by_key(target, options, expired)
        work = _by_keys(source, target, parts, fields)
        if "key" not in fields:
            notes.append("keys are not in its objects: compared without regard to order")
    else:
        _check_partitions(source, target, sorted(by_partition))
        work = [
            _side_by_side(source, target, part, moved[part.partition], fields, options)
            for part in parts
        ]
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


def _check_by_key(target: TargetTopic, options: AgainstOptions, expired: Mapping[str, str]) -> None:
    """Refuse what cannot be told where records were spread anew."""
    if options.exact_offsets:
        raise PreflightError(
            f"topic {target.name}: its restore spread records anew, and gave them other offsets",
            hint="Leave out --exact-offsets.",
        )
    if expired:
        raise PreflightError(
            f"topic {target.name}: records were spread anew, and objects of the archive have "
            "expired: whose records are no longer held cannot be told",
            hint="Leave it out with --topics, or compare a time that is held with --from.",
        )


def _check_partitions(source: TopicInfo, target: TargetTopic, there: Sequence[int]) -> None:
    if target.written.spread or len(target.offsets) == len(there):
        return
    raise PreflightError(
        f"topic {target.name} has {len(target.offsets)} partitions, {source.topic} had "
        f"{len(there)} when it was archived",
        hint="If its records were spread anew, say --repartitioned: then each key is compared.",
    )


def _read_from(target: TargetTopic, partition: int) -> OffsetRange:
    """Return what is read of a partition of the target."""
    held = target.offsets[partition]
    start = min(held.end, max(held.start, target.written.bases.get(partition, 0)))
    return OffsetRange(start, held.end)


def _side_by_side(  # noqa: PLR0917
    source: TopicInfo,
    target: TargetTopic,
    part: ArchivePart,
    number: int,
    fields: tuple[str, ...],
    options: AgainstOptions,
) -> Work:
    """Hold an archived partition against partition ``number`` of the target."""
    offsets = _read_from(target, number)
    exact = is_exact(target.written, options)
    return Work(
        source=source.topic,
        target=target.name,
        topic_id=target.topic_id,
        archive=(part,),
        parts=(TargetPart(number, offsets),),
        fields=fields,
        ids=target.written.ids,
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
            ids=target.written.ids,
            leniency=Leniency(compacts=target.compacts),
            share=share,
        )
        for share in shares_for(records)
    ]
