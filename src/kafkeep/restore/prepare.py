"""Create and configure the target topics, and write the restore's document. On the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin, TopicDescription
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument, Target, TargetPartition, save_document
from kafkeep.restore.plan import RestorePlan, TopicPlan, fewer_replicas, replicas_of
from kafkeep.restore.preflight import TargetSnapshot
from kafkeep.restore.topic_settings import settings_while_writing


def prepare(
    plan: RestorePlan,
    target: TargetSnapshot,
    document: RestoreDocument | None,
    options: RestoreOptions,
    *,
    admin: Admin,
    store: ObjectStore,
    now_ms: Callable[[], int],
    put_schemas: Callable[[], Mapping[str, Any]] = dict,
) -> RestoreDocument:
    """Create missing topics, lift limits and get producer ids; the document records each first.

    After a crash it finds its own topics and resumes. ``put_schemas`` registers schemas and returns
    the fields for the document; deterministic.
    """
    if _can_resume(plan, target, document):
        assert document is not None
        if document.phase is not Phase.DONE:
            _check_same(document, put_schemas())
        return document
    resumed = begun(plan, target, document)
    first = replace(
        _first(plan, target, document, options, at_ms=now_ms()),
        targets=tuple(_intended(topic, target, document, admin) for topic in plan.topics),
        schemas=resumed.schemas if resumed else {},
    )
    kept = _restored_before(plan, document)
    save_document(store, replace(first, targets=first.targets + kept))
    failpoint("restore.prepared")
    prepared = tuple(
        _prepare_topic(topic, aim, target, document, options=options, admin=admin)
        for topic, aim in zip(plan.topics, first.targets, strict=True)
    )
    schemas = put_schemas()
    if resumed is not None and resumed.schemas:
        _check_same(resumed, schemas)
    made = replace(
        first.next(Phase.WRITING, at_ms=now_ms(), targets=prepared + kept), schemas=schemas
    )
    failpoint("restore.created")
    save_document(store, made)
    failpoint("restore.documented")
    return made


def _first(
    plan: RestorePlan,
    target: TargetSnapshot,
    known: RestoreDocument | None,
    options: RestoreOptions,
    *,
    at_ms: int,
) -> RestoreDocument:
    """Return the document before anything is created, without its targets."""
    return RestoreDocument(
        id=plan.id,
        revision=known.revision + 1 if known else 0,
        phase=Phase.PREPARING,
        log=plan.log,
        commit=plan.commit,
        cluster_id=target.cluster_id,
        at_ms=at_ms,
        targets=(),
        asked=options.selection(),
    )


def without_restored(
    plan: RestorePlan, there: Mapping[str, TopicDescription], document: RestoreDocument | None
) -> RestorePlan:
    """Leave out restored topics, if others of the same restore were deleted since.

    A plan that would become empty does not change: it is done.
    """
    restored = {
        known.topic
        for known in (document.targets if document is not None else ())
        if document is not None and (document.phase is Phase.DONE or known.done)
        if known.topic in there and there[known.topic].topic_id == known.topic_id
    }
    left = tuple(topic for topic in plan.topics if topic.target not in restored)
    return replace(plan, topics=left) if 0 < len(left) < len(plan.topics) else plan


def _restored_before(plan: RestorePlan, document: RestoreDocument | None) -> tuple[Target, ...]:
    selected = {topic.target for topic in plan.topics}
    known = document.targets if document is not None else ()
    return tuple(replace(target, done=True) for target in known if target.topic not in selected)


def is_done(plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None) -> bool:
    """Return whether the restore is done; a deleted target is created again."""
    if document is None or document.phase is not Phase.DONE:
        return False
    return all(_is_ours(topic, target, document) is not None for topic in plan.topics)


def begun(
    plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None
) -> RestoreDocument | None:
    """Return the document if it is unfinished and one of its targets exists."""
    if document is None or document.phase is Phase.DONE:
        return None
    ours = any(_is_ours(topic, target, document) is not None for topic in plan.topics)
    return document if ours else None


def _check_same(document: RestoreDocument, schemas: Mapping[str, Any]) -> None:
    if dict(document.schemas) != dict(schemas):
        raise PreflightError(
            "the schema registry assigns other ids than when this restore started",
            hint="Delete the topics and run the restore again.",
        )


def _can_resume(
    plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None
) -> bool:
    """Return whether every target is the one that the document names."""
    if document is None or document.phase is Phase.PREPARING:
        return False
    return all(_is_ours(topic, target, document) is not None for topic in plan.topics)


def _is_ours(
    topic: TopicPlan, target: TargetSnapshot, document: RestoreDocument | None
) -> Target | None:
    known = document.target(topic.target) if document else None
    there = target.topics.get(topic.target)
    if known is None or there is None or not known.topic_id:
        return None
    return known if known.topic_id == there.topic_id else None


def _intended(
    topic: TopicPlan, target: TargetSnapshot, known: RestoreDocument | None, admin: Admin
) -> Target:
    """Return the planned changes to one topic, and its final settings."""
    before = known.target(topic.target) if known else None
    ours = _is_ours(topic, target, known)
    if ours is not None:
        return ours
    made_by_us = before is not None and not before.existed and not before.topic_id
    existed = topic.target in target.topics and not made_by_us
    settings = (
        admin.topic_configs([topic.target])[topic.target] if existed else dict(topic.source.configs)
    )
    if before is not None and before.existed and existed and not before.topic_id:
        settings = dict(
            before.settings
        )  # preparation had started: the current settings may be temporary
    return Target(topic.source.topic, topic.source.incarnation, topic.target, existed, settings)


def _prepare_topic(
    topic: TopicPlan,
    aim: Target,
    target: TargetSnapshot,
    known: RestoreDocument | None,
    *,
    options: RestoreOptions,
    admin: Admin,
) -> Target:
    if _is_ours(topic, target, known) is not None:
        return aim
    fewer = None if aim.existed else fewer_replicas(topic, options)
    settings = settings_while_writing(aim.settings, fewer, admin.broker_version())
    if topic.target in target.topics:
        admin.alter_topic_configs(topic.target, set=settings)
        made = target.topics[topic.target]
        bases = [target.ends[topic.target, p] for p in range(topic.target_count)]
    else:
        made = admin.create_topic(
            topic.target,
            topic.target_count,
            replication_factor=replicas_of(topic, options),
            configs=settings,
        )
        bases = [0] * topic.target_count
    if options.exact_offsets:  # fails early if deleting is not allowed
        admin.delete_records({(topic.target, number): 0 for number in range(len(bases))})
    producer = admin.init_producer_id()
    places = tuple(TargetPartition(base, *producer) for base in bases)
    return replace(aim, topic_id=made.topic_id, partitions=places)
