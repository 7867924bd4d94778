"""Groups where records were dealt out anew: it has a meaning where what is read comes first.

A group's place in a target partition is before the first record that it had not read. That is its
place only if all behind it is unread, too. On the driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kafkeep.archive.store import ObjectStore
from kafkeep.contents.options import ReadOptions
from kafkeep.kafka.walk import Walked
from kafkeep.kernel import Int64s
from kafkeep.restore.groups import GroupMove
from kafkeep.restore.plan import PartitionPlan, TopicPlan
from kafkeep.restore.shape_lanes import blocks_of
from kafkeep.restore.shape_merge import merge
from kafkeep.restore.shape_rows import SourceRows
from kafkeep.restore.translate import check_offsets
from kafkeep.restore.work import shares

AT_ONCE = 62
"""Groups that are followed in one pass: a bit for each, in the place of a record's offset."""

Positions = Mapping[int, int]
"""A group's archived offsets, by partition."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a group had read of a target partition."""

    records: int
    first: bool
    """Whether they come before all that it had not read."""


def count_read(
    store: ObjectStore,
    topic: TopicPlan,
    groups: Sequence[Positions],
    *,
    restore_aborted: bool,
    options: ReadOptions,
) -> list[dict[int, Read]]:
    """Return what each group had read of each target partition; reads all of the topic.

    PreflightError when objects do not tell the offsets of their records.
    """
    sources = [partition for partition in topic.partitions if partition.ranges != ()]
    for piece in (piece for source in sources for piece in source.all_pieces()):
        check_offsets(piece)

    def blocks(source: PartitionPlan, some: Sequence[Positions]) -> Iterator[tuple[Walked, int]]:
        rows = SourceRows(store, source.all_pieces(), source.times, restore_aborted, options)
        ends = np.array([group.get(source.partition, 0) for group in some], dtype=np.int64)
        for records, codec in rows.rows(topic.shape):
            yield _marked(records, ends), codec

    found: list[dict[int, Read]] = []
    for start in range(0, len(groups), AT_ONCE):
        some = groups[start : start + AT_ONCE]
        tallies = {number: _Tally(len(some)) for number in shares(topic)}
        dealt = [blocks_of(blocks(s, some), s.partition, topic.shape) for s in sources]
        for block in merge(dealt):
            for number in np.unique(block.targets).tolist():
                tallies[number].add(block.rows.offsets[block.targets == number])
        found += [
            {n: tally.of(place) for n, tally in tallies.items()} for place in range(len(some))
        ]
    return found


def _marked(records: Walked, ends: Int64s) -> Walked:
    """Put in the place of each offset a bit for every group that has read it."""
    read = records.offsets[:, None] < ends[None, :]
    bits = np.left_shift(1, np.arange(len(ends), dtype=np.int64))
    marks: Int64s = (read * bits[None, :]).sum(axis=1, dtype=np.int64)
    return Walked(
        records.buffer,
        marks,
        records.timestamps,
        records.timestamp_types,
        records.fields,
        records.ends,
        records.totals,
    )


class _Tally:
    """One target partition as several groups have read it."""

    def __init__(self, groups: int) -> None:
        self._read = np.zeros(groups, dtype=np.int64)
        self._unread = np.zeros(groups, dtype=np.int64)
        self._mixed = np.zeros(groups, dtype=np.bool_)

    def add(self, marks: Int64s) -> None:
        """Take the next records, in order."""
        for group in range(len(self._read)):
            read = (marks >> group & 1).astype(np.bool_)
            unread = np.flatnonzero(~read)
            first = 0 if self._unread[group] else (unread[0] if len(unread) else len(read))
            self._mixed[group] |= bool(read[first:].any())
            self._read[group] += int(read.sum())
            self._unread[group] += len(unread)

    def of(self, group: int) -> Read:
        """Return what one group has read."""
        return Read(int(self._read[group]), not self._mixed[group])


def plan_routed(
    topic: TopicPlan,
    groups: Mapping[str, Positions],
    counted: Sequence[Mapping[int, Read]],
    bases: Mapping[int, int],
) -> tuple[list[GroupMove], list[str]]:
    """Return where groups go in one topic, and in sentences which of them cannot. Pure."""
    moves: list[GroupMove] = []
    refused: list[str] = []
    filled = [p.partition for p in topic.partitions if p.ranges != () and p.records]
    for (group, positions), places in zip(groups.items(), counted, strict=True):
        lacking = [number for number in filled if number not in positions]
        mixed = [number for number, read in places.items() if not read.first]
        if lacking:
            refused.append(f"group {group} had no offset on {topic.source.topic}-{lacking[0]}")
        elif mixed:
            refused.append(
                f"group {group} has no place in {topic.target}-{mixed[0]}: records that it had "
                "read would stand behind others"
            )
        else:
            moves += [
                GroupMove(group, topic.target, number, None, bases[number] + read.records)
                for number, read in sorted(places.items())
            ]
    return moves, refused
