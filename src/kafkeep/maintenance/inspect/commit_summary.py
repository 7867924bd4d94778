"""What each commit of a log brought: for ``kafkeep commits``, REST and the console."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from kafkeep.archive.commit import Commit
from kafkeep.archive.entry import Entry
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import commits_of, decode_stored, read_stored_commit
from kafkeep.errors import DamagedError

_AT_ONCE = 8
_TOPICS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSums:
    """What some objects hold together. Objects of keys and headers add no records."""

    objects: int = 0
    records: int = 0
    size_bytes: int = 0
    raw_bytes: int = 0
    """Bytes of the record batches before the objects were compressed."""

    @property
    def ratio(self) -> float | None:
        """How many bytes of record batches one stored byte holds."""
        return self.raw_bytes / self.size_bytes if self.size_bytes else None

    def __add__(self, other: StorageSums) -> StorageSums:
        return StorageSums(
            objects=self.objects + other.objects,
            records=self.records + other.records,
            size_bytes=self.size_bytes + other.size_bytes,
            raw_bytes=self.raw_bytes + other.raw_bytes,
        )

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> StorageSums:
        """Add up the objects of some entries."""
        found = list(entries)
        return cls(
            objects=len(found),
            records=sum(entry.own_records for entry in found),
            size_bytes=sum(entry.size_bytes for entry in found),
            raw_bytes=sum(entry.raw_bytes for entry in found),
        )


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

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``kafkeep commits --output json``."""
        return {
            "commit": self.number,
            "at_ms": self.at_ms,
            "problem": None,
            "writer": self.writer,
            "epoch": self.epoch,
            "topics": self.topics,
            "objects": self.sums.objects,
            "records": self.sums.records,
            "stored_bytes": self.sums.size_bytes,
            "raw_bytes": self.sums.raw_bytes,
            "gaps": self.gaps,
            "gap_offsets": self.lost_offsets,
            "planned_ranges": self.planned,
            "changed_topics": self.changed_topics,
            "groups": self.groups,
            "moved_back": self.moved_back,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadCommit:
    """A commit that was not read for the list: ``problem`` says why it cannot be, if it cannot."""

    number: int
    size_bytes: int = 0
    problem: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the form printed by ``kafkeep commits --output json``."""
        return {"commit": self.number, "at_ms": None, "problem": self.problem}


def summarize(commit: Commit) -> CommitSummary:
    """Return what a commit brought. Pure."""
    changes = commit.changes
    folders = sorted({entry.partition_id.folder for entry in changes.entries})
    return CommitSummary(
        number=commit.number,
        at_ms=commit.at_ms,
        epoch=commit.epoch,
        writer=commit.writer,
        sums=StorageSums.of(changes.entries),
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


def load_commit(store: ObjectStore, name: str, number: int) -> Commit:
    """Read one commit; DamagedError when it is missing or damaged."""
    return decode_stored(name, read_stored_commit(store, name, number))


def iter_summaries(
    store: ObjectStore,
    name: str,
    numbers: Sequence[int],
    *,
    most_bytes: int | None = None,
    load: Callable[[int], Commit] | None = None,
) -> Iterator[CommitSummary | UnreadCommit]:
    """Yield what the commits with these numbers brought, in that order.

    With ``most_bytes``, large commits are skipped once this much is to be read. ``load`` is called
    from several threads.
    """
    if not numbers:
        return

    def read(number: int) -> CommitSummary | UnreadCommit:
        try:
            commit = load_commit(store, name, number) if load is None else load(number)
        except DamagedError as error:
            return UnreadCommit(number=number, problem=error.message)
        return summarize(commit)

    sizes = _sizes(store, name, min(numbers), max(numbers))
    found: list[UnreadCommit | int] = []
    room = most_bytes
    for number in numbers:
        if number not in sizes:
            found.append(UnreadCommit(number=number, problem="it is missing in the store"))
        elif room is not None and sizes[number] > room:
            found.append(UnreadCommit(number=number, size_bytes=sizes[number]))
        else:
            room = None if room is None else room - sizes[number]
            found.append(number)
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="commits") as pool:
        yield from pool.map(lambda one: read(one) if isinstance(one, int) else one, found)


def _sizes(store: ObjectStore, name: str, low: int, high: int) -> dict[int, int]:
    listed = islice(commits_of(store, name).iter_documents(after=low - 1), high - low + 1)
    return {number: info.size_bytes for number, info in listed}
