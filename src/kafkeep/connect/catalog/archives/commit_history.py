"""The commits of a log, newest first: what each brought. Reads the store.

A commit never changes, so what it brought is remembered. A large commit is read only when it is
asked for by its number, so that a list of commits stays fast.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from kafkeep.archive.commit import Commit
from kafkeep.connect.catalog.archives.archives import ArchiveLog
from kafkeep.connect.model import RestError
from kafkeep.errors import DamagedError
from kafkeep.maintenance.inspect.commit_summary import (
    CommitSummary,
    UnreadCommit,
    iter_summaries,
    load_commit,
    summarize,
)

_KEPT = 5_000
_READ_BYTES = 2 << 20
"""How many bytes of commits a list reads at most, beside those in memory."""


_SAMPLE_S = 1.0
"""How long a sample of a log reads commits."""
_AT_ONCE = 8


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

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
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
        found = load_commit(log.store, log.name, number)
        self._remember(log, summarize(found))
        return found

    def sample(self, log: ArchiveLog, most: int) -> list[CommitSummary]:
        """Return commits from the whole length of a log, the newest first.

        Their numbers are the multiples of a power of two, so a log that grows keeps most of them,
        and each is read once. What takes too long to read is left out until the next call.
        """
        step = 1
        while step * most < log.view.commits:
            step *= 2
        numbers = range(0, log.view.commits, step)
        found = {one.number: one for one in self._in_memory(log, numbers)}
        missing = sorted(set(numbers) - found.keys(), key=_coarsest_first)
        deadline = self._monotonic() + _SAMPLE_S

        def read(number: int) -> CommitSummary | None:
            if self._monotonic() >= deadline:
                return None
            try:
                return summarize(self.commit(log, number))
            except DamagedError:
                return None

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commits") as pool:
            found |= {one.number: one for one in pool.map(read, missing) if one is not None}
        return [found[number] for number in sorted(found, reverse=True)]

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
        yield from iter_summaries(
            log.store,
            log.name,
            numbers,
            most_bytes=_READ_BYTES,
            load=lambda number: self.commit(log, number),
        )

    def _remember(self, log: ArchiveLog, found: CommitSummary) -> None:
        with self._lock:
            if len(self._known) >= _KEPT:
                del self._known[next(iter(self._known))]
            self._known[log.place.id, log.name, found.number] = found


def _coarsest_first(number: int) -> tuple[int, int]:
    """Order numbers so that the first of them are spread over all: 0, 64, 32, 96, 16."""
    return -(number & -number) if number else -(1 << 62), number
