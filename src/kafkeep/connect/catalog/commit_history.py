"""The commits of a log, newest first: what each brought. Reads the store.

A commit never changes, so what it brought is remembered. A large commit is read only when it is
asked for by its number, so that a list of commits stays fast.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from kafkeep.archive.commit import Changes, Commit
from kafkeep.archive.read_commits import commits_of, decode_stored, read_stored_commit
from kafkeep.connect.catalog.archives import ArchiveLog
from kafkeep.connect.catalog.storage import StorageSums
from kafkeep.connect.model import RestError
from kafkeep.errors import DamagedError

_KEPT = 5_000
_READ_BYTES = 2 << 20
"""How many bytes of commits a list reads at most, beside those in memory."""
_AT_ONCE = 8
_TOPICS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitSummary:
    """What one commit brought."""

    number: int
    at_ms: int
    epoch: int
    writer: str
    sums: StorageSums
    topics: int = 0
    named_topics: tuple[str, ...] = ()
    """The folders of its first topics."""
    gaps: int = 0
    lost_offsets: int = 0
    planned: int = 0
    """Ranges of offsets that it plans to archive: an intent."""
    closes_plan: bool = False
    changed_topics: int = 0
    """Topics that were new, or whose settings had changed."""
    groups: int = 0
    moved_back: int = 0
    """Partitions that were moved back to an earlier offset."""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCommit:
    """A commit that was not read for the list: ``problem`` says why it cannot be, if it cannot."""

    number: int
    size_bytes: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitPage:
    """Some commits of a log, the newest first."""

    commits: tuple[CommitSummary | UnreadCommit, ...]
    newest: int
    """The number of the log's newest commit."""

    @property
    def older(self) -> int | None:
        """List commits before this one next; None when there are none."""
        first = self.commits[-1].number if self.commits else 0
        return first if first > 0 else None


class CommitHistory:
    """Lists commits; remembers what each brought. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str, int], CommitSummary] = {}

    def page(self, log: ArchiveLog, before: int | None, limit: int) -> CommitPage:
        """Return at most ``limit`` commits, the newest before ``before`` first."""
        end = log.view.commits if before is None else min(before, log.view.commits)
        first = max(0, end - limit)
        numbers = range(end - 1, first - 1, -1)
        known: dict[int, CommitSummary | UnreadCommit] = {
            one.number: one for one in self._in_memory(log, numbers)
        }
        missing = [number for number in numbers if number not in known]
        if missing:
            known |= {one.number: one for one in self._read(log, missing)}
        return CommitPage(
            commits=tuple(known[number] for number in numbers), newest=log.view.commit
        )

    def commit(self, log: ArchiveLog, number: int) -> Commit:
        """Return a commit with everything it brought; 404 when the log has none of that number."""
        if not 0 <= number <= log.view.commit:
            raise RestError(404, f"The log {log.name} has no commit {number}")
        for commit in log.loaded.tail:
            if commit.number == number:
                return commit
        found = decode_stored(log.name, read_stored_commit(log.store, log.name, number))
        self._remember(log, summarize(found))
        return found

    def _in_memory(self, log: ArchiveLog, numbers: Sequence[int]) -> Iterator[CommitSummary]:
        tail = {commit.number: commit for commit in log.loaded.tail}
        for number in numbers:
            found = self._known.get((log.place.id, log.name, number))
            if found is None and number in tail:
                found = summarize(tail[number])
                self._remember(log, found)
            if found is not None:
                yield found

    def _read(
        self, log: ArchiveLog, numbers: Sequence[int]
    ) -> Iterator[CommitSummary | UnreadCommit]:
        """Read the commits, the newest first, as long as they are small."""
        stored = commits_of(log.store, log.name)
        low, high = min(numbers), max(numbers)
        listed = islice(stored.iter_documents(after=low - 1), high - low + 1)
        sizes = {number: info.size_bytes for number, info in listed}
        room, small = _READ_BYTES, []
        for number in numbers:
            if number not in sizes:
                yield UnreadCommit(number=number, problem="it is missing in the store")
            elif sizes[number] > room:
                yield UnreadCommit(number=number, size_bytes=sizes[number])
            else:
                room -= sizes[number]
                small.append(number)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commits") as pool:
            yield from pool.map(lambda number: self._read_one(log, number), small)

    def _read_one(self, log: ArchiveLog, number: int) -> CommitSummary | UnreadCommit:
        try:
            return summarize(self.commit(log, number))
        except DamagedError as error:
            return UnreadCommit(number=number, problem=error.message)

    def _remember(self, log: ArchiveLog, found: CommitSummary) -> None:
        with self._lock:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[log.place.id, log.name, found.number] = found


def summarize(commit: Commit) -> CommitSummary:
    """Return what a commit brought."""
    changes = commit.changes
    folders = sorted({entry.partition_id.folder for entry in changes.entries})
    return CommitSummary(
        number=commit.number,
        at_ms=commit.at_ms,
        epoch=commit.epoch,
        writer=commit.writer,
        sums=_sums(changes),
        topics=len(folders),
        named_topics=tuple(folders[:_TOPICS_NAMED]),
        gaps=len(changes.gaps),
        lost_offsets=sum(len(gap.range) for gap in changes.gaps),
        planned=len(changes.intent.ranges) if changes.intent is not None else 0,
        closes_plan=changes.closes_intent,
        changed_topics=len(changes.topics),
        groups=len(changes.groups),
        moved_back=len(changes.retired),
        note=changes.note,
    )


def _sums(changes: Changes) -> StorageSums:
    return StorageSums(
        objects=len(changes.entries),
        records=sum(entry.own_records for entry in changes.entries),
        size_bytes=sum(entry.size_bytes for entry in changes.entries),
        raw_bytes=sum(entry.raw_bytes for entry in changes.entries),
    )
