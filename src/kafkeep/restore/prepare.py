"""Make the targets ready, and the document that makes writing to them safe. On the driver."""

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
    """Create what is missing, lift limits, take producer ids; the document says so first.

    Called again after a crash it finds its own topics and goes on. ``put_schemas`` brings schemas
    into a registry and tells what the document is to say of it; the same each time.
    """
    if _can_resume(plan, target, document):
        assert document is not None
        if document.phase is not Phase.DONE:
            _check_same(document, put_schemas())
        return document
    going_on = begun(plan, target, document)
    first = replace(
        _first(plan, target, document, options, at_ms=now_ms()),
        targets=tuple(_intended(topic, target, document, admin) for topic in plan.topics),
        schemas=going_on.schemas if going_on else {},
    )
    kept = _restored_before(plan, document)
    save_document(store, replace(first, targets=first.targets + kept))
    failpoint("restore.prepared")
    ready = tuple(
        _make_ready(topic, aim, target, document, options=options, admin=admin)
        for topic, aim in zip(plan.topics, first.targets, strict=True)
    )
    schemas = put_schemas()
    if going_on is not None and going_on.schemas:
        _check_same(going_on, schemas)
    made = replace(first.next(Phase.WRITING, at_ms=now_ms(), targets=ready + kept), schemas=schemas)
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
    """Return what the document says before anything is made, its targets apart."""
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
    """Leave out topics that were restored, where others of the same restore were deleted since.

    What happened to them since is not ours. A plan of which nothing is left is done, and stays.
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
    asked = {topic.target for topic in plan.topics}
    known = document.targets if document is not None else ()
    return tuple(replace(target, done=True) for target in known if target.topic not in asked)


def is_done(plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None) -> bool:
    """Whether nothing is left to do: a target that was deleted since is made anew."""
    if document is None or document.phase is not Phase.DONE:
        return False
    return all(_is_ours(topic, target, document) is not None for topic in plan.topics)


def begun(
    plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None
) -> RestoreDocument | None:
    """Return the document if it is unfinished, and a target of it is there: with records, maybe."""
    if document is None or document.phase is Phase.DONE:
        return None
    ours = any(_is_ours(topic, target, document) is not None for topic in plan.topics)
    return document if ours else None


def _check_same(document: RestoreDocument, schemas: Mapping[str, Any]) -> None:
    if dict(document.schemas) != dict(schemas):
        raise PreflightError(
            "the schema registry gives other ids than when this restore began",
            hint="Delete the topics and run the restore again.",
        )


def _can_resume(
    plan: RestorePlan, target: TargetSnapshot, document: RestoreDocument | None
) -> bool:
    """Whether every target is the one the document speaks of."""
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
    """Say what will be done to one topic, and which settings it gets at the end."""
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
        settings = dict(before.settings)  # it was being made ready: the present ones may be ours
    return Target(topic.source.topic, topic.source.incarnation, topic.target, existed, settings)


def _make_ready(
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
    settings = settings_while_writing(aim.settings, fewer)
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
    if options.exact_offsets:  # shows that deleting is allowed before there is anything to delete
        admin.delete_records({(topic.target, number): 0 for number in range(len(bases))})
    places = tuple(TargetPartition(base, *admin.init_producer_id()) for base in bases)
    return replace(aim, topic_id=made.topic_id, partitions=places)
