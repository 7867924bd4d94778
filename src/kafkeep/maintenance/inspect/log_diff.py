"""What changed in a log between two of its commits: ``kafkeep diff``.

Reads the commits between the two, not what existed before. Objects that were retired (their
partition was moved back) count as gone, although they stay in the store.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkeep.archive.commit import Changes, Gap, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import decode_stored, iter_stored_commits
from kafkeep.archive.schemas import SchemaSet, load_schemas
from kafkeep.archive.state import LogState
from kafkeep.archive.view import load_view
from kafkeep.maintenance.inspect.commit_summary import StorageSums


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """How one topic differs: new, deleted from Kafka, or with other settings."""

    topic: str
    incarnation: int
    kind: str
    """new, deleted or changed."""
    partitions: tuple[int, int]
    """How many before and after."""
    settings: Mapping[str, tuple[str | None, str | None]]
    """Settings that differ, before and after; None where the broker's default applies."""

    @property
    def folder(self) -> str:
        return PartitionId(self.topic, self.incarnation, 0).folder


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """How the archived offsets of one partition differ."""

    partition_id: PartitionId
    before: int | None
    """Archived up to here (exclusive) before; None if the log did not have the partition."""
    after: int | None
    """The same after; None if it begins anew."""
    added: StorageSums
    retired: StorageSums


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffsetChange:
    """A consumer group's offset on one partition that differs; None where it had none."""

    group: str
    partition_id: PartitionId
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A version of a subject that came or went."""

    subject: str
    version: int
    kind: str
    """added or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDiff:
    """What a later commit has that an earlier one has not, and the other way round."""

    log: str
    from_commit: int
    to_commit: int
    from_ms: int
    to_ms: int
    topics: tuple[TopicChange, ...]
    partitions: tuple[PartitionChange, ...]
    added: tuple[Entry, ...]
    retired: tuple[Entry, ...]
    gaps: tuple[Gap, ...]
    groups: tuple[GroupOffsetChange, ...]
    schemas: tuple[SchemaChange, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``diff --output json``."""
        return {
            "log": self.log,
            "from_commit": self.from_commit,
            "to_commit": self.to_commit,
            "from_ms": self.from_ms,
            "to_ms": self.to_ms,
            "topics": [
                {
                    "topic": one.topic,
                    "incarnation": one.incarnation,
                    "change": one.kind,
                    "partitions": list(one.partitions),
                    "settings": {key: list(pair) for key, pair in one.settings.items()},
                }
                for one in self.topics
            ],
            "partitions": [
                {
                    **_named(one.partition_id),
                    "before": one.before,
                    "after": one.after,
                    "added": _sums_json(one.added),
                    "retired": _sums_json(one.retired),
                }
                for one in self.partitions
            ],
            "objects": {
                "added": [entry.key for entry in self.added],
                "retired": [entry.key for entry in self.retired],
            },
            "gaps": [
                {
                    **_named(gap.partition_id),
                    "start": gap.range.start,
                    "end": gap.range.end,
                    "reason": gap.reason,
                }
                for gap in self.gaps
            ],
            "groups": [
                {
                    "group": one.group,
                    **_named(one.partition_id),
                    "before": one.before,
                    "after": one.after,
                }
                for one in self.groups
            ],
            "schemas": [
                {"subject": one.subject, "version": one.version, "change": one.kind}
                for one in self.schemas
            ],
        }


def _named(pid: PartitionId) -> dict[str, Any]:
    return {"topic": pid.topic, "incarnation": pid.incarnation, "partition": pid.partition}


def _sums_json(sums: StorageSums) -> dict[str, int]:
    return {
        "objects": sums.objects,
        "records": sums.records,
        "stored_bytes": sums.size_bytes,
        "raw_bytes": sums.raw_bytes,
    }


def load_diff(store: ObjectStore, name: str, from_commit: int, to_commit: int) -> LogDiff:
    """Compare two commits of a log, of which ``from_commit`` is the earlier one.

    NoSuchArchiveError when the log has no such commit.
    """
    old = load_view(store, name, commit=from_commit)
    new = load_view(store, name, commit=to_commit)
    between = [
        decode_stored(name, stored).changes
        for stored in iter_stored_commits(store, name, from_commit + 1, to_commit)
    ]
    moved_back = {pid.topic for changes in between for pid in changes.retired}
    before = [entry for topic in sorted(moved_back) for entry in old.entries(topic)]
    schemas = (
        ({}, {})
        if old.schemas == new.schemas
        else (
            _versions(store, name, old.schemas),
            _versions(store, name, new.schemas),
        )
    )
    return diff_states(old.state, new.state, between, before=before, schemas=schemas)


def _versions(store: ObjectStore, name: str, digest: str) -> dict[tuple[str, int], int]:
    found = load_schemas(store, name, digest) if digest else SchemaSet()
    return {(subject, one.version): one.id for subject, one in found.versions()}


def diff_states(
    old: LogState,
    new: LogState,
    between: Iterable[Changes],
    *,
    before: Iterable[Entry] = (),
    schemas: tuple[Mapping[tuple[str, int], int], Mapping[tuple[str, int], int]] = ({}, {}),
) -> LogDiff:
    """Compare two states of a log; ``between`` are the changes that led from one to the other.

    ``before`` are the entries that counted at ``old``, of topics that were moved back since. Pure.
    """
    between, before = list(between), list(before)
    # An object that is cut when its partition moves back gets a new entry for the part that counts.
    known = {entry.key for entry in before}
    counted = [e for changes in between for e in changes.entries if _counts(new, e)]
    kept = {entry.key for entry in counted}
    added = sorted(
        (e for e in counted if e.key not in known),
        key=lambda entry: (entry.partition_id, entry.range.start),
    )
    retired = [e for e in before if not _counts(new, e) and e.key not in kept]
    gaps = sorted(
        (
            gap
            for changes in between
            for gap in changes.gaps
            if new.counts(gap.partition_id, gap.generation, gap.range.end)
        ),
        key=lambda gap: (gap.partition_id, gap.range),
    )
    return LogDiff(
        log=new.name,
        from_commit=old.commit,
        to_commit=new.commit,
        from_ms=old.at_ms,
        to_ms=new.at_ms,
        topics=tuple(_topics(old, new)),
        partitions=tuple(_partitions(old, new, added, retired)),
        added=tuple(added),
        retired=tuple(retired),
        gaps=tuple(gaps),
        groups=tuple(_groups(old, new)),
        schemas=tuple(_schemas(*schemas)),
    )


def _counts(state: LogState, entry: Entry) -> bool:
    return state.counts(entry.partition_id, entry.generation, entry.range.end)


def _topics(old: LogState, new: LogState) -> Iterable[TopicChange]:
    for key, after in sorted(new.topics.items()):
        before = old.topics.get(key)
        if before == after:
            continue
        kind = "changed"
        if before is None:
            kind = "new"
        elif after.deleted and not before.deleted:
            kind = "deleted"
        yield TopicChange(
            topic=after.topic,
            incarnation=after.incarnation,
            kind=kind,
            partitions=(before.partitions if before else 0, after.partitions),
            settings=_settings(before, after),
        )


def _settings(
    before: TopicInfo | None, after: TopicInfo
) -> dict[str, tuple[str | None, str | None]]:
    old, new = before.configs if before else {}, after.configs
    return {
        key: (old.get(key), new.get(key))
        for key in sorted({*old, *new})
        if old.get(key) != new.get(key)
    }


def _partitions(
    old: LogState, new: LogState, added: Iterable[Entry], retired: Iterable[Entry]
) -> Iterable[PartitionChange]:
    came: dict[PartitionId, list[Entry]] = defaultdict(list)
    went: dict[PartitionId, list[Entry]] = defaultdict(list)
    for entry in added:
        came[entry.partition_id].append(entry)
    for entry in retired:
        went[entry.partition_id].append(entry)
    for pid in sorted({*old.positions, *new.positions, *came, *went}):
        before, after = old.positions.get(pid), new.positions.get(pid)
        if before != after or pid in came or pid in went:
            yield PartitionChange(
                partition_id=pid,
                before=before,
                after=after,
                added=StorageSums.of(came[pid]),
                retired=StorageSums.of(went[pid]),
            )


def _groups(old: LogState, new: LogState) -> Iterable[GroupOffsetChange]:
    for group in sorted({*old.groups, *new.groups}):
        before, after = old.groups.get(group, {}), new.groups.get(group, {})
        for pid in sorted({*before, *after}):
            if before.get(pid) != after.get(pid):
                yield GroupOffsetChange(
                    group=group, partition_id=pid, before=before.get(pid), after=after.get(pid)
                )


def _schemas(
    before: Mapping[tuple[str, int], int], after: Mapping[tuple[str, int], int]
) -> Iterable[SchemaChange]:
    for kind, these, others in (("added", after, before), ("removed", before, after)):
        for subject, version in sorted({*these} - {*others}):
            yield SchemaChange(subject=subject, version=version, kind=kind)
