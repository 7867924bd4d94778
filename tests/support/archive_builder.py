"""Archives for tests: real commits and real segment objects, made from a few words."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafkeep.archive.commit import Changes, Gap, Intent, TopicInfo
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.keys import data_key
from kafkeep.archive.log import CommitLog
from kafkeep.archive.object_store import ObjectStore
from kafkeep.kafka.batch.layout import Record, build_batch
from kafkeep.kafka.batch.scan import min_timestamps, scan_batches
from kafkeep.objects.segment.format import SegmentEncoder

FIRST_MS = 1_700_000_000_000
"""The record at offset n bears the time ``FIRST_MS + n``, unless it is given."""


@dataclass(frozen=True, kw_only=True)
class ObjectPlan:
    """One object: its records, and what its entry answers for."""

    records: Sequence[Record]
    range: OffsetRange | None = None
    aborted: tuple[OffsetRange, ...] = ()
    batch_records: int = 10
    frame_bytes: int = 400


@dataclass(frozen=True, kw_only=True)
class PartitionPlan:
    """Objects of one partition in offset order, and gaps."""

    objects: Sequence[ObjectPlan]
    gaps: Sequence[OffsetRange] = ()
    position: int | None = None


@dataclass(frozen=True, kw_only=True)
class Built:
    """What was built: the log, and the entries in the order of the plan."""

    log: CommitLog
    entries: list[Entry] = field(default_factory=list)


def records(start: int, end: int) -> list[Record]:
    """Return plain records at these offsets."""
    return [
        Record(n, FIRST_MS + n, b"key %d" % n, b"value %d" % n, [(b"n", b"%d" % n)])
        for n in range(start, end)
    ]


def partition(*bounds: int, gaps: Sequence[OffsetRange] = ()) -> PartitionPlan:
    """Return a partition whose objects lie between neighbouring bounds."""
    pairs = pairwise(bounds)
    return PartitionPlan(
        objects=[ObjectPlan(records=records(a, b)) for a, b in pairs], gaps=tuple(gaps)
    )


def write_object(store: ObjectStore, partition_id: PartitionId, plan: ObjectPlan) -> Entry:
    """Store one segment object and return its entry."""
    batches = b"".join(
        build_batch(plan.records[i : i + plan.batch_records])
        for i in range(0, len(plan.records), plan.batch_records)
    )
    scanned = scan_batches(batches)
    writer = SegmentEncoder(frame_bytes=plan.frame_bytes)
    frames = list(writer.add(scanned, min_timestamps(scanned)))
    last, summary = writer.finish()
    body = b"".join([*frames, last])
    covered = plan.range or OffsetRange(plan.records[0].offset, plan.records[-1].offset + 1)
    key = data_key(partition_id, covered.start, ".log.zst")
    store.put_new(key, body)
    return Entry(
        key=key,
        partition_id=partition_id,
        topic_id=f"id-{partition_id.folder}",
        range=covered,
        records=sum(covered.start <= r.offset < covered.end for r in plan.records),
        min_timestamp=summary.min_timestamp,
        max_timestamp=summary.max_timestamp,
        size_bytes=summary.size_bytes,
        raw_bytes=summary.raw_bytes,
        format="segment",
        codec="zstd",
        sha256=hashlib.sha256(body).hexdigest(),
        index=summary.index,
        aborted=plan.aborted,
    )


def build_archive(
    store: ObjectStore,
    topics: Mapping[str, Sequence[PartitionPlan]],
    *,
    name: str = "backup",
    groups: Mapping[str, Mapping[PartitionId, int]] | None = None,
    intent: Intent | None = None,
    checkpoint: bool = False,
) -> Built:
    """Write the topics (``orders``, ``orders~2`` for a second incarnation), a commit for each."""
    clock = iter(range(FIRST_MS, FIRST_MS + 1_000_000, 1000))
    log = CommitLog.open(store, name, writer=f"test-{name}", now_ms=lambda: next(clock))
    built = Built(log=log)
    for folder, plans in topics.items():
        built.entries.extend(_commit_topic(store, log, folder, plans))
    if groups:
        log.append(Changes(groups=groups))
    if intent:
        log.append(Changes(intent=intent))
    if checkpoint:
        log.checkpoint()
    return built


def _commit_topic(
    store: ObjectStore, log: CommitLog, folder: str, plans: Sequence[PartitionPlan]
) -> list[Entry]:
    topic, _, count = folder.partition("~")
    entries, gaps, positions = [], [], {}
    for number, plan in enumerate(plans):
        pid = PartitionId(topic, int(count or 1), number)
        mine = [write_object(store, pid, one) for one in plan.objects]
        entries.extend(mine)
        gaps.extend(Gap(pid, lost, "retention", FIRST_MS) for lost in plan.gaps)
        ends = [entry.range.end for entry in mine] + [lost.end for lost in plan.gaps]
        positions[pid] = plan.position if plan.position is not None else max(ends, default=0)
    info = TopicInfo(
        topic=topic,
        incarnation=int(count or 1),
        topic_id=f"id-{folder}",
        partitions=len(plans),
        replication_factor=1,
        configs={"retention.ms": "1000"},
    )
    log.append(
        Changes(entries=tuple(entries), gaps=tuple(gaps), positions=positions, topics=(info,))
    )
    return entries
