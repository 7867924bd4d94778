"""Read the chain of commits: dense, in order, each with the digest of the one before.

Also the error for a log whose last commits were removed; it names the offsets that are lost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from kafkeep.archive.codec import decode_commit
from kafkeep.archive.commit import Commit
from kafkeep.archive.document import HINT, digest_of, reading
from kafkeep.archive.entry import OffsetRange, PartitionId
from kafkeep.archive.keys import LAST_NUMBER, log_prefix
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.archive.state import LogState, apply
from kafkeep.errors import DamagedError, KeyMissingError

MOST_NAMED = 3
"""A message names this many partitions and counts the others."""


def lost_commits_error(state: LogState, removed: LogState) -> DamagedError:
    """Return the error for a log that ends at ``state`` and once reached ``removed``."""
    lost = lost_offsets(state.positions, removed.positions)
    return DamagedError(
        f"{removed.name}: commits from {state.commit + 1} on were removed from the log: an intact "
        f"checkpoint shows that it went up to commit {removed.commit} at least; "
        f"{format_lost(lost)}",
        hint=_hint(state, removed),
    )


def lost_offsets(
    positions: Mapping[PartitionId, int], before: Mapping[PartitionId, int]
) -> dict[PartitionId, OffsetRange]:
    """Return the offsets that were archived at ``before`` and no longer are."""
    return {
        pid: OffsetRange(positions.get(pid, 0), position)
        for pid, position in sorted(before.items())
        if position > positions.get(pid, 0)
    }


def format_lost(lost: Mapping[PartitionId, OffsetRange]) -> str:
    """Return a clause that says which offsets are lost with removed commits."""
    if not lost:
        return "no archived offset is lost with them"
    return f"{sum(map(len, lost.values())):,} offsets are lost with them: {format_offsets(lost)}"


def format_offsets(offsets: Mapping[PartitionId, OffsetRange]) -> str:
    """Return text with the offsets of the first partitions and the number of the others."""
    named = [f"{r.start} to {r.end - 1} of {pid}" for pid, r in list(offsets.items())[:MOST_NAMED]]
    more = len(offsets) - MOST_NAMED
    return ", ".join(named) + (f" and of {more} more partitions" if more > 0 else "")


def _hint(state: LogState, removed: LogState) -> str:
    back = "Recover them from older versions of the objects in the bucket, or from a copy of it"
    if state.commit < 0:
        return f"{back}."
    return (
        f"{back}. Until then, restore the remaining commits with: "
        f"kafkeep restore --name {removed.name} --commit {state.commit}."
    )


_WINDOW = 64
_THREADS = 8
_WORTH_THREADS = 4


@dataclass(frozen=True, slots=True)
class StoredCommit:
    """The bytes of one commit."""

    number: int
    key: str
    body: bytes


def commits_of(store: ObjectStore, name: str) -> DocumentSequence:
    """Return the commits of a log as numbered documents."""
    return DocumentSequence(store=store, folder=log_prefix(name), digits=20)


def iter_stored_commits(
    store: ObjectStore, name: str, first: int = 0, last: int = LAST_NUMBER
) -> Iterator[StoredCommit]:
    """Yield the commits ``first..last`` as bytes, in order, up to the end of the log.

    DamagedError when one is missing before a later one. A listing is not atomic: it may show a
    commit without the one before it, so commits that it lacks are requested by name.
    """
    numbers = _dense(commits_of(store, name).iter_numbers(after=first - 1), first, last)
    while window := list(islice(numbers, _WINDOW)):
        yield from _read_all(store, name, window)


def read_stored_commit(store: ObjectStore, name: str, number: int) -> StoredCommit:
    """Return the bytes of one commit; DamagedError when it is missing."""
    commits = commits_of(store, name)
    key = commits.key(number)
    try:
        return StoredCommit(number, key, commits.read(number))
    except KeyMissingError as error:
        raise DamagedError(
            f"{key} is missing, but later commits exist",
            hint=_missing_hint(number),
        ) from error


def _missing_hint(missing: int) -> str:
    """Return the hint for a log that lacks one of its commits."""
    if missing == 0:
        return f"It is the log's first commit, so no earlier state can be restored. {HINT}"
    return f"Restore what was archived before it with restore --commit {missing - 1}."


def decode_stored(name: str, stored: StoredCommit) -> Commit:
    """Return the commit of stored bytes; DamagedError or NewerFormatError names its key."""
    return decode_commit(stored.body, stored.key, log=name, number=stored.number)


def apply_stored(state: LogState, stored: StoredCommit) -> tuple[LogState, Commit]:
    """Return the state after a stored commit; DamagedError when it cannot follow ``state``."""
    commit = decode_stored(state.name, stored)
    with reading(stored.key):
        return apply(state, commit, digest_of(stored.body)), commit


def _dense(listed: Iterator[int], first: int, last: int) -> Iterator[int]:
    expected = first
    for number in listed:
        stop = min(number, last)
        yield from range(expected, stop + 1)
        expected = stop + 1
        if number >= last:
            return


def _read_all(store: ObjectStore, name: str, numbers: Sequence[int]) -> Iterator[StoredCommit]:
    if len(numbers) < _WORTH_THREADS:
        yield from (read_stored_commit(store, name, number) for number in numbers)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda number: read_stored_commit(store, name, number), numbers)
