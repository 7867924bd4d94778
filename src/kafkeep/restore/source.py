"""The protocol for where the entries of a restore come from: a commit log, or a listing.

``log_source.py`` reads a log. ``listing_source.py`` lists a bucket that has none. Everything else
of a restore is the same for both. On the driver.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from kafkeep.archive.entry import PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check
from kafkeep.objects.sink.spec import ReadOptions
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.plan import ArchiveContents, ArchivedTopic, RestorePlan, choose_topics
from kafkeep.restore.preflight import TargetSnapshot


@dataclass(frozen=True, slots=True)
class ObjectCheck:
    """Which objects of a plan can be restored."""

    plan: RestorePlan
    """The plan without the objects that are left out."""
    lost: frozenset[str] = frozenset()
    """Objects that are left out, whole or in part, because they are missing or damaged."""
    lost_offsets: tuple[dict[str, Any], ...] = ()
    """The offsets they held, in order, where they are known."""
    gaps: tuple[dict[str, Any], ...] = ()
    """Offsets of objects that a retention rule removed."""
    failures: tuple[Check, ...] = ()
    """Why the restore may not begin."""


class EntrySource(Protocol):
    """Where the entries of one restore come from."""

    def log_name(self) -> str:
        """Return the name of the log; a listing is named after its options."""

    def load(self, id: str, resumed: RestoreDocument | None) -> ArchiveView:
        """Return the entries to choose from.

        ``resumed`` is the document of an earlier run of the restore ``id``: the entries are then
        those that the earlier run began with.
        """

    def read_options(self, view: ArchiveView, plan: RestorePlan) -> ReadOptions:
        """Return what readers of the planned objects must know."""

    def newer_targets(self, view: ArchiveView, plan: RestorePlan) -> list[str]:
        """Return the targets that would get more records if the restore began now."""

    def check_objects(self, view: ArchiveView, plan: RestorePlan) -> ObjectCheck:
        """Check that the planned objects are there; DamagedError when a log names more."""

    def check_contents(
        self, plan: RestorePlan, reading: ReadOptions, target: TargetSnapshot
    ) -> list[Check]:
        """Return a warning for everything that the objects do not hold of their records."""

    def save_selection(self, documents: ObjectStore, id: str) -> None:
        """Store which objects are restored, before the first record is written.

        A run that resumes then restores the same objects. Safe to repeat.
        """


def load_contents(view: ArchiveView, options: RestoreOptions) -> ArchiveContents:
    """Read the entries of the selected topics; NoSuchArchiveError when there is no such topic."""
    topics = []
    for info, target in choose_topics(view.topics, options):
        entries = tuple(view.entries(info.topic, info.incarnation))
        numbers = {*range(info.partitions), *(e.partition_id.partition for e in entries)}
        ends = {}
        for number in numbers:
            pid = PartitionId(info.topic, info.incarnation, number)
            span = view.spans.get(pid)
            ends[number] = max(view.positions.get(pid, 0), span.end if span else 0)
        topics.append(ArchivedTopic(info, target, entries, ends))
    return ArchiveContents(view.name, view.commit, tuple(topics))
