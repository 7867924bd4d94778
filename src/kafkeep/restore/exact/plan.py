"""Plan what a restore at exact offsets has to fill, how, and how long that takes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkeep.check_result import Check, CheckStatus
from kafkeep.objects.sink.read_windows import ENVELOPE, SEGMENT, first_offset
from kafkeep.options.restore import RestoreOptions
from kafkeep.options.units import format_duration
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan

HOLE_MS = 7
"""Duration of one empty transaction; it serves all partitions of a task that wait for one."""
FILLED_PER_MS = 3000
LONGEST_FILL_MS = 10 * 60_000
LANES = 16
"""Most transactional ids, and so most tasks, of one restore."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Offsets of one partition that no record takes: before its first record, and after it."""

    before: int
    holes: int
    perhaps: int = 0
    """Records whose own time decides whether they are left out, and leave a hole."""


def filling(partition: PartitionPlan) -> Filling:
    """Count them by the log; what a selection by time leaves out is known only once it is read."""
    slices = partition.all_slices()
    if not slices:
        return Filling(0 if partition.cut else partition.end, 0)
    main = slices[0].window.entries[0]
    first = max(slices[0].range.start, main.index[0].offset if main.index else 0)
    end = max(slices[-1].range.end, 0 if partition.cut else partition.end)
    perhaps = sum(part.records for part in slices if part.timed)
    return Filling(first, max(0, end - first - partition.records), perhaps)


def needs_transactions(plan: RestorePlan, options: RestoreOptions) -> bool:
    """Whether a task may have to fill a hole with transactions."""
    if options.fill_holes == "tombstones":
        return False
    return any(
        partition.cut or filling(partition).holes
        for topic in plan.topics
        for partition in topic.partitions
    )


def transactional_id(restore: str, lane: int) -> str:
    """Name one of the restore's transactional ids; the same in every attempt."""
    return f"kafkeep-restore-{restore}-{lane}"


def lanes(plan: RestorePlan) -> int:
    """Return how many transactional ids the restore uses; the same in every attempt."""
    return min(LANES, sum(len(topic.partitions) for topic in plan.topics))


def check_exact(plan: RestorePlan, options: RestoreOptions) -> list[Check]:
    """Describe what will be filled; fail where offsets are unknown or it would take too long."""
    return [check for topic in plan.topics for check in _check_topic(topic, options)]


def _check_topic(topic: TopicPlan, options: RestoreOptions) -> Iterator[Check]:
    rows = [e for e in topic.entries if e.own_records and e.format != SEGMENT]
    for entry in rows:
        if entry.converter != ENVELOPE and first_offset(entry) is None:
            yield Check(
                CheckStatus.FAIL,
                topic.target,
                f"{entry.key} does not tell the offsets of its records",
                "Restore it without --exact-offsets.",
            )
            return
    parts = {p.partition: filling(p) for p in topic.partitions}
    yield _check_filling(topic, parts, options)
    most = max((part.holes + part.perhaps for part in parts.values()), default=0) * HOLE_MS
    perhaps = sum(part.perhaps for part in parts.values())
    if perhaps and most > LONGEST_FILL_MS and options.fill_holes != "tombstones":
        what = (
            f"exact offsets: {perhaps:,} more may have no record, as the times of records decide: "
            f"then it takes up to {format_duration(most)}"
        )
        hint = "Fill them with --fill-holes tombstones, which consumers see."
        yield Check(CheckStatus.WARN, topic.target, what, hint)


def _check_filling(
    topic: TopicPlan, parts: Mapping[int, Filling], options: RestoreOptions
) -> Check:
    worst = max(parts, key=lambda number: parts[number].holes, default=0)
    holes = sum(part.holes for part in parts.values())
    before = sum(part.before for part in parts.values())
    longest = parts[worst].holes * HOLE_MS if parts else 0
    if options.fill_holes == "auto" and longest > LONGEST_FILL_MS:
        return Check(
            CheckStatus.FAIL,
            topic.target,
            f"{holes:,} offsets have no record, {parts[worst].holes:,} of them in partition "
            f"{worst}: filling them with empty transactions takes about {format_duration(longest)}",
            "Fill them with --fill-holes tombstones, which consumers see, or wait that long with "
            "--fill-holes transactions.",
        )
    ways = {"tombstones": "tombstones", "auto": "empty transactions"}
    way = ways.get(options.fill_holes, ways["auto"])
    time = before // FILLED_PER_MS + (0 if way == "tombstones" else longest)
    return Check(
        CheckStatus.WARN if time > LONGEST_FILL_MS else CheckStatus.PASS,
        topic.target,
        f"exact offsets: {before:,} before the first records are filled and deleted, {holes:,} "
        f"without a record are taken by {way}, about {format_duration(time)}",
    )
