"""Reading the chain of commits: dense, in order, each naming the digest of the one before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from kafkeep.archive.codec import decode_commit
from kafkeep.archive.commit import Commit
from kafkeep.archive.document import digest_of, reading
from kafkeep.archive.keys import LAST_NUMBER, log_key, log_prefix, parse_log_key
from kafkeep.archive.seal import HINT, read_sound
from kafkeep.archive.state import State, apply
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import DamagedError, KeyMissingError

_WINDOW = 64
_THREADS = 8
_WORTH_THREADS = 4


@dataclass(frozen=True, slots=True)
class CommitBytes:
    """One commit as it lies in the store."""

    number: int
    key: str
    body: bytes


def iter_numbers(store: ObjectStore, name: str, first: int = 0) -> Iterator[int]:
    """Yield the numbers of the commits that a listing shows, from ``first`` on, in order."""
    prefix = log_prefix(name)
    after = log_key(name, first - 1) if first > 0 else prefix
    for found in store.list(prefix, after=after):
        number = parse_log_key(found.key)
        if number is not None:
            yield number


def iter_bytes(
    store: ObjectStore, name: str, first: int = 0, last: int = LAST_NUMBER
) -> Iterator[CommitBytes]:
    """Yield the commits ``first..last`` as bytes, in order, up to the end of the log.

    DamagedError where one is missing before a later one. A listing is no snapshot: it may show a
    commit and not the one before it, so what it lacks is asked for by name.
    """
    numbers = _dense(iter_numbers(store, name, first), first, last)
    while window := list(islice(numbers, _WINDOW)):
        yield from _read_all(store, name, window)


def read_commit(store: ObjectStore, name: str, number: int) -> CommitBytes:
    """Return one commit as bytes, as good as they can be had; DamagedError when it is missing."""
    key = log_key(name, number)
    try:
        return CommitBytes(number, key, read_sound(store, key))
    except KeyMissingError as error:
        raise DamagedError(
            f"{key} is missing, though later commits are there",
            hint=_what_is_left(number),
        ) from error


def _what_is_left(missing: int) -> str:
    """Say what can be done about a log without one of its commits; before the first is nothing."""
    if missing == 0:
        return f"It is the log's first commit, so no earlier state can be restored. {HINT}"
    return f"What was archived before it comes back by restore --commit {missing - 1}."


def decode(name: str, stored: CommitBytes) -> Commit:
    """Return the commit of stored bytes; DamagedError or NewerFormatError naming its key."""
    return decode_commit(stored.body, stored.key, log=name, number=stored.number)


def follow(state: State, stored: CommitBytes) -> tuple[State, Commit]:
    """Return the state after a stored commit; DamagedError when it cannot follow."""
    commit = decode(state.name, stored)
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


def _read_all(store: ObjectStore, name: str, numbers: Sequence[int]) -> Iterator[CommitBytes]:
    if len(numbers) < _WORTH_THREADS:
        yield from (read_commit(store, name, number) for number in numbers)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(lambda number: read_commit(store, name, number), numbers)
