"""A restore that goes on, round by round, whatever it follows.

Every round is a restore of its own, of what was written down before it began, with the document
that makes it resumable. So a round that was cut off is finished, one that is done is not done
again, and each record is written once. On the driver.
"""

from __future__ import annotations

import hashlib
import logging
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from kafkeep.archive.object_store import ObjectStore
from kafkeep.failpoint import failpoint
from kafkeep.kafka.admin.admin import Admin
from kafkeep.options.kafka import Locations
from kafkeep.options.restore import RestoreOptions
from kafkeep.restore.document import load_document
from kafkeep.restore.job import RestoreJob, RunTasks
from kafkeep.restore.summary import RestoreSummary

ROUND_BYTES = 1 << 30
SWEEP_EVERY = 500
SWEPT_AT_ONCE = 2 * SWEEP_EVERY
KEPT_MS = 86_400_000
"""Documents of rounds are kept for a day: a worker that slept may still look for them."""
logger = logging.getLogger(__name__)


class HowFar(Protocol):
    """What is written down of a restore that follows."""

    @property
    def targets(self) -> Mapping[str, str]:
        """Under which names topics came back."""

    @property
    def rounds(self) -> int:
        """Rounds that are done, or were given up."""

    @property
    def open_round(self) -> int | None:
        """The number of the round under way."""


F = TypeVar("F", bound=HowFar)


@dataclass(kw_only=True)
class Rounds(ABC, Generic[F]):
    """One restore that follows. Everything that does I/O is given to it."""

    options: RestoreOptions
    locations: Locations
    admin: Admin
    store: ObjectStore
    state: ObjectStore
    """Where its document lies."""
    open_round: Callable[[int], ObjectStore]
    """Opens the place for the documents of a round."""
    run_tasks: RunTasks
    cores: int
    now_ms: Callable[[], int]
    most_bytes: int = ROUND_BYTES
    on_progress: Callable[[int, int], None] = lambda _done, _total: None
    """Told, while a round writes, its records written and to write."""
    followed: F = field(init=False)

    @abstractmethod
    def begin(self) -> None:
        """Read how far it has come."""

    def step(self) -> RestoreSummary | None:
        """Restore one round, and write that down; None when there was none."""
        if not self._is_begun():
            self._settle_names()
        if self.followed.open_round is None and not self._open():
            return None
        job = self._job()
        job.on_progress = self.on_progress
        summary = job.run(job.preflight(), self.run_tasks)
        failpoint("follow.written")
        self._finish(job)
        failpoint("follow.finished")
        if self.followed.rounds % SWEEP_EVERY == 0:
            self.sweep()
        return summary

    def sweep(self) -> None:
        """Delete documents of rounds that ended a day ago, from where the last sweep came to."""
        before = self.now_ms() - KEPT_MS
        done = range(1, self.followed.rounds)
        first = bisect_left(done, True, key=self._has_documents)
        for number in done[first : first + SWEPT_AT_ONCE]:
            documents = self.open_round(number)
            found = list(documents.list(""))
            if any(info.modified_ms >= before for info in found):
                return
            for info in found:
                documents.delete(info.key)

    def _has_documents(self, number: int) -> bool:
        return next(iter(self.open_round(number).list("")), None) is not None

    @abstractmethod
    def _open(self) -> bool:
        """Write down what the next round restores, if there is anything."""

    @abstractmethod
    def _job(self) -> RestoreJob:
        """Return the restore of the round under way: always the same."""

    @abstractmethod
    def _finish(self, job: RestoreJob) -> None:
        """Write down that the round under way is done."""

    @abstractmethod
    def _forget(self, topics: Collection[str]) -> None:
        """Let topics come back from their beginning, a round under way given up."""

    def round_id(self, number: int) -> str:
        """Return what the restore of a round is called: the same whatever the options become.

        So a round goes on under other options only if what is there can be theirs.
        """
        told = f"{self.state.describe()}\n{number}"
        return hashlib.sha256(told.encode()).hexdigest()[:32]

    def _is_begun(self) -> bool:
        """Tell whether records of the round under way may have been written already."""
        number = self.followed.open_round
        if number is None:
            return False
        return load_document(self.open_round(number), self.round_id(number)) is not None

    def _settle_names(self) -> None:
        """Let a topic that is to have another name come back from its beginning, under that.

        A round that has begun is finished under the names it began with; one that has not, perhaps
        because its target was refused, is given up.
        """
        names = dict(self.options.topics)
        moved = {
            topic
            for topic, name in self.followed.targets.items()
            if self.options.wants(topic) and names.get(topic, topic) != name
        }
        if moved:
            logger.info(
                "restored under new names, from the beginning: %s", ", ".join(sorted(moved))
            )
            self._forget(moved)
