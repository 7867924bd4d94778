"""What of each partition is archived, and what is not: entries and gaps laid end to end. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkeep.archive.commit import Gap
from kafkeep.archive.entry import Entry, OffsetRange, PartitionId
from kafkeep.errors import DamagedError
from kafkeep.maintenance.finding import Finding, FindingKind, Severity, damage
from kafkeep.objects.sink.read_windows import Window, entries_by_partition, iter_windows


class _Tile(NamedTuple):
    range: OffsetRange
    entry: Entry | None


def iter_coverage_findings(
    log: str, entries: Iterable[Entry], gaps: Iterable[Gap], positions: Mapping[PartitionId, int]
) -> Iterator[Finding]:
    """Yield overlaps and objects past the position (damage), gaps, and stretches without object."""
    tiles: dict[PartitionId, list[_Tile]] = defaultdict(list)
    for partition_id, mine in entries_by_partition(entries).items():
        for window in iter_windows(mine):
            tiles[partition_id].append(_Tile(window.range, window.entries[0]))
            yield from _iter_window(log, window)
    for gap in gaps:
        tiles[gap.partition_id].append(_Tile(gap.range, None))
        yield _note(
            Severity.WARNING,
            FindingKind.GAP,
            log,
            gap.partition_id,
            f"offsets {gap.range.start} to {gap.range.end - 1} were never archived: {gap.reason}",
        )
    for partition_id, laid in sorted(tiles.items()):
        yield from _iter_partition(log, partition_id, laid, positions.get(partition_id, 0))


def _iter_window(log: str, window: Window) -> Iterator[Finding]:
    """Objects of a sink share offsets: all of them must be in the log, and belong together."""
    first, count = window.entries[0], len(window.entries)
    if count != first.parts:
        text = f"{count} objects are of its offsets, the log says there were {first.parts}"
        yield damage(FindingKind.MISCOUNTED, log, first, text, window.range)
    elif not window.is_segment:
        try:
            window.files()
        except DamagedError as error:
            yield damage(FindingKind.MISCOUNTED, log, first, error.message, window.range)
        if window.records > len(window.range):
            text = f"{window.records} records for {len(window.range)} offsets"
            yield damage(FindingKind.MISCOUNTED, log, first, text, window.range)


def _iter_partition(
    log: str, partition_id: PartitionId, tiles: list[_Tile], position: int
) -> Iterator[Finding]:
    tiles = sorted(tiles, key=lambda tile: tile.range)
    reached = tiles[0].range.start
    for tile in tiles:
        if tile.range.start < reached and tile.entry is not None:
            text = (
                f"offsets {tile.range.start} to {min(reached, tile.range.end) - 1} are told twice"
            )
            yield damage(FindingKind.OVERLAP, log, tile.entry, text)
        if tile.range.start > reached:
            yield _empty(log, partition_id, OffsetRange(reached, tile.range.start))
        reached = max(reached, tile.range.end)
        if tile.range.end > position and tile.entry is not None:
            text = f"ends at {tile.range.end}, past the position {position} of its partition"
            yield damage(FindingKind.BROKEN_CHAIN, log, tile.entry, text)
    if reached < position:
        yield _empty(log, partition_id, OffsetRange(reached, position))


def _empty(log: str, partition_id: PartitionId, offsets: OffsetRange) -> Finding:
    text = f"offsets {offsets.start} to {offsets.end - 1} held no records and have no object"
    return _note(Severity.INFO, FindingKind.NO_OBJECT, log, partition_id, text)


def _note(
    severity: Severity, kind: FindingKind, log: str, partition_id: PartitionId, message: str
) -> Finding:
    key = f"topics/{partition_id.folder}/partition={partition_id.partition}/"
    return Finding(
        severity=severity,
        kind=kind,
        log=log,
        key=key,
        message=message,
        partition_id=partition_id,
    )
