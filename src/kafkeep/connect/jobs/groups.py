"""A connector's consumer group: told where the connector has come, so that Kafka's tools see it.

The log alone says where a connector goes on. The group is read once, before there is a log, and
only told afterwards: that it cannot be told is a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import State
from kafkeep.errors import KafkeepError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin import Admin
from kafkeep.kafka.groups import commit_offsets, delete_group

logger = logging.getLogger(__name__)
TopicPartition = tuple[str, int]


def group_of(name: str) -> str:
    """Return the group of a connector, as Connect names it."""
    return f"connect-{name}"


def positions_now(state: State) -> dict[TopicPartition, int]:
    """Return a log's positions by topic and number: those of each topic's newest incarnation."""
    newest = newest_partitions(state)
    return {key: state.positions[pid] for key, pid in newest.items()}


def newest_partitions(state: State) -> dict[TopicPartition, PartitionId]:
    """Return the partitions the log has positions of, less those of topics re-created since."""
    found: dict[TopicPartition, PartitionId] = {}
    for pid in sorted(state.positions, key=lambda p: (p.topic, p.partition, p.incarnation)):
        info = state.latest_incarnation(pid.topic)
        if info is None or info.incarnation == pid.incarnation:
            found[pid.topic, pid.partition] = pid
    return found


class ConnectorGroup:
    """Tells one group what changed; used by one thread."""

    def __init__(self, admin: Admin, id: str) -> None:
        self._admin = admin
        self.id = id
        self._told: dict[TopicPartition, int] = {}
        self._warned: str | None = None

    def tell(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit what is new in ``positions``; what fails is tried again the next time."""
        news = {key: at for key, at in positions.items() if self._told.get(key) != at}
        if not news:
            return
        try:
            failpoint("group.before")
            commit_offsets(self._admin, self.id, news)
            failpoint("group.after")
        except KafkeepError as error:
            if error.message != self._warned:
                logger.warning("offsets of group %s are not told: %s", self.id, error.message)
            self._warned = error.message
            return
        self._told.update(news)
        self._warned = None


def replace_offsets(admin: Admin, group: str, positions: Mapping[TopicPartition, int]) -> None:
    """Make the group say this and nothing else, after positions were moved; a failure warns."""
    try:
        delete_group(admin, group)
        commit_offsets(admin, group, positions)
    except KafkeepError as error:
        logger.warning("offsets of group %s are not moved: %s", group, error.message)
