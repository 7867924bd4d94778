"""The consumer group of a sink connector, which shows its positions to Kafka's tools."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import LogState
from kafkeep.errors import KafkeepError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.kafka.admin.groups import commit_offsets, delete_group
from kafkeep.kafka.client.metadata import TopicPartition

logger = logging.getLogger(__name__)


def group_of(name: str) -> str:
    """Return the consumer group of a connector, as Connect names it."""
    return f"connect-{name}"


def positions_now(state: LogState) -> dict[TopicPartition, int]:
    """Return a log's positions by topic and partition, of each topic's newest incarnation."""
    newest = _newest_incarnations(state)
    if any(pid.topic not in newest for pid in state.positions):
        return {key: state.positions[pid] for key, pid in newest_partitions(state).items()}
    return {
        (topic, number): at
        for (topic, incarnation, number), at in state.positions.items()
        if newest[topic] == incarnation
    }


def newest_partitions(state: LogState) -> dict[TopicPartition, PartitionId]:
    """Return the partitions that have positions, without those of re-created topics."""
    newest = _newest_incarnations(state)
    return {
        (pid.topic, pid.partition): pid
        for pid in sorted(state.positions)  # later incarnations replace earlier ones
        if newest.get(pid.topic, pid.incarnation) == pid.incarnation
    }


def _newest_incarnations(state: LogState) -> dict[str, int]:
    newest: dict[str, int] = {}
    for topic, incarnation in state.topics:
        newest[topic] = max(incarnation, newest.get(topic, 0))
    return newest


class ConnectorGroup:
    """Commits changed positions to one group; used by one thread."""

    def __init__(self, admin: Admin, id: str) -> None:
        self._admin = admin
        self.id = id
        self._committed: dict[TopicPartition, int] = {}
        self._warned: str | None = None

    def commit(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Commit what is new in ``positions``; return False to try again the next time."""
        changed = {key: at for key, at in positions.items() if self._committed.get(key) != at}
        if not changed:
            return True
        try:
            failpoint("group.before")
            commit_offsets(self._admin, self.id, changed)
            failpoint("group.after")
        except KafkeepError as error:
            if error.message != self._warned:
                logger.warning("cannot commit offsets of group %s: %s", self.id, error.message)
            self._warned = error.message
            return False
        self._committed.update(changed)
        self._warned = None
        return True


def replace_offsets(admin: Admin, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """Replace all offsets of the group after positions were moved; a failure is a warning."""
    try:
        delete_group(admin, group)
        commit_offsets(admin, group, positions)
    except KafkeepError as error:
        logger.warning("cannot move offsets of group %s: %s", group, error.message)
