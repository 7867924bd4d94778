"""The commit log, for its single writer.

A log is a dense sequence of conditional creates: the first writer to create commit N determines its
content. No commit is ever replaced or deleted. A writer takes the next epoch with a commit. A
writer that was fenced finds its next number taken, reads the newer epoch there, and stops.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

from kafkeep.archive.checkpoint import DEFAULT_EVERY, Checkpointer, LoadedLog, load_log
from kafkeep.archive.codec import encode_commit
from kafkeep.archive.commit import Changes, Commit
from kafkeep.archive.document import digest_of
from kafkeep.archive.names import log_name
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.read_commits import StoredCommit, commits_of, decode_stored
from kafkeep.archive.sequence import CreateOutcome
from kafkeep.archive.state import LogState, apply, check_changes, stamped
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import (
    DamagedError,
    FencedError,
    KafkeepError,
    NoSuchArchiveError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.retry import COMMIT

OPEN_ATTEMPTS = 32


class CommitLog:
    """A log that this process writes. Made by ``open``; used by one thread, on the driver."""

    def __init__(
        self,
        store: ObjectStore,
        loaded: LoadedLog,
        *,
        now_ms: Callable[[], int],
        sleep: Callable[[float], None],
        checkpoint_every: int,
    ) -> None:
        self._store = store
        self._state = loaded.state
        self._now_ms = now_ms
        self._sleep = sleep
        self._checkpointer = Checkpointer(store, loaded.base, loaded.tail, checkpoint_every)
        self._stopped_by: KafkeepError | None = None

    @classmethod
    def open(
        cls,
        store: ObjectStore,
        name: str,
        *,
        writer: str,
        now_ms: Callable[[], int],
        create: bool = True,
        note: str = "",
        sleep: Callable[[float], None] = time.sleep,
        checkpoint_every: int = DEFAULT_EVERY,
    ) -> CommitLog:
        """Take the next epoch with a commit and return the log; begin it if there is none.

        The caller must first finish an open ``state.intent``. When several writers open a log at
        once, the last one holds it. ``writer`` must be unique to this process.
        """
        log_name(name)
        for _ in range(OPEN_ATTEMPTS):
            loaded = load_log(store, name)
            if loaded.state.commit < 0 and not create:
                raise NoSuchArchiveError(f"{store.describe()} has no log named {name!r}")
            log = cls(store, loaded, now_ms=now_ms, sleep=sleep, checkpoint_every=checkpoint_every)
            if log._take(writer, note):
                return log
        raise TransientError(f"{name}: other writers keep taking over the log")

    @property
    def state(self) -> LogState:
        """The state after this writer's last commit."""
        return self._state

    def view(self) -> ArchiveView:
        """Return what readers see after this writer's last commit, without reading the store."""
        return ArchiveView(
            self._store, LoadedLog(self._state, *self._checkpointer.parts(self._state))
        )

    def append(self, changes: Changes) -> Commit:
        """Commit ``changes`` and return the commit once the store holds it for certain.

        ValueError, before anything is sent, when the changes cannot follow the state. FencedError
        when a newer writer has taken the log. UnknownOutcomeError when the store does not answer:
        the commit may be there, and opening the log again shows whether it is.
        """
        if self._stopped_by is not None:
            raise self._stopped_by
        changes = stamped(self._state, changes)
        check_changes(self._state, changes)
        commit = self._next(changes, self._state.epoch, self._state.writer)
        kind = "intent" if changes.is_plan else "commit"
        other = self._send(commit, kind)
        if other is not None:
            self._stopped_by = self._stop_reason(other)
            raise self._stopped_by
        return commit

    def checkpoint_if_due(self) -> bool:
        """Write a checkpoint if enough commits follow the last one; return whether it was written.

        A transient failure of the store postpones it.
        """
        return self._checkpointer.write_if_due(self._state)

    def checkpoint(self) -> bool:
        """Write a checkpoint now, due or not; return whether it was written."""
        return self._checkpointer.write(self._state)

    def _take(self, writer: str, note: str) -> bool:
        """Commit the next epoch; return False when another commit came first."""
        begun = "begun" if self._state.commit < 0 else "taken over"
        changes = Changes(note=note or f"log {self._state.name} {begun} by {writer}")
        commit = self._next(changes, self._state.epoch + 1, writer)
        return self._send(commit, "open") is None

    def _next(self, changes: Changes, epoch: int, writer: str) -> Commit:
        state = self._state
        return Commit(
            log=state.name,
            number=state.commit + 1,
            previous=state.digest,
            epoch=epoch,
            writer=writer,
            # Clocks of machines differ, but time in a log never moves back.
            at_ms=max(self._now_ms(), state.at_ms),
            changes=changes,
        )

    def _send(self, commit: Commit, kind: str) -> StoredCommit | None:
        """Send ``commit``; return the other commit that holds its number, or None."""
        commits, body = commits_of(self._store, commit.log), encode_commit(commit)
        key = commits.key(commit.number)
        # Whatever interrupts the create, its outcome is unknown and this log must not continue.
        self._stopped_by = UnknownOutcomeError(
            f"{key} was sent, but the store did not confirm it",
            hint="Run it again: opening the log shows whether the commit is stored.",
        )
        creation = commits.create(commit.number, body, COMMIT, sleep=self._sleep, place=kind)
        if creation.outcome is CreateOutcome.UNKNOWN:
            raise self._stopped_by from creation.failure
        if not creation.is_ours:
            return StoredCommit(commit.number, key, creation.holder)
        self._stopped_by = None
        self._state = apply(self._state, commit, digest_of(body))
        self._checkpointer.add(commit)
        return None

    def _stop_reason(self, stored: StoredCommit) -> KafkeepError:
        other = decode_stored(self._state.name, stored)
        if other.epoch <= self._state.epoch:
            return DamagedError(
                f"{stored.key} was written by another writer in epoch {other.epoch}"
            )
        when = datetime.fromtimestamp(other.at_ms / 1000, UTC).isoformat(timespec="seconds")
        return FencedError(
            f"{self._state.name}: {other.writer} took over the log at {when} (epoch {other.epoch},"
            f" commit {other.number}); this writer (epoch {self._state.epoch}) has stopped",
            hint="A log has one writer: stop the other one, or give this one its own --name.",
        )
