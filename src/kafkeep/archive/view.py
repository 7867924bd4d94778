"""The archive for readers: its logs, and the content of each at a commit or a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime

from kafkeep.archive.checkpoint import (
    LoadedLog,
    find_newest,
    load_log,
    load_remaining,
    load_rows,
    load_text,
)
from kafkeep.archive.codec import gap_from_json
from kafkeep.archive.commit import Commit, Gap, Intent, LogSpan, TopicInfo
from kafkeep.archive.document import reading
from kafkeep.archive.entry import Entry, PartitionId
from kafkeep.archive.entry_tables import TableInfo, TableRows, parse_table
from kafkeep.archive.keys import LAST_NUMBER, log_prefix
from kafkeep.archive.log_check import CheckedCommit, LogFinding, check_log, iter_commits
from kafkeep.archive.names import ROOT, check_log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.packed_entries import EntryPacker, PackedEntries
from kafkeep.archive.read_commits import decode_stored, iter_stored_commits, read_stored_commit
from kafkeep.archive.state import LogState
from kafkeep.errors import NoSuchArchiveError

_KEPT_TABLES = 4
"""The number of cached tables, of up to 16 MB each, for callers that read topic by topic."""
_NO_TOPIC = ""


class ArchiveView:
    """The content of one log at one commit; later commits do not change it.

    Entries and gaps are read on demand.
    """

    def __init__(self, store: ObjectStore, log: LoadedLog) -> None:
        self._store = store
        self._log = log
        self._texts: dict[str, bytes] = {}

    @property
    def state(self) -> LogState:
        """The state of the log, without entries and gaps."""
        return self._log.state

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def commit(self) -> int:
        """The number of this view's commit."""
        return self.state.commit

    @property
    def commits(self) -> int:
        """How many commits the log has up to here."""
        return self.state.commits

    @property
    def at_ms(self) -> int:
        """The time of that commit."""
        return self.state.at_ms

    @property
    def topics(self) -> Mapping[tuple[str, int], TopicInfo]:
        """Topics by name and incarnation, sorted."""
        return dict(sorted(self.state.topics.items()))

    @property
    def positions(self) -> Mapping[PartitionId, int]:
        """The offset up to which each partition is archived (exclusive)."""
        return self.state.positions

    @property
    def spans(self) -> Mapping[PartitionId, LogSpan]:
        """Where each partition began and ended in Kafka at the last snapshot of the cluster."""
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
        """The open intent of a writer, or None."""
        return self.state.intent

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """Offsets that were never archived, without retired ones; by partition and offset."""
        found = [gap for step in self._log.tail for gap in step.changes.gaps]
        for table in self._log.base.tables:
            if table.gaps:
                rows = self._load(table, _NO_TOPIC)
                with reading(table.key):
                    found.extend(map(gap_from_json, rows.gaps))
        kept = [g for g in found if self.state.counts(g.partition_id, g.generation, g.range.end)]
        return tuple(sorted(kept, key=lambda gap: (gap.partition_id, gap.range)))

    @property
    def gap_count(self) -> int:
        """The number of gaps ever recorded, retired ones included; reads nothing."""
        recent = sum(len(step.changes.gaps) for step in self._log.tail)
        return recent + sum(table.gaps for table in self._log.base.tables)

    def entries(self, topic: str | None = None, incarnation: int | None = None) -> list[Entry]:
        """Return the entries, of all topics, one topic, or one incarnation of it.

        Retired entries are left out. Sorted by topic, incarnation, partition and start. Tables
        without that topic are not read.
        """
        found = [
            entry
            for entry in self._iter_entries(_one(topic))
            if incarnation in (None, entry.partition_id.incarnation)
            and self.state.counts(entry.partition_id, entry.generation, entry.range.end)
        ]
        return sorted(found, key=lambda entry: (entry.partition_id, entry.range.start))

    def entries_by_topic(
        self, wanted: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], dict[int, PackedEntries]]:
        """Return the entries of each topic and incarnation by partition, reading tables once.

        They are what ``entries`` returns, packed.
        """
        found: dict[tuple[str, int], dict[int, EntryPacker]] = {key: {} for key in wanted}
        for entry in self._iter_entries({name for name, _ in found}):
            pid = entry.partition_id
            place = found.get(pid[:2])
            if place is not None and self.state.counts(pid, entry.generation, entry.range.end):
                if pid.partition not in place:
                    place[pid.partition] = EntryPacker()
                place[pid.partition].add(entry)
        return {
            key: {number: parts.pop(number).packed() for number in sorted(parts)}
            for key, parts in found.items()
        }

    def retired(self, topic: str | None = None) -> list[Entry]:
        """Return the retired entries whose objects no other entry uses."""
        everything = list(self._iter_entries(_one(topic)))
        counted = {
            entry.key
            for entry in everything
            if self.state.counts(entry.partition_id, entry.generation, entry.range.end)
        }
        return [entry for entry in everything if entry.key not in counted]

    def keys_committed_by(self, time_ms: int, topic: str) -> Iterator[str]:
        """Yield the objects of a topic that were committed at or before a time.

        Tables hold no times, so the commits of a table that spans that time are read.
        """
        for table in self._log.base.tables:
            if not table.may_hold({topic}):
                continue
            last = decode_stored(self.name, read_stored_commit(self._store, self.name, table.last))
            if last.at_ms <= time_ms:
                rows = self._load(table, topic).entries
                yield from (row["key"] for row in rows if row["topic"] == topic)
                continue
            for stored in iter_stored_commits(self._store, self.name, table.first, table.last):
                yield from _keys_by(decode_stored(self.name, stored), time_ms, topic)
        for step in self._log.tail:
            yield from _keys_by(step, time_ms, topic)

    def _iter_entries(self, topics: Collection[str] | None) -> Iterator[Entry]:
        """Yield the entries of these topics, or of all. Tables are kept if one topic is wanted."""
        for table in self._log.base.tables:
            if table.may_hold(topics):
                yield from self._iter_table(table, topics)
        for step in self._log.tail:
            for entry in step.changes.entries:
                if topics is None or entry.partition_id.topic in topics:
                    yield entry

    def _iter_table(self, table: TableInfo, topics: Collection[str] | None) -> Iterator[Entry]:
        # A function of its own: its rows are gone before those of the next table are loaded.
        one = next(iter(topics)) if topics is not None and len(topics) == 1 else None
        rows = self._load(table, one) if one else load_rows(self._store, self.name, table)
        with reading(table.key):
            for row in rows.entries:
                if topics is None or row["topic"] in topics:
                    yield Entry.from_json(row)

    def _load(self, table: TableInfo, topic: str) -> TableRows:
        """Return the gaps of a table, and its entries of one topic at least."""
        if table.key not in self._texts:
            if len(self._texts) >= _KEPT_TABLES:
                del self._texts[next(iter(self._texts))]
            self._texts[table.key] = load_text(self._store, self.name, table)
        return parse_table(self._texts[table.key], self.name, table, topic)


def _keys_by(commit: Commit, time_ms: int, topic: str) -> Iterator[str]:
    if commit.at_ms <= time_ms:
        for entry in commit.changes.entries:
            if entry.partition_id.topic == topic:
                yield entry.key


def _one(topic: str | None) -> Collection[str] | None:
    return None if topic is None else (topic,)


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


def list_logs(store: ObjectStore, known: Collection[str] = ()) -> list[str]:
    """Return the names of the archive's logs, sorted; costs a listing for each not in ``known``.

    A log whose commits were all removed is included if a checkpoint proves that it had any.
    """
    return [name for name in store.folders(ROOT) if name in known or _is_log(store, name)]


def load_view(
    store: ObjectStore, name: str, *, commit: int | None = None, at_ms: int | None = None
) -> ArchiveView:
    """Load a log as of now, a commit, or a time (the last commit made by then). Reads only.

    NoSuchArchiveError when there is no such log or commit. DamagedError when the requested state
    may be in commits that were removed.
    """
    log = load_remaining(store, name, LAST_NUMBER if commit is None else commit)
    if at_ms is None or at_ms >= log.state.at_ms:
        log.check_end()
    if log.state.commit < 0:
        raise NoSuchArchiveError(
            f"{store.describe()} has no log named {name!r}",
            hint="List the logs with: kafkeep info --archive …",
        )
    if commit is not None and log.state.commit != commit:
        raise NoSuchArchiveError(f"{name} has no commit {commit}: the last is {log.state.commit}")
    if at_ms is not None and log.state.at_ms > at_ms:
        log = load_log(store, name, _find_commit(store, log, at_ms))
    return ArchiveView(store, log)


def load_views(
    store: ObjectStore, names: Iterable[str], at_ms: int | None = None
) -> list[ArchiveView]:
    """Load several logs as of now or of a time; logs that begin later are left out.

    NoSuchArchiveError when all of them begin later.
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


def _find_commit(store: ObjectStore, log: LoadedLog, at_ms: int) -> int:
    """Return the last commit made at or before ``at_ms``: times in a log never move back."""
    name = log.state.name
    low, high = -1, log.state.commit
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
    # A log whose commits were all removed is damaged; it differs from one that never existed.
    return find_newest(store, name).removed is not None
