"""A log that Kafka cut back under its topic id: never mixed with what was archived. On the driver.

An unclean leader election loses records and lets others take their offsets. The leader epoch of the
last archived batch tells: in the new log it ends before the position.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkeep.archive.commit import Intent
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.state import State
from kafkeep.errors import KafkeepError
from kafkeep.kafka.admin import Admin

TopicPartition = tuple[str, int]


def check_not_cut_back(pid: PartitionId, position: int, end: int) -> None:
    """Raise KafkeepError when Kafka's log of that time ends before what was archived of it."""
    if position > end:
        raise KafkeepError(
            f"{pid}: archived up to offset {position}, but Kafka's log of that time ends at "
            f"{end}: it was cut back under the same topic id",
            hint="Records were lost in Kafka (unclean leader election?); "
            "back up under another --name to keep both histories.",
        )


def check_intent(admin: Admin, intent: Intent, state: State) -> None:
    """Raise KafkeepError when a partition of a dead writer's intent was cut back since.

    Partitions whose topic is gone, or another by now, are left to the tasks, which see it.
    """
    topics = admin.topics(sorted({planned.partition_id.topic for planned in intent.ranges}))
    met: dict[TopicPartition, PartitionId] = {}
    for planned in intent.ranges:
        pid = planned.partition_id
        if pid.topic in topics and topics[pid.topic].topic_id == planned.topic_id:
            met[pid.topic, pid.partition] = pid
    epochs = {key: e for key, pid in met.items() if (e := state.leader_epochs.get(pid)) is not None}
    for key, end in load_epoch_ends(admin, epochs).items():
        check_not_cut_back(met[key], state.positions[met[key]], end)


def load_epoch_ends(
    admin: Admin, epochs: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return where leader epochs end in Kafka's logs, where Kafka knows that."""
    ends = admin.epoch_ends(epochs) if epochs else {}
    return {key: end.end_offset for key, end in ends.items() if end.end_offset >= 0}
