"""Check whether the target allows a restore, before anything is written. On the driver.

These checks compare the plan with a snapshot of the target. ``target_checks.py`` sends requests
to the brokers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkeep.archive.commit import BROKER_DEFAULT
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import AccessDeniedError, PreflightError
from kafkeep.kafka.admin.admin import Admin, OffsetSpec, TopicDescription
from kafkeep.objects.sink.spec import NO_OPTIONS, ReadOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import Phase, RestoreDocument, Target
from kafkeep.restore.groups.plan import Archived, GroupPlan
from kafkeep.restore.plan import RestorePlan, TopicPlan, replicas_of
from kafkeep.restore.routing.plan import target_shares
from kafkeep.restore.routing.routing import SAME
from kafkeep.restore.schemas import SchemaStep
from kafkeep.restore.summary import NEWER

_IN_SYNC = "min.insync.replicas"
_CAPS_IN_SYNC = (3, 7)


@dataclass(frozen=True, slots=True)
class TargetSnapshot:
    """The state of the target cluster that a restore needs."""

    cluster_id: str
    brokers: int
    names: frozenset[str]
    """The names of all topics."""
    topics: Mapping[str, TopicDescription]
    """The target topics that exist."""
    starts: Mapping[tuple[str, int], int]
    ends: Mapping[tuple[str, int], int]
    needed_in_sync: Mapping[str, int] = field(default_factory=dict)
    """min.insync.replicas of topics that may have too few replicas in sync."""

    def is_empty(self, topic: str) -> bool:
        """Return whether a topic holds no record."""
        count = self.topics[topic].partition_count
        return all(self.starts[topic, p] == self.ends[topic, p] for p in range(count))


@dataclass(frozen=True, slots=True)
class Preflight:
    """The plan, and all checks before writing."""

    plan: RestorePlan
    checks: tuple[Check, ...]
    document: RestoreDocument | None
    lost: frozenset[str]
    reading: ReadOptions = NO_OPTIONS
    """The options for reading the objects."""
    archived_groups: Archived = field(default_factory=dict)
    """Every group of the commit, with its offsets."""
    groups: GroupPlan = field(default_factory=GroupPlan)
    """The moves of the selected groups, as far as they are known."""
    schemas: SchemaStep | None = None
    """The plan for the archived schemas, if any."""
    whole: bool = True
    """True if the plan has all selected topics; otherwise the others were restored before."""
    target: TargetSnapshot | None = None
    """The target cluster; None if only the plan was made."""


def take_target_snapshot(admin: Admin, plan: RestorePlan) -> TargetSnapshot:
    """Read the state of the target that the checks need."""
    every = admin.topics(None)
    topics = {t.target: every[t.target] for t in plan.topics if t.target in every}
    partitions = [(name, p) for name, t in topics.items() for p in range(t.partition_count)]
    return TargetSnapshot(
        cluster_id=admin.cluster_id(),
        brokers=len(admin.brokers()),
        names=frozenset(every),
        topics=topics,
        starts=admin.offsets(partitions, OffsetSpec.EARLIEST),
        ends=admin.offsets(partitions, OffsetSpec.LATEST),
        needed_in_sync=_needed_in_sync(admin, topics),
    )


def _needed_in_sync(admin: Admin, topics: Mapping[str, TopicDescription]) -> dict[str, int]:
    """Return the effective min.insync.replicas of topics that may have too few in sync.

    Since 3.7 Kafka requires at most the existing number of replicas; older brokers refuse every
    record. Empty if the user may not read the settings; another check reports missing rights.
    """
    caps = admin.broker_version() >= _CAPS_IN_SYNC
    doubtful = [name for name, topic in topics.items() if _lacks_replicas(topic) or not caps]
    try:
        found = admin.all_topic_configs(doubtful)
    except AccessDeniedError:
        return {}
    needed = {name: int(configs[_IN_SYNC].value or 1) for name, configs in found.items()}
    if caps:
        needed = {name: min(n, topics[name].replication_factor) for name, n in needed.items()}
    return needed


def _lacks_replicas(topic: TopicDescription) -> bool:
    return any(len(p.in_sync) < len(p.replicas) for p in topic.partitions.values())


def check_targets(
    plan: RestorePlan,
    target: TargetSnapshot,
    options: RestoreOptions,
    document: RestoreDocument | None,
) -> list[Check]:
    """Check every target topic. Pure."""
    checks = []
    for topic in plan.topics:
        if topic.target in target.topics:
            checks.append(_check_existing(topic, target, options, document))
        else:
            names = target.names | {other.target for other in plan.topics}
            checks.extend(_check_missing(topic, names, target.brokers, options))
    return checks


def check_newer(topics: Iterable[str]) -> list[Check]:
    """Warn that a finished restore does not pick up newer commits. Pure."""
    hint = "Delete the topic to restore it again, or restore into another with --topics a:new-a."
    return [Check(CheckStatus.WARN, topic, NEWER, hint) for topic in topics]


def require_pass(checks: Iterable[Check]) -> None:
    """Raise PreflightError with the first failure and the number of others.

    Raise AccessDeniedError if the first failure is a missing right.
    """
    failed = [check for check in checks if check.verdict is CheckStatus.FAIL]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        denied = failed[0].exit_code == AccessDeniedError.exit_code
        kind = AccessDeniedError if denied else PreflightError
        raise kind(f"{failed[0].subject}: {failed[0].what}{more}", hint=failed[0].hint)


def _check_existing(
    topic: TopicPlan,
    target: TargetSnapshot,
    options: RestoreOptions,
    document: RestoreDocument | None,
) -> Check:
    there = target.topics[topic.target]
    known = document.target(topic.target) if document else None
    more_is_fine = bool(topic.routing.partition_map) and there.partition_count > topic.target_count
    if there.partition_count != topic.target_count and not more_is_fine:
        wants = "the archive" if topic.routing == SAME else "this restore needs"
        return Check(
            CheckStatus.FAIL,
            topic.target,
            f"it has {there.partition_count} partitions, {wants} {topic.target_count}",
            "Delete it, or restore into another topic with --topics a:new-a.",
        )
    if document is not None and known is not None and known.topic_id == there.topic_id:
        return _check_ours(topic, target, document, known, exact=options.exact_offsets)
    if (short := _check_in_sync(topic.target, target)) is not None:
        return short
    if target.is_empty(topic.target):
        return _check_empty(topic, target, options)
    if options.into_non_empty:
        return Check(CheckStatus.WARN, topic.target, "holds records: the restore appends to them")
    return Check(
        CheckStatus.FAIL,
        topic.target,
        "it is not empty",
        "Restore into another topic (--topics a:new-a), or append with --into-non-empty.",
    )


def _check_in_sync(topic: str, target: TargetSnapshot) -> Check | None:
    """Fail if Kafka would refuse every record because too few replicas are in sync."""
    needed = target.needed_in_sync.get(topic, 0)
    for number, partition in sorted(target.topics[topic].partitions.items()):
        if len(partition.in_sync) < needed:
            return Check(
                CheckStatus.FAIL,
                topic,
                f"partition {number} has {len(partition.in_sync)} replicas in sync, "
                f"min.insync.replicas requires {needed}",
                "Bring the other brokers back, or lower min.insync.replicas of the topic.",
            )
    return None


def _check_empty(topic: TopicPlan, target: TargetSnapshot, options: RestoreOptions) -> Check:
    ends = [target.ends[topic.target, number] for number in range(topic.target_count)]
    if options.exact_offsets and any(ends):
        return Check(
            CheckStatus.FAIL,
            topic.target,
            f"it is empty, but its next offset is {max(ends)}: lower offsets cannot be used again",
            "Delete it, or restore into another topic with --topics a:new-a.",
        )
    return Check(CheckStatus.PASS, topic.target, "exists and is empty")


def _check_ours(
    topic: TopicPlan,
    target: TargetSnapshot,
    document: RestoreDocument,
    known: Target,
    *,
    exact: bool,
) -> Check:
    if document.phase is Phase.DONE:
        return Check(CheckStatus.PASS, topic.target, "already restored: nothing to do")
    for number, place in enumerate(known.partitions):
        start, end = target.starts[topic.target, number], target.ends[topic.target, number]
        moved = start > place.base and not exact  # the tasks check those
        if moved or end < place.base:
            return Check(
                CheckStatus.FAIL,
                topic.target,
                f"partition {number} lost records since the restore began: {start}..{end}",
                "Delete the topic and run the restore again.",
            )
    return Check(CheckStatus.PASS, topic.target, "started by this restore: resumes")


def _check_missing(
    topic: TopicPlan, names: Iterable[str], brokers: int, options: RestoreOptions
) -> list[Check]:
    checks = []
    twin = topic.target.replace(".", "_")
    for name in sorted(names):
        if name != topic.target and name.replace(".", "_") == twin:
            checks.append(
                Check(
                    CheckStatus.FAIL,
                    topic.target,
                    f"Kafka refuses it beside {name}: the names differ only in . and _",
                    "Restore it under another name with --topics a:new-a.",
                )
            )
    replicas = replicas_of(topic, options)
    if replicas > brokers:
        checks.append(
            Check(
                CheckStatus.FAIL,
                topic.target,
                f"it had {replicas} replicas, the target has {brokers} brokers",
                f"Choose another number: --replication-factor {brokers}.",
            )
        )
    if not checks:
        named = "the broker's" if replicas == BROKER_DEFAULT else replicas
        what = f"will be created: {topic.target_count} partitions, {named} replicas"
        checks.append(Check(CheckStatus.PASS, topic.target, what))
    return checks


def plan_json(preflight: Preflight) -> dict[str, Any]:
    """Return a plan and its preflight as one document."""
    plan = preflight.plan
    return {
        "message_type": "plan",
        "id": plan.id,
        "log": plan.log,
        "commit": plan.commit,
        "records": plan.records,
        "bytes": plan.raw_bytes,
        "read_bytes": plan.read_bytes,
        "lost": sorted(preflight.lost),
        "topics": [
            {
                "source": t.source.topic,
                "incarnation": t.source.incarnation,
                "target": t.target,
                "partitions": t.target_count,
                "objects": t.objects,
                "records": t.records,
                "bytes": t.raw_bytes,
                "read_bytes": t.read_bytes,
                "shares": list(target_shares(t)),
            }
            for t in plan.topics
        ],
        "groups": [move.to_json() for move in preflight.groups.moves],
        "schemas": None if preflight.schemas is None else preflight.schemas.to_json(),
        "preflight": [check.to_json() for check in preflight.checks],
    }
