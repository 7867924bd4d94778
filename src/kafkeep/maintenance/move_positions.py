"""Move a log's positions on request: back, to archive records again, or forward, to skip some.

Nothing is deleted. Entries past a position that moves back are retired; earlier commits
(``--commit``) still have them. Skipped offsets are recorded as a requested gap.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkeep.archive.commit import Changes, Gap
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.archive.log import CommitLog
from kafkeep.archive.names import topic_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.archive.view import ArchiveView, load_view
from kafkeep.errors import UsageError
from kafkeep.kafka.batch.decode import decode
from kafkeep.objects.segment.reader import iter_segment
from kafkeep.objects.sink.read_windows import SEGMENT

BY_REQUEST = "by request"
FORGET_EPOCH = -1
_PARTITIONS_END, _OFFSETS_END = 1 << 31, 1 << 63


def move_positions(
    store: ObjectStore,
    log_name: str,
    moves: Mapping[tuple[str, int], int | None],
    *,
    writer: str,
    now_ms: Callable[[], int],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Commit new positions: each partition is archived up to its offset, or not at all for None.

    None forgets a partition: the next run starts where Kafka's log starts. A partition that is
    not in the log starts at its offset. Takes over the log from its writer and abandons an open
    intent: its objects stay uncommitted. Raise UsageError and move nothing if a topic, a partition
    or an offset is invalid, or if the offset is inside of objects that cannot be cut there.
    """
    for (topic, number), offset in moves.items():
        topic_name(topic)  # readers would treat a commit with an invalid name as damage
        if not 0 <= number < _PARTITIONS_END:
            raise UsageError(f"{topic}: {number} is not a partition")
        if offset is not None and not 0 <= offset < _OFFSETS_END:
            raise UsageError(f"{topic}-{number}: {offset} is not an offset")
    note = f"log {log_name} taken by {writer}, to move offsets"
    log = CommitLog.open(store, log_name, writer=writer, now_ms=now_ms, note=note, sleep=sleep)
    view = load_view(store, log_name)
    moved = _Moved(now_ms())
    for (topic, number), offset in sorted(moves.items()):
        pid = PartitionId(topic, _incarnation(log.state, topic), number)
        if offset != view.positions.get(pid):
            moved.names.append(f"{pid} from {view.positions.get(pid)} to {offset}")
            _move(store, view, pid, offset, moved)
    if not moved.names:
        return
    log.append(
        Changes(
            entries=tuple(moved.entries),
            gaps=tuple(moved.gaps),
            positions=moved.positions,
            retired=moved.retired,
            leader_epochs=dict.fromkeys(moved.positions, FORGET_EPOCH),
            closes_intent=log.state.intent is not None,
            note=f"moved {BY_REQUEST}: {', '.join(moved.names)}",
        )
    )


@dataclass(slots=True)
class _Moved:
    """The contents of the commit."""

    at_ms: int
    positions: dict[PartitionId, int] = field(default_factory=dict)
    retired: dict[PartitionId, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


def _incarnation(state: LogState, topic: str) -> int:
    latest = state.latest_incarnation(topic)
    if latest is not None:
        return latest.incarnation
    return max((pid.incarnation for pid in state.positions if pid.topic == topic), default=1)


def _move(
    store: ObjectStore, view: ArchiveView, pid: PartitionId, offset: int | None, moved: _Moved
) -> None:
    position = view.positions.get(pid)
    if offset is None:
        moved.retired[pid] = 0
        return
    moved.positions[pid] = offset
    if position is not None and offset > position:
        moved.gaps.append(Gap(pid, OffsetRange(position, offset), BY_REQUEST, moved.at_ms))
    elif position is not None:
        _retire(store, view, pid, offset, moved)


def _retire(
    store: ObjectStore, view: ArchiveView, pid: PartitionId, offset: int, moved: _Moved
) -> None:
    """Retire entries from ``offset`` on; an entry across it is retired and added again, cut."""
    moved.retired[pid] = offset
    over = [
        entry
        for entry in view.entries(pid.topic, pid.incarnation)
        if entry.partition_id == pid and entry.range.start < offset < entry.range.end
    ]
    for gap in view.gaps:
        if gap.partition_id == pid and gap.range.start < offset < gap.range.end:
            moved.retired[pid] = gap.range.start
            moved.gaps.append(replace(gap, range=OffsetRange(gap.range.start, offset)))
    if over:
        moved.retired[pid] = over[0].range.start
        moved.entries.extend(cut_window(store, over, offset))


def cut_window(store: ObjectStore, window: Sequence[Entry], offset: int) -> list[Entry]:
    """Return the entries of one window, cut at ``offset``.

    Raise UsageError if the offsets of their rows are unknown.
    """
    cut = []
    for entry in window:
        records = _records_before(store, entry, offset)
        if records is None:
            start, end = entry.range.start, entry.range.end
            raise UsageError(
                f"{entry.partition_id}: offset {offset} is inside of {entry.key}, which does not "
                "hold the offsets of its rows",
                hint=f"Move it to offset {start} or {end}.",
            )
        if records:
            cut.append(_cut(entry, offset, records))
    return [replace(entry, parts=len(cut)) for entry in cut]


def _cut(entry: Entry, offset: int, records: int) -> Entry:
    return replace(
        entry,
        range=OffsetRange(entry.range.start, offset),
        records=records,
        whole_end=entry.whole_end or entry.range.end,
        whole_records=entry.whole_records or entry.records,
    )


def _records_before(store: ObjectStore, entry: Entry, offset: int) -> int | None:
    kept = OffsetRange(entry.range.start, offset)
    if entry.records == len(entry.range):
        return len(kept)
    if entry.runs:
        return sum(max(0, min(end, kept.end) - start) for start, end in entry.runs)
    if entry.format != SEGMENT:
        return None
    whole = iter_segment(store, entry, kept, aborted=True)
    return sum(int(decode(batches, range=kept).num_rows) for batches in whole)


def forget_all(
    store: ObjectStore,
    log_name: str,
    *,
    writer: str,
    now_ms: Callable[[], int],
    still_wanted: Callable[[], bool] = lambda: True,
) -> bool:
    """Retire every entry of a log; return False if ``still_wanted`` returns False.

    ``still_wanted`` is called after the log is taken over: from then on no other writer commits.
    """
    note = f"log {log_name} taken by {writer}, to retire what it holds"
    log = CommitLog.open(store, log_name, writer=writer, now_ms=now_ms, note=note)
    if not still_wanted():
        return False
    positions = log.state.positions
    if positions or log.state.intent is not None:
        log.append(
            Changes(
                retired=dict.fromkeys(positions, 0),
                closes_intent=log.state.intent is not None,
                note="retired, to start again",
            )
        )
    return True
