"""Objects of the archive that a retention rule has deleted: what is left to compare with. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from kafkeep.archive.entry import Entry
from kafkeep.care.against.work import ArchivePart, Selection
from kafkeep.contents.windows import entries_by_partition, iter_windows, with_companions

FindExpired = Callable[[Collection[Entry]], Mapping[str, str]]
"""Returns the keys of objects that have expired, and why."""


def held_part(
    partition: int, entries: Sequence[Entry], selection: Selection, expired: frozenset[str]
) -> ArchivePart:
    """Leave expired objects out, and remember where their records stood: a target may have them.

    Behind how many records that was is known when nothing was selected.
    """
    gone = with_companions(entries, expired & {entry.key for entry in entries})
    kept = tuple(entry for entry in entries if entry.key not in gone)
    places: dict[int | None, int] = {}
    before = 0
    for window in iter_windows(entries):
        lost = sum(entry.own_records for entry in window.entries if entry.key in gone)
        if lost:
            place = before if selection == Selection() else None
            places[place] = places.get(place, 0) + lost
        before += window.records - lost
    return ArchivePart(partition, kept, selection, tuple(places.items()))


def about_expired(entries: Sequence[Entry], expired: Mapping[str, str]) -> Iterator[str]:
    """Say of each partition which offsets are no longer held, and why."""
    gone = [entry for entry in entries if entry.key in expired]
    for partition_id, mine in sorted(entries_by_partition(gone).items()):
        start, end = min(e.range.start for e in mine), max(e.range.end for e in mine)
        yield (
            f"partition {partition_id.partition}: objects with offsets from {start} to {end - 1} "
            f"are gone and not compared: {expired[mine[0].key]}"
        )
