"""Objects that no log names, as a log would name them: what a restore plans by. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.archive.checkpoint import Checkpoint
from kafkeep.archive.commit import Changes, Commit, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.head import Head
from kafkeep.archive.state import State
from kafkeep.archive.store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.config.foreign import ForeignOptions
from kafkeep.contents.foreign.group import Grouped, group
from kafkeep.contents.foreign.index import Index

NAME = "confluent-objects"
"""Stands where the name of a log would."""
BROKER_DEFAULT = -1
"""Asks the broker for its own number of replicas."""


@dataclass(frozen=True, slots=True)
class ForeignView:
    """A view, and what could not be made part of it."""

    view: ArchiveView
    grouped: Grouped
    index: Index


def foreign_view(store: ObjectStore, index: Index, options: ForeignOptions) -> ForeignView:
    """Make a view of objects; the topics have as many partitions as names and ``index`` tell."""
    grouped = group(index.objects, options)
    topics = tuple(_topics(grouped, index))
    changes = Changes(entries=tuple(grouped.entries), topics=topics)
    state = State(
        name=NAME,
        commit=index.number,
        topics={(info.topic, info.incarnation): info for info in topics},
        positions=_positions(grouped.entries),
    )
    commit = Commit(
        log=NAME, number=index.number, previous="", epoch=0, writer="", at_ms=0, changes=changes
    )
    base = Checkpoint(State(name=NAME))
    return ForeignView(ArchiveView(store, Head(state, base, (commit,))), grouped, index)


def _topics(grouped: Grouped, index: Index) -> list[TopicInfo]:
    counts: dict[str, int] = {}
    for one in index.objects:
        counts[one.name.topic] = max(counts.get(one.name.topic, 0), one.name.partition + 1)
    return [
        TopicInfo(
            topic=topic,
            incarnation=1,
            topic_id="",
            partitions=max(count, index.partitions.get(topic, 0)),
            replication_factor=BROKER_DEFAULT,
            configs={},
        )
        for topic, count in sorted(counts.items())
    ]


def _positions(entries: list[Entry]) -> dict[PartitionId, int]:
    found: dict[PartitionId, int] = {}
    for entry in entries:
        found[entry.partition_id] = max(found.get(entry.partition_id, 0), entry.range.end)
    return found
