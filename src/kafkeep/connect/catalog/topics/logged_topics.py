"""What a log holds of each topic, summed up once and then commit by commit. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkeep.archive.commit import Gap, TopicInfo
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.catalog.topics.coverage import LoggedPartition
from kafkeep.numba_setup import Int64s

_VALUES = pa.array(["value", "tombstones"])
"""The views that count records; objects of keys and headers hold the same records again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTopic:
    """One incarnation of a topic in one log."""

    log: ArchiveLog = field(repr=False)
    info: TopicInfo
    positions: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0
    objects: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    gaps: tuple[Gap, ...] = ()

    @property
    def identity(self) -> str:
        """Tells the incarnations of a name apart, in all logs: Kafka's topic id if it is known."""
        return self.info.topic_id or f"incarnation {self.info.incarnation}"

    @property
    def lost_offsets(self) -> int:
        """Offsets in gaps."""
        return sum(len(gap.range) for gap in self.gaps)

    @property
    def is_exact(self) -> bool:
        """Whether all its objects hold the record batches as Kafka stored them."""
        return pc.all(pc.equal(self.entries()["format"], "segment")).as_py() is True

    def entries(self) -> pa.Table:
        """Return its rows of the index."""
        rows = rows_of_topic(self.log.entries, self.info.topic)
        return rows.filter(pc.equal(rows["incarnation"], self.info.incarnation))

    def partitions(self) -> dict[int, LoggedPartition]:
        """Return what the log holds of each partition."""
        rows = count_rows(self.entries())
        numbers = as_int64(rows["partition"])
        starts, ends = as_int64(rows["start"]), as_int64(rows["end"])
        counts = as_int64(rows["records"])
        gaps: dict[int, list[Gap]] = defaultdict(list)
        for gap in self.gaps:
            gaps[gap.partition_id.partition].append(gap)
        found = {}
        for number in sorted({*np.unique(numbers).tolist(), *gaps, *self.positions}):
            mine = np.flatnonzero(numbers == number)
            mine = mine[np.argsort(starts[mine], kind="stable")]
            found[number] = LoggedPartition(
                starts=starts[mine],
                ends=ends[mine],
                records=counts[mine],
                gaps=tuple(gap.range for gap in gaps.get(number, ())),
                position=self.positions.get(number, 0),
            )
        return found


_Sums = tuple[int, int, int | None, int | None]
"""A sum, the number of rows, the oldest and the newest time."""
Summary = Mapping[str, tuple[LoggedTopic, ...]]
"""The incarnations of each topic of a log, the oldest first."""
TopicKey = tuple[str, int]
"""Topic and incarnation."""


def summarize_log(log: ArchiveLog) -> Summary:
    """Return what a log holds of each topic. Sums up all of its entries."""
    sums = _sums(count_rows(log.entries), "records")
    sizes = _sums(log.entries, "size_bytes")
    positions: dict[TopicKey, dict[int, int]] = defaultdict(dict)
    for (topic, incarnation, partition), offset in log.view.positions.items():
        positions[topic, incarnation][partition] = offset
    gaps: dict[TopicKey, list[Gap]] = defaultdict(list)
    for gap in log.gaps:
        gaps[gap.partition_id[:2]].append(gap)
    found: dict[str, tuple[LoggedTopic, ...]] = {}
    for key, info in log.view.topics.items():
        empty = LoggedTopic(log=log, info=info, gaps=tuple(gaps.get(key, ())))
        made = _with_more(empty, sums.get(key), sizes.get(key), positions.get(key, {}))
        found[info.topic] = (*found.get(info.topic, ()), made)
    return found


def read_on_summary(before: Summary, old: ArchiveLog, log: ArchiveLog) -> Summary:
    """Return the summary of a log that has grown; sums up only the entries that are new."""
    if (
        log.loaded.base is not old.loaded.base
        or log.view.state.retired is not old.view.state.retired
    ):
        return summarize_log(log)
    rows = log.entries.slice(old.entries.num_rows)
    sums, sizes = _sums(count_rows(rows), "records"), _sums(rows, "size_bytes")
    positions: dict[TopicKey, dict[int, int]] = defaultdict(dict)
    gaps: dict[TopicKey, list[Gap]] = defaultdict(list)
    for commit in log.loaded.tail[len(old.loaded.tail) :]:
        for (topic, incarnation, partition), offset in commit.changes.positions.items():
            positions[topic, incarnation][partition] = offset
        for gap in commit.changes.gaps:
            gaps[gap.partition_id[:2]].append(gap)
    known = {_key(one.info): one for several in before.values() for one in several}
    found: dict[str, tuple[LoggedTopic, ...]] = {}
    for key, info in log.view.topics.items():
        one = known.get(key) or LoggedTopic(log=log, info=info)
        one = replace(one, log=log, info=info, gaps=(*one.gaps, *gaps.get(key, ())))
        if key in positions or key in sizes:
            one = _with_more(one, sums.get(key), sizes.get(key), positions.get(key, {}))
        found[info.topic] = (*found.get(info.topic, ()), one)
    return found


def _key(info: TopicInfo) -> TopicKey:
    return info.topic, info.incarnation


def _with_more(
    one: LoggedTopic, sums: _Sums | None, sizes: _Sums | None, positions: Mapping[int, int]
) -> LoggedTopic:
    """Add the sums of some entries to a topic."""
    records, _, oldest, newest = sums or (0, 0, None, None)
    size, objects, _, _ = sizes or (0, 0, None, None)
    return replace(
        one,
        positions={**one.positions, **positions},
        records=one.records + records,
        size_bytes=one.size_bytes + size,
        objects=one.objects + objects,
        oldest_ms=min((t for t in (one.oldest_ms, oldest) if t is not None), default=None),
        newest_ms=max((t for t in (one.newest_ms, newest) if t is not None), default=None),
    )


def _sums(rows: pa.Table, column: str) -> dict[TopicKey, _Sums]:
    """Return the sum, the number of rows, the oldest and the newest time by topic."""
    grouped = rows.group_by(["topic", "incarnation"]).aggregate(
        [(column, "sum"), (column, "count"), ("min_timestamp", "min"), ("max_timestamp", "max")]
    )
    names = (f"{column}_sum", f"{column}_count", "min_timestamp_min", "max_timestamp_max")
    keys = zip(grouped["topic"].to_pylist(), grouped["incarnation"].to_pylist(), strict=True)
    values = zip(*(grouped[name].to_pylist() for name in names), strict=True)
    return dict(zip(keys, values, strict=True))


def rows_of_topic(rows: pa.Table, topic: str) -> pa.Table:
    """Return the rows of one topic."""
    return rows.filter(pc.equal(rows["topic"], topic))


def count_rows(rows: pa.Table) -> pa.Table:
    """Return the rows whose records count."""
    return rows.filter(pc.is_in(rows["view"], value_set=_VALUES))


def as_int64(column: pa.ChunkedArray) -> Int64s:
    """Return a column without nulls as an array."""
    found: Int64s = column.to_numpy().astype(np.int64)
    return found


def gap_times(topics: Iterable[LoggedTopic]) -> list[tuple[int, int]]:
    """Return about when the records of each gap were written: between those around it."""
    return [span for topic in topics if topic.gaps for span in _gap_times(topic)]


def _gap_times(topic: LoggedTopic) -> list[tuple[int, int]]:
    rows = count_rows(topic.entries())
    numbers, starts = as_int64(rows["partition"]), as_int64(rows["start"])
    ends = as_int64(rows["end"])
    lows, highs = as_int64(rows["min_timestamp"]), as_int64(rows["max_timestamp"])
    found = []
    for gap in topic.gaps:
        partition = gap.partition_id.partition
        before = np.flatnonzero((numbers == partition) & (ends <= gap.range.start) & (highs >= 0))
        after = np.flatnonzero((numbers == partition) & (starts >= gap.range.end) & (lows >= 0))
        end = int(lows[after].min()) if len(after) else gap.at_ms
        begin = int(highs[before[np.argmax(ends[before])]]) if len(before) else end
        found.append((min(begin, end), max(begin, end)))
    return found


def newest_rows(topics: Iterable[LoggedTopic], start: int, end: int) -> list[dict[str, Any]]:
    """Return some rows of the index, by newest record, each with its ``log``."""
    tables = []
    for one in topics:
        rows = one.entries()
        name = pa.array([one.log.name] * rows.num_rows, type=pa.string())
        place = pa.array([one.log.place.id] * rows.num_rows, type=pa.string())
        tables.append(rows.append_column("log", name).append_column("place", place))
    if not tables:
        return []
    rows = pa.concat_tables(tables)
    order = pc.sort_indices(
        rows,
        sort_keys=[
            ("max_timestamp", "descending"),
            ("partition", "ascending"),
            ("start", "descending"),
        ],
    )
    found: list[dict[str, Any]] = rows.take(order.slice(start, end - start)).to_pylist()
    return found
