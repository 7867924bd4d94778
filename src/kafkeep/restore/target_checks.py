"""Check rights, topic creation and retention on the target's brokers. On the driver.

Nothing is changed: topics are only validated, not created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial

from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import AccessDeniedError, PreflightError
from kafkeep.kafka.admin.admin import (
    Admin,
    TopicRight,
    new_topic_defaults,
    topic_defaults,
    topic_rights,
)
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument
from kafkeep.restore.plan import RestorePlan, TopicPlan, fewer_replicas, replicas_of
from kafkeep.restore.preflight import TargetSnapshot
from kafkeep.restore.routing.plan import largest_target, oldest_time
from kafkeep.restore.topic_settings import (
    KafkaRelease,
    final_settings,
    settings_while_writing,
    unknown_settings,
)

_NEEDED = (TopicRight.WRITE, TopicRight.ALTER_CONFIGS, TopicRight.DESCRIBE_CONFIGS)


def check_target_changes(
    plan: RestorePlan,
    target: TargetSnapshot,
    document: RestoreDocument | None,
    options: RestoreOptions,
    known: Iterable[Check],
    *,
    admin: Admin,
    now_ms: int,
) -> list[Check]:
    """Check the planned changes to topics without making them.

    Finished topics, and topics that failed a check in ``known``, are skipped. Rights on a topic are
    known only after it exists.
    """
    topics = _to_write(plan, target, document, known)
    rights = topic_rights(
        admin, [topic.target for topic in topics if topic.target in target.topics]
    )
    of_new = cache(partial(new_topic_defaults, admin))  # the same for all of them
    checks: list[Check] = []
    for topic in topics:
        if topic.target in target.topics:
            refused = list(check_rights(topic.target, rights.get(topic.target), options))
        else:
            refused = list(_try_creating(topic, options, admin))
        checks += refused
        if all(check.verdict is not CheckStatus.FAIL for check in refused):
            settings = _settings(topic, target, document, options, admin, of_new)
            checks += check_retention(topic, settings, options, now_ms=now_ms)
    return checks


def _try_creating(topic: TopicPlan, options: RestoreOptions, admin: Admin) -> Iterator[Check]:
    fewer = fewer_replicas(topic, options)
    try:
        admin.try_topic(
            topic.target,
            topic.target_count,
            replication_factor=replicas_of(topic, options),
            configs=settings_while_writing(topic.source.configs, fewer, admin.broker_version()),
        )
    except (AccessDeniedError, PreflightError) as error:
        yield Check(CheckStatus.FAIL, topic.target, error.message, error.hint, error.exit_code)


def check_rights(
    topic: str, rights: Collection[TopicRight] | None, options: RestoreOptions
) -> Iterator[Check]:
    """Report missing rights on an existing topic; None means that rights are unknown. Pure."""
    if rights is None:
        return
    needed = (*_NEEDED, TopicRight.DELETE) if options.exact_offsets else _NEEDED
    missing = [right.label for right in needed if right not in rights]
    if missing:
        what = f"the user lacks rights on it: {', '.join(missing)}"
        hint = "Grant them, then run the same command again."
        yield Check(CheckStatus.FAIL, topic, what, hint, AccessDeniedError.exit_code)
    elif TopicRight.READ not in rights:
        what = "the user may not read it: an interrupted restore could not resume"
        yield Check(CheckStatus.WARN, topic, what, "Grant Read on the topic.")


@dataclass(frozen=True, slots=True)
class TargetSettings:
    """The final settings of a topic, and the defaults for the others."""

    settings: Mapping[str, str]
    defaults: Mapping[str, str]
    kafka: KafkaRelease
    fewer_replicas: int | None = None
    """The number of replicas, if the topic had more before."""


def check_retention(
    topic: TopicPlan, target: TargetSettings, options: RestoreOptions, *, now_ms: int
) -> Iterator[Check]:
    """Warn of settings that are left out, or would delete restored records at once. Pure."""
    if unknown := unknown_settings(target.settings, target.kafka):
        release = ".".join(map(str, target.kafka))
        what = f"Kafka {release} has no setting {', '.join(sorted(unknown))}: it is left out"
        yield Check(CheckStatus.WARN, topic.target, what)
    final = final_settings(
        topic.target,
        target.settings,
        target.defaults,
        kafka=target.kafka,
        replicas=target.fewer_replicas,
        oldest_ms=oldest_time(topic, options),
        largest_partition_bytes=largest_target(topic),
        now_ms=now_ms,
        apply_retention=False,
    )
    for held in final.held_back:
        what = f"{held.key}={held.value} will not be put back: {held.reason}"
        hint = None
        if held.key.startswith("retention."):
            hint = "Add --apply-retention to put it back anyway."
            if options.apply_retention:
                what = f"{held.key}={held.value} deletes restored records at once: {held.reason}"
                hint = "Leave out --apply-retention to keep them."
        yield Check(CheckStatus.WARN, topic.target, what, hint)


def _settings(  # noqa: PLR0917
    topic: TopicPlan,
    target: TargetSnapshot,
    document: RestoreDocument | None,
    options: RestoreOptions,
    admin: Admin,
    of_new: Callable[[], Mapping[str, str]],
) -> TargetSettings:
    fewer, kafka = fewer_replicas(topic, options), admin.broker_version()
    there = target.topics.get(topic.target)
    if there is None:
        return TargetSettings(topic.source.configs, of_new(), kafka, fewer)
    defaults = topic_defaults(admin, topic.target)
    known = document.target(topic.target) if document is not None else None
    if known is not None and known.topic_id == there.topic_id:
        return TargetSettings(known.settings, defaults, kafka, None if known.existed else fewer)
    return TargetSettings(admin.topic_configs([topic.target])[topic.target], defaults, kafka)


def _to_write(
    plan: RestorePlan,
    target: TargetSnapshot,
    document: RestoreDocument | None,
    known: Iterable[Check],
) -> list[TopicPlan]:
    refused = {check.subject for check in known if check.verdict is CheckStatus.FAIL}
    done = set()
    if document is not None and document.phase is Phase.DONE:
        ids = {one.topic: one.topic_id for one in document.targets}
        done = {name for name, there in target.topics.items() if ids.get(name) == there.topic_id}
    return [topic for topic in plan.topics if topic.target not in refused | done]
