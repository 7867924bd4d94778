"""Loading a log: the newest usable checkpoint and the commits after it."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.archive.chain import follow, iter_bytes
from kafkeep.archive.checkpoint import Checkpoint, find_newest
from kafkeep.archive.commit import Commit
from kafkeep.archive.keys import LAST_NUMBER, log_key
from kafkeep.archive.lost import lost_commits_error
from kafkeep.archive.state import State
from kafkeep.archive.store import ObjectStore
from kafkeep.errors import KeyMissingError


@dataclass(frozen=True, slots=True)
class Head:
    """A log up to one of its commits."""

    state: State
    base: Checkpoint
    tail: tuple[Commit, ...]
    """The commits after ``base``."""
    removed: Checkpoint | None = None
    """An intact checkpoint past the end of the log: the commits up to it were removed."""

    def check_end(self) -> None:
        """Raise DamagedError when commits were removed from the end of the log."""
        if self.removed is not None:
            raise lost_commits_error(self.state, self.removed.state)


def load_head(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> Head:
    """Load a log up to ``commit``, or to its end when it is shorter.

    ``state.commit`` is -1 when there is no log. DamagedError when a commit is missing before a
    later one or before an intact checkpoint, cannot be read, or does not continue the one before.
    """
    head = load_remaining(store, name, commit)
    head.check_end()
    return head


def load_remaining(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> Head:
    """Load a log as ``load_head`` does; commits removed from its end are told by ``removed``."""
    newest = find_newest(store, name, commit)
    state, tail = newest.usable.state, []
    for stored in iter_bytes(store, name, state.commit + 1, commit):
        state, step = follow(state, stored)
        tail.append(step)
    removed = newest.removed
    if removed is None and state.commit < commit < LAST_NUMBER:
        removed = find_newest(store, name).removed  # checkpoints after ``commit`` count too
    if removed is not None and not _is_removed(store, state, removed.state):
        removed = None
    return Head(state, newest.usable, tuple(tail), removed)


def _is_removed(store: ObjectStore, state: State, removed: State) -> bool:
    """Tell whether a commit that has a checkpoint is still missing, asked for once more."""
    if removed.commit <= state.commit:
        return False
    try:
        store.head(log_key(removed.name, removed.commit))
    except KeyMissingError:
        return True
    return False
