"""A plan and its document made into bundles for tasks. Pure."""

from __future__ import annotations

from functools import partial

from kafkeep.config.places import Places
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.options import ReadOptions
from kafkeep.kafka.schema_ids import IdMap
from kafkeep.restore.bundle import bundles_for, pack_topics, pack_work
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.exact_plan import lanes, needs_transactions, transactional_id
from kafkeep.restore.pick import Piece
from kafkeep.restore.plan import PartitionPlan, RestorePlan, TopicPlan
from kafkeep.restore.task import ExactWay, RestoreBundle, Route, RouteSource, TargetWork


def work_of(plan: RestorePlan, document: RestoreDocument) -> list[TargetWork]:
    """Return what goes into each target partition, and where."""
    work = []
    for topic in plan.topics:
        target = document.target(topic.target)
        assert target is not None
        make = partial(TargetWork, topic=topic.target, topic_id=target.topic_id, shape=topic.shape)
        if topic.shape.routed:
            work += [
                make(partition=number, place=target.partitions[number], entries=(), est_bytes=share)
                for number, share in shares(topic).items()
            ]
            continue
        for partition in topic.partitions:
            number = topic.shape.target_of(partition.partition)
            if number is None:  # left out, and so not in the map
                continue
            work.append(
                make(
                    partition=number,
                    place=target.partitions[number],
                    entries=partition.entries,
                    est_bytes=partition.raw_bytes,
                    pieces=_pieces(plan, partition),
                    times=partition.times,
                    end=0 if partition.cut else partition.end,
                )
            )
    return work


def shares(topic: TopicPlan) -> dict[int, int]:
    """Return the target partitions that get something, and about how many bytes."""
    count = topic.shape.partition_count or 1
    return {
        number: sum(source.raw_bytes for source in sources) // count
        for number in range(topic.target_count)
        if (sources := topic.sources_of(number))
    }


def _pieces(plan: RestorePlan, partition: PartitionPlan) -> tuple[Piece, ...] | None:
    return partition.all_pieces() if plan.exact or partition.cut else None


def bundles_of(
    work: list[TargetWork],
    plan: RestorePlan,
    options: RestoreOptions,
    places: Places,
    *,
    cores: int,
    reading: ReadOptions,
    ids: IdMap | None = None,
) -> list[RestoreBundle]:
    """Share the work out; a bundle at exact offsets has a transactional id of its own."""
    if plan.shape.routed:
        packed = pack_topics(work, cores)
    else:
        count = bundles_for(work, cores)
        if plan.exact:
            count = min(max(count, 1), lanes(plan))
        packed = pack_work(work, bundles=count)
    marks = plan.exact and needs_transactions(plan, options)
    tombstones, rate = options.fill_holes == "tombstones", options.rate_bytes
    share = rate / max(1, min(cores, len(packed))) if rate is not None else None
    return [
        RestoreBundle(
            work=members,
            kafka=places.kafka,
            archive=places.archive,
            storage=places.storage,
            restore_aborted=options.restore_aborted,
            rate_bytes=share,
            reading=reading,
            ids=ids,
            exact=ExactWay(transactional_id(plan.id, lane) if marks else None, tombstones)
            if plan.exact
            else None,
            routes=_routes(plan, members) if plan.shape.routed else (),
        )
        for lane, members in enumerate(packed)
    ]


def _routes(plan: RestorePlan, work: tuple[TargetWork, ...]) -> tuple[Route, ...]:
    """Return what the topics of a bundle are read from."""
    targets: dict[str, set[int]] = {}
    for item in work:
        targets.setdefault(item.topic, set()).add(item.partition)
    routes = []
    for topic in plan.topics:
        mine = {p.partition: p for n in targets.get(topic.target, ()) for p in topic.sources_of(n)}
        sources = [RouteSource(n, p.all_pieces(), p.times) for n, p in sorted(mine.items())]
        if sources:
            first = min(shares(topic)) in targets[topic.target]
            routes.append(Route(topic.target, tuple(sources), topic.shape, counts=first))
    return tuple(routes)
