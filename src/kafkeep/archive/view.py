"""An archive's log at one commit, for those who read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafkeep.archive.chain import decode, iter_bytes, read_commit
from kafkeep.archive.checkpoint import load_rows
from kafkeep.archive.codec import gap_from_json
from kafkeep.archive.commit import Commit, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.document import reading
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.head import Head
from kafkeep.archive.keys import parse_folder
from kafkeep.archive.state import State
from kafkeep.archive.store import ObjectStore
from kafkeep.archive.tables import Rows, TableInfo

_KEPT_TABLES = 4
"""Unpacked tables weigh up to 100 MB each: a few help who asks topic by topic."""


class ArchiveView:
    """What one log says at one commit; it never changes, whatever is written later.

    Entries and gaps are read when they are asked for.
    """

    def __init__(self, store: ObjectStore, head: Head) -> None:
        self._store = store
        self._head = head
        self._rows: dict[str, Rows] = {}

    @property
    def state(self) -> State:
        """All but entries and gaps."""
        return self._head.state

    @property
    def name(self) -> str:
        """The log's name."""
        return self.state.name

    @property
    def commit(self) -> int:
        """Number of the commit this view stands at."""
        return self.state.commit

    @property
    def commits(self) -> int:
        """How many commits the log has up to here."""
        return self.state.commits

    @property
    def at_ms(self) -> int:
        """When that commit was made."""
        return self.state.at_ms

    @property
    def topics(self) -> Mapping[tuple[str, int], TopicInfo]:
        """Topics by name and incarnation, sorted."""
        return dict(sorted(self.state.topics.items()))

    @property
    def positions(self) -> Mapping[PartitionId, int]:
        """Up to where each partition is archived."""
        return self.state.positions

    @property
    def spans(self) -> Mapping[PartitionId, LogSpan]:
        """Where each partition began and ended in Kafka when it was last looked at."""
        return self.state.spans

    @property
    def groups(self) -> Mapping[str, Mapping[PartitionId, int]]:
        """Offsets of the consumer groups."""
        return self.state.groups

    @property
    def schemas(self) -> str:
        """Digest of the document with the registry's schemas; empty when there is none."""
        return self.state.schemas

    @property
    def intent(self) -> Intent | None:
        """What a writer was about to write, or None."""
        return self.state.intent

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """What was never archived, sorted by partition and offset; without what was retired."""
        found = [gap for step in self._head.tail for gap in step.changes.gaps]
        for table in self._head.base.tables:
            if table.gaps:
                rows = self._load(table)
                with reading(table.key):
                    found.extend(map(gap_from_json, rows.gaps))
        kept = [g for g in found if self.state.counts(g.partition_id, g.generation, g.range.end)]
        return tuple(sorted(kept, key=lambda gap: (gap.partition_id, gap.range)))

    @property
    def gap_count(self) -> int:
        """How many gaps were ever recorded, the retired ones too; reads nothing."""
        recent = sum(len(step.changes.gaps) for step in self._head.tail)
        return recent + sum(table.gaps for table in self._head.base.tables)

    def entries(self, topic: str | None = None, incarnation: int | None = None) -> list[Entry]:
        """Return the entries, of one topic or one incarnation of it if asked.

        Those that were retired are left out. Sorted by topic, incarnation, partition, start.
        Tables without that topic are not read.
        """
        found = [
            entry
            for entry in self._iter_entries(topic)
            if topic in (None, entry.partition_id.topic)
            and incarnation in (None, entry.partition_id.incarnation)
            and self.state.counts(entry.partition_id, entry.generation, entry.range.end)
        ]
        return sorted(found, key=lambda entry: (entry.partition_id, entry.range.start))

    def retired(self, topic: str | None = None) -> list[Entry]:
        """Return the entries that no longer count; what is in one that does is left out."""
        everything = [e for e in self._iter_entries(topic) if topic in (None, e.partition_id.topic)]
        counted = {
            entry.key
            for entry in everything
            if self.state.counts(entry.partition_id, entry.generation, entry.range.end)
        }
        return [entry for entry in everything if entry.key not in counted]

    def keys_committed_by(self, time_ms: int, topic: str) -> Iterator[str]:
        """Yield the objects of a topic that were committed at or before a time.

        A table does not say when: only one that reaches over that time costs reading its commits.
        """
        for table in self._head.base.tables:
            if not _may_hold(table, topic):
                continue
            last = decode(self.name, read_commit(self._store, self.name, table.last))
            if last.at_ms <= time_ms:
                yield from (
                    row["key"] for row in self._load(table).entries if row["topic"] == topic
                )
                continue
            for stored in iter_bytes(self._store, self.name, table.first, table.last):
                yield from _keys_by(decode(self.name, stored), time_ms, topic)
        for step in self._head.tail:
            yield from _keys_by(step, time_ms, topic)

    def _iter_entries(self, topic: str | None) -> Iterator[Entry]:
        for table in self._head.base.tables:
            if _may_hold(table, topic):
                rows = self._load(table) if topic else load_rows(self._store, self.name, table)
                with reading(table.key):
                    for row in rows.entries:
                        if topic is None or row["topic"] == topic:
                            yield Entry.from_json(row)
        for step in self._head.tail:
            yield from step.changes.entries

    def _load(self, table: TableInfo) -> Rows:
        if table.key not in self._rows:
            if len(self._rows) >= _KEPT_TABLES:
                del self._rows[next(iter(self._rows))]
            self._rows[table.key] = load_rows(self._store, self.name, table)
        return self._rows[table.key]


def _keys_by(commit: Commit, time_ms: int, topic: str) -> Iterator[str]:
    if commit.at_ms <= time_ms:
        for entry in commit.changes.entries:
            if entry.partition_id.topic == topic:
                yield entry.key


def _may_hold(table: TableInfo, topic: str | None) -> bool:
    if not table.entries:
        return False
    return (
        topic is None
        or not table.folders
        or any(parse_folder(folder)[0] == topic for folder in table.folders)
    )
