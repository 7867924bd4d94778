"""A plan and its document made into bundles for tasks. Pure."""

from __future__ import annotations

from kafkeep.config.places import Places
from kafkeep.config.restore import RestoreOptions
from kafkeep.contents.options import ReadOptions
from kafkeep.restore.bundle import bundles_for, pack_work
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.exact_plan import lanes, needs_transactions, transactional_id
from kafkeep.restore.pick import Piece
from kafkeep.restore.plan import PartitionPlan, RestorePlan
from kafkeep.restore.task import ExactWay, RestoreBundle, TargetWork


def work_of(plan: RestorePlan, document: RestoreDocument) -> list[TargetWork]:
    """Return what goes into each target partition, and where."""
    work = []
    for topic in plan.topics:
        target = document.target(topic.target)
        assert target is not None
        for partition in topic.partitions:
            work.append(
                TargetWork(
                    topic=topic.target,
                    topic_id=target.topic_id,
                    partition=partition.partition,
                    place=target.partitions[partition.partition],
                    entries=partition.entries,
                    est_bytes=partition.raw_bytes,
                    pieces=_pieces(plan, partition),
                    times=partition.times,
                    end=0 if partition.cut else partition.end,
                )
            )
    return work


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
) -> list[RestoreBundle]:
    """Share the work out; a bundle at exact offsets has a transactional id of its own."""
    count = bundles_for(work, cores)
    if plan.exact:
        count = min(max(count, 1), lanes(plan))
    packed = pack_work(work, bundles=count)
    rate = options.rate_bytes
    share = rate / max(1, min(cores, len(packed))) if rate is not None else None
    marks = plan.exact and needs_transactions(plan, options)
    return [
        RestoreBundle(
            work=members,
            kafka=places.kafka,
            archive=places.archive,
            storage=places.storage,
            restore_aborted=options.restore_aborted,
            rate_bytes=share,
            reading=reading,
            exact=ExactWay(
                transactional_id(plan.id, lane) if marks else None,
                options.fill_holes == "tombstones",
            )
            if plan.exact
            else None,
        )
        for lane, members in enumerate(packed)
    ]
