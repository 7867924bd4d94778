"""The routing of a restore: other partitions, other times, filtered records. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kafkeep.archive.entry import Entry
from kafkeep.objects.sink.read_windows import ENVELOPE, SEGMENT
from kafkeep.options.record_changes import ChangeOptions
from kafkeep.options.restore import Condition, RestoreOptions


@dataclass(frozen=True, slots=True)
class Routing:
    """The changes that a restore makes to records; none by default.

    The contents and order of a target partition follow from the routing and the archive alone, so
    any attempt can skip the records that are already written.
    """

    partition_map: tuple[tuple[int, int], ...] = ()
    partition_count: int | None = None
    shift_ms: int = 0
    filter: tuple[Condition, ...] = ()
    changes: ChangeOptions | None = None
    """The transforms, applied first."""

    @property
    def drops(self) -> bool:
        """True if records may be dropped."""
        return bool(self.filter) or (self.changes is not None and self.changes.drops_records)

    @property
    def routed(self) -> bool:
        """True if a target partition may get records of several archived ones."""
        targets = [target for _, target in self.partition_map]
        return self.partition_count is not None or len(set(targets)) < len(targets)

    def target_of(self, partition: int) -> int | None:
        """Return the target of a whole archived partition; None if it is split or left out."""
        if self.partition_count is not None:
            return None
        return dict(self.partition_map).get(partition) if self.partition_map else partition


SAME = Routing()


def routing_of(options: RestoreOptions, entries: Iterable[Entry] = ()) -> Routing:
    """Return the routing of the options; a time field is used only if objects hold no times."""
    changes = options.changes
    if changes is not None and not changes.transforms and all(holds_times(e) for e in entries):
        changes = None
    return Routing(
        options.partition_map,
        options.partition_count,
        options.shift_time_ms,
        options.filter,
        changes.under(dict(options.topics)) if changes is not None else None,
    )


def holds_times(entry: Entry) -> bool:
    """Return whether an object holds the time of each record."""
    same = entry.min_timestamp == entry.max_timestamp
    return same or entry.format == SEGMENT or entry.converter == ENVELOPE
