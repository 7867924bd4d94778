"""The job of a compacted pair: two sinks of the same topics that alternate, as ch.tbd's do.

The active sink archives. When its time is over, the other one writes a fresh snapshot from the
topics' beginning and takes over once it holds as much. The old snapshot is then retired in its log
and its objects are deleted. The two sinks share a document in their archive (``pair_state.py``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from kafkeep.archive.checkpoint import load_log
from kafkeep.archive.entry import PartitionId
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.state import LogState
from kafkeep.archive.view import load_view
from kafkeep.backup.start_positions import EARLIEST
from kafkeep.clock import now_ms, writer_id
from kafkeep.connect.connectors.chtbd import CompactOptions
from kafkeep.connect.jobs.job import JobContext, Progress, run_with_retries
from kafkeep.connect.jobs.pair_state import (
    MemberFacts,
    Pair,
    PairDocument,
    SnapshotPhase,
    Step,
    next_step,
    pair_id,
)
from kafkeep.connect.jobs.sink import SinkJob, locations_of, read_sink, sink_options
from kafkeep.connect.model import ConnectorType
from kafkeep.errors import AccessDeniedError, NoSuchArchiveError, UsageError
from kafkeep.maintenance.move_positions import forget_all
from kafkeep.options.backup import BackupOptions
from kafkeep.options.kafka import Locations
from kafkeep.store.open import open_store

POLL_S = 1.0
LONGEST_AGE_MS = 10_000
"""An open object is closed after this, so that a snapshot can be complete."""
logger = logging.getLogger(__name__)


def make_compact_job(name: str, config: Mapping[str, str], context: JobContext) -> CompactJob:
    """Return the job of a member of a pair; its class is CompactBackupSinkConnector."""
    sink = read_sink(name, config, context)
    if sink.compact is None:
        raise UsageError(f"connector {name} is not a member of a compacted pair")
    locations = locations_of(sink, context)
    return CompactJob(sink_options(sink), sink.compact, locations, context)


class CompactJob:
    """The job of one member of a pair; see ``ConnectorJob``."""

    type: ConnectorType = "sink"

    def __init__(
        self,
        options: BackupOptions,
        pair: CompactOptions,
        locations: Locations,
        context: JobContext,
        *,
        clock: Callable[[], int] = now_ms,
        start: Callable[[SinkJob], RunningSink] | None = None,
    ) -> None:
        self.options = replace(
            options,
            start_at=EARLIEST,
            group=None,
            keeps_tail=False,
            segment_age_ms=min(LONGEST_AGE_MS, max(1, pair.length_ms // 4)),
        )
        self._group = options.group
        self._pair = pair
        self._locations = locations
        self._context = context
        self._clock = clock
        self.progress = Progress()
        self._start_running = start or SinkThread
        self._work: RunningSink | None = None
        self.task_count = 1

    @property
    def name(self) -> str:
        """The member's name: that of the connector's log."""
        return self.options.name

    def run(self, stop: threading.Event) -> None:
        """Alternate until stopped; retries while brokers or stores do not answer."""
        try:
            run_with_retries(self.options.called, lambda: self._run(stop), stop)
        finally:
            self._stop_sink()

    def _run(self, stop: threading.Event) -> None:
        store = open_store(self._locations.archive, self._locations.storage, create=True)
        document = PairDocument(store, pair_id(self.options.topics, self.options.topics_regex))
        while not stop.is_set():
            self.step(store, document)
            stop.wait(POLL_S)

    def step(self, store: ObjectStore, document: PairDocument) -> None:
        """Read the document and do the next step."""
        if self._work is not None:
            self._work.check()
        pair = self._join(store, document)
        self._do(self._next(store, pair), pair, store, document)
        self.task_count = self._work.task_count if self._work else 1
        self.progress.is_passive = self._work is None

    def _join(self, store: ObjectStore, document: PairDocument) -> Pair:
        """Return the document, with this member in it.

        A member that the document does not name continues what it has archived.
        """
        pair = document.load()
        if self.name in pair.members:
            return pair
        pair = pair.joined(self.name, self._clock())
        if load_log(store, self.name).state.positions:
            entered = replace(pair.members[self.name], phase=SnapshotPhase.BUILDING)
            pair = replace(pair, members={**pair.members, self.name: entered})
        document.put(pair)
        return document.load()

    def _next(self, store: ObjectStore, pair: Pair) -> Step:
        facts = MemberFacts(
            now_ms=self._clock(),
            length_ms=self._pair.length_ms,
            begins=self._pair.initial_status == "ACTIVATE",
        )
        phase, newest = pair.phase(self.name), pair.newest_complete()
        if phase is SnapshotPhase.BUILDING and self._work is not None and self._work.reached():
            others = _state(store, newest) if newest else None
            caught_up = others is None or covers(_state(store, self.name), others)
            facts = replace(facts, caught_up=caught_up)
        if phase is SnapshotPhase.COMPLETE and newest is not None and newest != self.name:
            covered = covers(_state(store, newest), _state(store, self.name))
            facts = replace(facts, covered=covered)
        return next_step(pair, self.name, facts)

    def _do(self, step: Step, pair: Pair, store: ObjectStore, document: PairDocument) -> None:
        match step:
            case Step.BEGIN:
                self._set_phase(document, pair, SnapshotPhase.BUILDING)
            case Step.WORK:
                self._start_sink()
            case Step.COMPLETE:
                self._set_phase(document, pair, SnapshotPhase.COMPLETE)
            case Step.REST | Step.WAIT:
                self._stop_sink()
            case Step.RETIRE:
                self._stop_sink()
                if covers(_state(store, pair.newest_complete() or ""), _state(store, self.name)):
                    self._set_phase(document, pair, SnapshotPhase.RETIRING)
            case Step.CLEAN:
                self._stop_sink()
                self._clean(store, document)

    def _set_phase(self, document: PairDocument, pair: Pair, phase: SnapshotPhase) -> None:
        if document.put(pair.moved(self.name, phase, self._clock())):
            logger.info("connector %s: its snapshot is now %s", self.options.called, phase)

    def _start_sink(self) -> None:
        if self._work is None:
            sink = SinkJob(self.options, self._locations, self._context, group=self._group)
            self.progress.positions, self.progress.lag_records = {}, {}
            self.progress.ends, self.progress.due_since_ms = {}, None
            sink.progress = self.progress
            self._work = self._start_running(sink)

    def _stop_sink(self) -> None:
        work, self._work = self._work, None
        if work is not None:
            work.end()

    def _clean(self, store: ObjectStore, document: PairDocument) -> None:
        """Retire the log, delete its objects, then set the phase to empty.

        The document is read again once the log is taken. Otherwise a member that was overtaken
        while it slept would retire the snapshot of the one that overtook it.
        """

        def is_mine() -> bool:
            return document.load().phase(self.name) is SnapshotPhase.RETIRING

        if not forget_all(
            store, self.name, writer=writer_id(), now_ms=self._clock, still_wanted=is_mine
        ):
            return
        try:
            for entry in load_view(store, self.name).retired():
                store.delete(entry.key)
        except AccessDeniedError as error:
            called = self.options.called
            logger.warning("connector %s: cannot delete its old objects: %s", called, error.message)
        pair = document.load()
        if pair.phase(self.name) is SnapshotPhase.RETIRING:
            self._set_phase(document, pair, SnapshotPhase.EMPTY)


class RunningSink(Protocol):
    """A sink that runs."""

    @property
    def task_count(self) -> int:
        """How many tasks to show."""

    def check(self) -> None:
        """Raise the error that ended the sink, if there is one."""

    def reached(self) -> bool:
        """Return True when all is archived that Kafka had when the sink started."""

    def end(self) -> None:
        """Stop the sink and wait for it."""


class SinkThread:
    """A sink in a thread of its own."""

    def __init__(self, sink: SinkJob) -> None:
        self._sink = sink
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._goal: dict[tuple[str, int], int] = {}
        self._thread = threading.Thread(target=self._run, name=sink.options.called, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._sink.run(self._stop)
        except BaseException as error:  # check() raises it again
            self._error = error

    @property
    def task_count(self) -> int:
        """See ``RunningSink``; so for the others."""
        return self._sink.task_count

    def check(self) -> None:
        """Raise the error that ended the sink."""
        if self._error is not None:
            raise self._error

    def reached(self) -> bool:
        positions = self._sink.progress.positions
        if not self._goal:
            # Not from positions and lag: one may change between two reads of the other.
            ends = self._sink.progress.ends
            self._goal = {key: end for key, end in ends.items() if key in positions}
        return bool(self._goal) and all(
            positions.get(key, -1) >= end for key, end in self._goal.items()
        )

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def covers(new: LogState, old: LogState) -> bool:
    """Return True when log ``new`` holds all that ``old`` holds.

    It does not when a topic was deleted since, also if there is another one of its name now.
    """
    held = {(_topic_id(new, pid), pid.partition): at for pid, at in new.positions.items()}
    return all(
        held.get((_topic_id(old, pid), pid.partition), -1) >= at
        for pid, at in old.positions.items()
    )


def _topic_id(state: LogState, pid: PartitionId) -> str:
    info = state.topics.get(pid[:2])
    return info.topic_id if info else str(pid[:2])


def _state(store: ObjectStore, name: str) -> LogState:
    with suppress(NoSuchArchiveError):
        return load_log(store, name).state
    return LogState(name=name)
