"""The archive for readers: which logs there are, and what each says at a commit or a time.

An archive's log at one commit, for those who read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kafkeep.archive.checkpoint import LoadedLog, find_newest, load_log, load_remaining, load_rows
from kafkeep.archive.codec import gap_from_json
from kafkeep.archive.commit import Commit, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.commit_chain import decode_stored, iter_stored_commits, read_stored_commit
from kafkeep.archive.document import reading
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.entry_tables import TableInfo, TableRows
from kafkeep.archive.keys import LAST_NUMBER, ROOT, check_log_name, log_prefix, parse_folder
from kafkeep.archive.log_check import CheckedCommit, LogFinding, check_log, iter_commits
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.errors import NoSuchArchiveError

_KEPT_TABLES = 4
"""Unpacked tables weigh up to 100 MB each: a few help who asks topic by topic."""


class ArchiveView:
    """What one log says at one commit; it never changes, whatever is written later.

    Entries and gaps are read when they are asked for.
    """

    def __init__(self, store: ObjectStore, head: LoadedLog) -> None:
        self._store = store
        self._head = head
        self._rows: dict[str, TableRows] = {}

    @property
    def state(self) -> LogState:
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
            last = decode_stored(self.name, read_stored_commit(self._store, self.name, table.last))
            if last.at_ms <= time_ms:
                yield from (
                    row["key"] for row in self._load(table).entries if row["topic"] == topic
                )
                continue
            for stored in iter_stored_commits(self._store, self.name, table.first, table.last):
                yield from _keys_by(decode_stored(self.name, stored), time_ms, topic)
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

    def _load(self, table: TableInfo) -> TableRows:
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


__all__ = [
    "ArchiveView",
    "CheckedCommit",
    "LogFinding",
    "check_log",
    "iter_commits",
    "list_logs",
    "load_view",
    "load_views",
]


def list_logs(store: ObjectStore) -> list[str]:
    """Return the names of the archive's logs, sorted; one small listing for each.

    Also of those whose commits were removed, if a checkpoint proves that there were any.
    """
    return [name for name in store.folders(ROOT) if _is_log(store, name)]


def load_view(
    store: ObjectStore, name: str, *, commit: int | None = None, at_ms: int | None = None
) -> ArchiveView:
    """Load a log as it stands now, at a commit, or at a time (the last commit made by then).

    NoSuchArchiveError when there is no such log or commit; DamagedError when what is asked for may
    be in commits that were removed. Reads only.
    """
    head = load_remaining(store, name, LAST_NUMBER if commit is None else commit)
    if at_ms is None or at_ms >= head.state.at_ms:
        head.check_end()
    if head.state.commit < 0:
        raise NoSuchArchiveError(
            f"{store.describe()} has no log named {name!r}",
            hint="See which there are with: kafkeep info --archive …",
        )
    if commit is not None and head.state.commit != commit:
        raise NoSuchArchiveError(f"{name} has no commit {commit}: the last is {head.state.commit}")
    if at_ms is not None and head.state.at_ms > at_ms:
        head = load_log(store, name, _find_commit(store, head, at_ms))
    return ArchiveView(store, head)


def load_views(
    store: ObjectStore, names: Iterable[str], at_ms: int | None = None
) -> list[ArchiveView]:
    """Load several logs as they stand now, or stood at a time: without those that begin later.

    NoSuchArchiveError when all of them do.
    """
    found, later = [], None
    for name in names:
        try:
            found.append(load_view(store, name, at_ms=at_ms))
        except NoSuchArchiveError as error:
            later = error
    if later is not None and (not found or at_ms is None):
        raise later
    return found


def _find_commit(store: ObjectStore, head: LoadedLog, at_ms: int) -> int:
    """Return the last commit made at or before ``at_ms``: times in a log never move back."""
    name = head.state.name
    low, high = -1, head.state.commit
    while high - low > 1:
        middle = (low + high) // 2
        if decode_stored(name, read_stored_commit(store, name, middle)).at_ms <= at_ms:
            low = middle
        else:
            high = middle
    if low < 0:
        first = decode_stored(name, read_stored_commit(store, name, 0)).at_ms
        when = datetime.fromtimestamp(first / 1000, UTC).isoformat(timespec="milliseconds")
        raise NoSuchArchiveError(f"{name} begins later, at {when}")
    return low


def _is_log(store: ObjectStore, name: str) -> bool:
    try:
        check_log_name(name)
    except ValueError:
        return False
    if next(iter(store.list(log_prefix(name))), None) is not None:
        return True
    # A log whose commits were all removed is damaged, which is not the same as never begun.
    return find_newest(store, name).removed is not None
