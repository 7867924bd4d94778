"""Recognise topics: a topic that was deleted and created again is a new incarnation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkeep.archive.commit import TopicInfo
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import LogState
from kafkeep.backup.cluster_snapshot import ClusterSnapshot


@dataclass(frozen=True, slots=True)
class LoggedState:
    """What planning needs of the log."""

    positions: Mapping[PartitionId, int]
    latest: Mapping[str, TopicInfo]
    """Topic → its newest incarnation."""
    folders: Mapping[str, int] = field(default_factory=dict)
    """Topic → the highest number of its folders, where that is not the incarnation's."""

    @classmethod
    def of(cls, state: LogState) -> LoggedState:
        """Take it from the state of a log."""
        latest = {name: info for (name, _), info in sorted(state.topics.items())}
        return cls(state.positions, latest, state.last_folders())


def current_epochs(state: LogState) -> dict[tuple[str, int], int]:
    """Return the leader epochs of the last archived batches, of the newest incarnations."""
    latest = LoggedState.of(state).latest
    return {
        (pid.topic, pid.partition): epoch
        for pid, epoch in state.leader_epochs.items()
        if latest[pid.topic].incarnation == pid.incarnation
    }


def current_groups(state: LogState) -> dict[str, set[str]]:
    """Return the groups of the log, with the newest incarnations on which they have offsets."""
    latest = LoggedState.of(state).latest
    return {
        group: {pid.topic for pid in at if latest[pid.topic].incarnation == pid.incarnation}
        for group, at in state.groups.items()
    }


def identify_topics(snapshot: ClusterSnapshot, logged: LoggedState) -> dict[str, TopicInfo]:
    """Return each topic with its incarnation: a topic id that the log has not seen is a new one.

    The number of a new incarnation is past all folders of its topic.
    """
    found = {}
    for name, topic in snapshot.topics.items():
        before = logged.latest.get(name)
        if before is None:
            incarnation = 1
        elif before.topic_id != topic.topic_id or before.deleted:
            incarnation = max(before.incarnation, logged.folders.get(name, 0)) + 1
        else:
            incarnation = before.incarnation
        found[name] = TopicInfo(
            topic=name,
            incarnation=incarnation,
            topic_id=topic.topic_id,
            partitions=len(topic.partitions),
            replication_factor=topic.replication_factor,
            configs=dict(topic.configs),
        )
    return found
