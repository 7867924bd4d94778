"""Loading a log: the newest usable checkpoint and the commits after it."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.archive.chain import follow, iter_bytes
from kafkeep.archive.checkpoint import Checkpoint, load_newest
from kafkeep.archive.commit import Commit
from kafkeep.archive.keys import LAST_NUMBER
from kafkeep.archive.state import State
from kafkeep.archive.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Head:
    """A log up to one of its commits."""

    state: State
    base: Checkpoint
    tail: tuple[Commit, ...]
    """The commits after ``base``."""


def load_head(store: ObjectStore, name: str, commit: int = LAST_NUMBER) -> Head:
    """Load a log up to ``commit``, or to its end when it is shorter.

    ``state.commit`` is -1 when there is no log. DamagedError when a commit is missing before a
    later one, cannot be read, or does not continue the one before it.
    """
    base = load_newest(store, name, commit)
    state, tail = base.state, []
    for stored in iter_bytes(store, name, state.commit + 1, commit):
        state, step = follow(state, stored)
        tail.append(step)
    return Head(state, base, tuple(tail))
