"""Turn a plan and its document into bundles of target partitions, one for each task. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from kafkeep.kafka.batch.schema_ids import IdMap
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.pace import share_of_rate
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.exact.plan import lanes, needs_transactions, transactional_id
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.selection import PlannedSlices
from kafkeep.restore.task import ExactWay, RestoreBundle, Route, RouteSource, TargetWork
from kafkeep.spark.bundles import pack_evenly

LARGEST_BUNDLE_BYTES = 1 << 30
"""Up to this size one task is best: a request carries a batch for each of its partitions, so the
broker, which is the bottleneck, gets fewer requests."""
HELD_BYTES = 2 << 20
LARGEST_HELD_BYTES = 64 << 20
"""A task holds the next batch of each of its partitions and its source data: about three
times the batch size. Each batch is counted with ``HELD_BYTES`` at most."""
TASKS_PER_SLOT = 3
"""A partition stays in one task; smaller tasks let the slots finish at about the same time."""


def bundles_for(work: Iterable[TargetWork], slots: int) -> int:
    """Return the number of tasks of a restore: at least as many as memory requires."""
    sizes = [item.est_bytes for item in work]
    held = sum(min(size, HELD_BYTES) for size in sizes)
    by_size = min(slots * TASKS_PER_SLOT, -(-sum(sizes) // LARGEST_BUNDLE_BYTES))
    return max(1, by_size, -(-held // LARGEST_HELD_BYTES))


def pack_work(work: Iterable[TargetWork], *, bundles: int) -> list[tuple[TargetWork, ...]]:
    """Distribute partitions over at most ``bundles`` tasks of even weight, each in one task."""
    largest_first = sorted(work, key=lambda w: (-w.est_bytes, w.topic, w.partition))
    return pack_evenly(largest_first, bundles, lambda w: w.est_bytes + 1)


def pack_topics(work: Iterable[TargetWork], slots: int) -> list[tuple[TargetWork, ...]]:
    """Pack target partitions that get distributed records: every task reads a whole topic.

    A topic is in one task, or, if it is large, in at most as many as run at once.
    """
    topics: dict[str, list[TargetWork]] = {}
    for item in work:
        topics.setdefault(item.topic, []).append(item)
    packed: list[tuple[TargetWork, ...]] = []
    small: list[TargetWork] = []
    for members in topics.values():
        tasks = min(slots, len(members), bundles_for(members, slots))
        if tasks == 1:
            small += members
        else:
            packed += pack_work(members, bundles=tasks)
    return packed + _pack_small(small, slots)


def _pack_small(work: list[TargetWork], slots: int) -> list[tuple[TargetWork, ...]]:
    """Fill tasks with whole topics, one after another."""
    packed: list[list[TargetWork]] = []
    room = max(1, sum(item.est_bytes for item in work) // max(1, bundles_for(work, slots)))
    filled = room
    for item in work:
        begins = not packed or packed[-1][-1].topic != item.topic
        if begins and filled >= room:
            packed.append([])
            filled = 0
        packed[-1].append(item)
        filled += item.est_bytes
    return [tuple(members) for members in packed]


def work_of(plan: RestorePlan, document: RestoreDocument) -> list[TargetWork]:
    """Return the work for each target partition."""
    work = []
    for topic in plan.topics:
        target = document.target(topic.target)
        assert target is not None
        make = partial(
            TargetWork, topic=topic.target, topic_id=target.topic_id, routing=topic.routing
        )
        if topic.routing.routed:
            work += [
                make(partition=number, place=target.partitions[number], entries=(), est_bytes=share)
                for number, share in shares(topic).items()
            ]
            continue
        for partition in topic.partitions:
            number = topic.routing.target_of(partition.partition)
            if number is None:  # not selected, and so not in the map
                continue
            work.append(
                make(
                    partition=number,
                    place=target.partitions[number],
                    entries=partition.entries,
                    est_bytes=partition.raw_bytes,
                    slices=_slices(plan, partition),
                    times=partition.times,
                    end=0 if partition.cut else partition.end,
                )
            )
    return work


def shares(topic: TopicPlan) -> dict[int, int]:
    """Return the target partitions that get records, with estimated bytes."""
    count = topic.routing.partition_count or 1
    return {
        number: sum(source.raw_bytes for source in sources) // count
        for number, sources in topic.sources().items()
        if sources
    }


def _slices(plan: RestorePlan, partition: PartitionPlan) -> PlannedSlices | None:
    return partition.all_slices() if plan.exact or partition.cut else None


def bundles_of(
    work: list[TargetWork],
    plan: RestorePlan,
    options: RestoreOptions,
    locations: Locations,
    *,
    slots: int,
    reading: ReadOptions,
    ids: IdMap | None = None,
) -> list[RestoreBundle]:
    """Pack the work into bundles; with exact offsets each has its own transactional id."""
    if plan.routing.routed:
        packed = pack_topics(work, slots)
    else:
        count = max(bundles_for(work, slots), options.tasks or 1)
        if plan.exact:
            count = min(count, lanes(plan))
        packed = pack_work(work, bundles=count)
    marks = plan.exact and needs_transactions(plan, options)
    tombstones = options.fill_holes == "tombstones"
    share = share_of_rate(options.rate_bytes, slots=slots, tasks=len(packed))
    return [
        RestoreBundle(
            work=members,
            kafka=locations.kafka,
            archive=locations.archive,
            storage=locations.storage,
            restore_aborted=options.restore_aborted,
            rate_bytes=share,
            reading=reading,
            ids=ids,
            exact=ExactWay(transactional_id(plan.id, lane) if marks else None, tombstones)
            if plan.exact
            else None,
            routes=_routes(plan, members) if plan.routing.routed else (),
        )
        for lane, members in enumerate(packed)
    ]


def _routes(plan: RestorePlan, work: tuple[TargetWork, ...]) -> tuple[Route, ...]:
    """Return the sources of a bundle's topics."""
    targets: dict[str, set[int]] = {}
    for item in work:
        targets.setdefault(item.topic, set()).add(item.partition)
    routes = []
    for topic in plan.topics:
        by_target = topic.sources()
        mine = {p.partition: p for n in targets.get(topic.target, ()) for p in by_target[n]}
        sources = [RouteSource(n, p.all_slices(), p.times) for n, p in sorted(mine.items())]
        if sources:
            first = min(shares(topic)) in targets[topic.target]
            routes.append(Route(topic.target, tuple(sources), topic.routing, counts=first))
    return tuple(routes)
