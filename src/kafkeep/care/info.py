"""What an archive holds, log by log and topic by topic."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache

from kafkeep.archive.commit import Gap, TopicInfo
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.reader import ArchiveView, load_view
from kafkeep.archive.store import ObjectStore
from kafkeep.care.holdings import LogInfo, PartitionSummary, TopicSummary
from kafkeep.care.logs import check_topics
from kafkeep.care.schemas import count_schemas
from kafkeep.contents.missing import what_is_missing
from kafkeep.contents.options import ReadOptions, load_read_options
from kafkeep.contents.windows import SEGMENT


def load_info(
    store: ObjectStore, names: Sequence[str], *, topics: Collection[str] | None = None
) -> list[LogInfo]:
    """Describe the logs of those names, and of them all topics or the ones given."""
    views = [load_view(store, name) for name in names]
    check_topics(views, topics)
    found = [describe(view, topics, lambda v=view: load_read_options(store, v)) for view in views]  # type: ignore[misc]
    return [
        replace(log, schemas=count_schemas(store, v)) for log, v in zip(found, views, strict=True)
    ]


def describe(
    view: ArchiveView,
    topics: Collection[str] | None = None,
    load_options: Callable[[], ReadOptions] = ReadOptions,
) -> LogInfo:
    """Describe one log; reads its tables of entries.

    ``load_options`` is asked how a sink wrote, when there are objects of one, and once.
    """
    state, ask = view.state, cache(load_options)
    wanted = [info for (topic, _), info in view.topics.items() if topics is None or topic in topics]
    gaps: dict[PartitionId, list[Gap]] = defaultdict(list)
    for gap in view.gaps:
        gaps[gap.partition_id].append(gap)
    return LogInfo(
        name=view.name,
        commits=view.commits,
        commit=view.commit,
        at_ms=view.at_ms,
        writer=state.writer,
        epoch=state.epoch,
        intent_open=view.intent is not None,
        topics=tuple(_topic(view, info, gaps, ask) for info in wanted),
        groups=_groups(view, topics),
    )


def _topic(
    view: ArchiveView,
    info: TopicInfo,
    gaps: Mapping[PartitionId, Sequence[Gap]],
    load_options: Callable[[], ReadOptions],
) -> TopicSummary:
    entries: dict[int, list[Entry]] = defaultdict(list)
    of_sink: list[Entry] = []
    for entry in view.entries(info.topic, info.incarnation):
        entries[entry.partition_id.partition].append(entry)
        if entry.format != SEGMENT:
            of_sink.append(entry)
    partitions = []
    for pid, position in sorted(view.positions.items()):
        if (pid.topic, pid.incarnation) == (info.topic, info.incarnation):
            mine, lost = entries[pid.partition], tuple(gaps.get(pid, ()))
            starts = [e.range.start for e in mine] + [g.range.start for g in lost]
            partitions.append(
                PartitionSummary(
                    partition=pid.partition,
                    start=min(starts, default=position),
                    end=position,
                    entries=tuple(mine),
                    gaps=lost,
                )
            )
    missing = what_is_missing(of_sink, load_options()) if of_sink else ()
    return TopicSummary(info=info, partitions=tuple(partitions), missing=missing)


def _groups(view: ArchiveView, topics: Collection[str] | None) -> dict[str, dict[PartitionId, int]]:
    found = {
        group: {
            pid: offset
            for pid, offset in sorted(offsets.items())
            if topics is None or pid.topic in topics
        }
        for group, offsets in sorted(view.groups.items())
    }
    return {group: offsets for group, offsets in found.items() if offsets}
