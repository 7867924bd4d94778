"""The job of a connector: its protocol, its progress, and the trace of its failure.

Status answers and ``/metrics`` both take their numbers from the progress.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from kafkeep.archive.commit import Gap
from kafkeep.connect.connectors.source_keys import RESTORE, restore_options
from kafkeep.connect.model import Backlog, ConnectorType, LostOffsets, OffsetGaps
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import CONNECTOR

logger = logging.getLogger(__name__)

RunTasks = Callable[..., Any]
"""``SharedSpark.run_tasks``: bundles in, rows out."""
TASKS_UNKNOWN = 100
"""The most tasks to show while the number of partitions is unknown."""
NO_PROGRESS_MS = 60_000
"""Work that is due for longer than this without a commit is reported."""
GAPS_SHOWN = 10
LONGEST_TRACE = 8_000
_LONGEST_CHAIN = 5
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def shown_tasks(tasks_max: int | None, partitions: int | None = None) -> int:
    """Return how many tasks to show; ``partitions`` is None while unknown.

    ``tasks.max`` may be any number, and every task shown takes room in all answers.
    """
    return max(1, min(tasks_max or 1, TASKS_UNKNOWN if partitions is None else partitions))


def expected_tasks(new: Mapping[str, str], old: Mapping[str, str], shown: int) -> int:
    """Return how many tasks a changed connector will show when the old one shows ``shown``.

    ``tasks.max`` decides, unless there were fewer partitions than that already.
    """
    wanted, had = _wanted_tasks(new), _wanted_tasks(old)
    if wanted is None or had is None or wanted == had:
        return shown
    return min(wanted, shown) if shown < had else wanted


def _wanted_tasks(config: Mapping[str, str]) -> int | None:
    """Return what ``tasks.max`` asks for; None for a reference, which is not resolved here."""
    text = config.get("tasks.max", "1").strip()
    return shown_tasks(int(text)) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext:
    """The parts of a worker that its jobs use."""

    kafka: KafkaOptions
    """The worker's cluster; a connector's overrides apply on top."""
    run_tasks: RunTasks
    slots: Callable[[], int]
    """How many tasks run at once now."""
    state_address: str
    """Where the service keeps its state; restore documents are next to it."""
    state_storage: StorageOptions | None = None
    """How to reach it; None: as the environment says."""
    slot: AbstractContextManager[None] = field(default_factory=nullcontext)
    """Entered where a job is busy in this process; ``run_tasks`` releases it meanwhile."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Keys of the worker's file that apply to connectors without them, e.g. value.converter."""


def slots_within(context: JobContext, tasks_max: int | None) -> int:
    """Return how many tasks run at once now, limited by ``tasks.max``."""
    slots = context.slots()
    return min(slots, tasks_max or slots)


class ConnectorJob(Protocol):
    """One run of a connector. Each start makes a new job; it may run again after any end."""

    type: ConnectorType
    task_count: int
    """How many tasks to show: at most ``tasks.max``, and at most the number of partitions."""
    progress: Progress

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then end cleanly. A source ends by itself when it is done.

        Retries after transient errors. Raises KafkeepError when it cannot continue.
        """


class MakeJob(Protocol):
    """Makes the job of a connector; see ``connect/jobs/make.py``."""

    def __call__(self, name: str, config: Mapping[str, str], context: JobContext) -> ConnectorJob:
        """Return the job; ``config`` is resolved, with secrets. UsageError if it is wrong."""


def interruptible_sleep(stop: threading.Event) -> Callable[[float], None]:
    """Return a ``sleep`` for retries that raises TransientError once ``stop`` is set."""

    def sleep(seconds: float) -> None:
        if stop.wait(seconds):
            raise TransientError("the connector is stopping and does not try again")

    return sleep


def run_with_retries(name: str, work: Callable[[], None], stop: threading.Event) -> None:
    """Call ``work`` until it returns, again after each TransientError, until ``stop`` is set."""
    failures = 0
    while not stop.is_set():
        try:
            work()
            return
        except TransientError as error:
            logger.warning("connector %s: %s; trying again", name, error.message)
        failures += 1
        stop.wait(CONNECTOR.wait_s(failures))


@dataclass(slots=True)
class Counts:
    """Numbers of a job that only increase."""

    records: int = 0
    bytes: int = 0
    objects: int = 0
    commits: int = 0
    gaps: int = 0
    skipped_offsets: int = 0
    """Offsets in these gaps."""
    bad_records: int = 0

    def at_least(self, other: Counts) -> Counts:
        """Return the larger of each number."""
        return Counts(*map(max, self._numbers(), other._numbers()))

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(self._numbers(), other._numbers(), strict=True)))

    def _numbers(self) -> tuple[int, ...]:
        return tuple(getattr(self, one.name) for one in fields(Counts))


@dataclass(slots=True)
class Progress(Counts):
    """What a job has done since its start. The job writes it; status and metrics read it.

    One thread writes plain numbers, others read them. Partitions are (topic, number). ``records``
    is written last, so that a reader who sees it sees its positions, too.
    """

    last_commit_ms: int | None = None
    topics: set[str] = field(default_factory=set)
    """Topics that records were read from or written to."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """The next offset to archive or restore, by partition."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a sink: the end offsets in its last snapshot of the cluster."""
    measured_ms: int | None = None
    """When lag and gaps were last measured."""
    due_since_ms: int | None = None
    """Since when work is due without a commit."""
    is_passive: bool = False
    """True while another connector of its pair archives and this one does not read Kafka."""
    lost: OffsetGaps = field(default_factory=OffsetGaps)
    """All gaps of the log, also those of earlier runs."""
    lag_records: dict[tuple[str, int], int] = field(default_factory=dict)
    lag_since_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """Since when records of a partition wait; absent for one that is archived to its end."""


@dataclass(frozen=True, slots=True, order=True)
class PartitionLag:
    """How many offsets of one partition wait, and for how long the oldest has waited."""

    topic: str
    partition: int
    records: int = field(compare=False)
    seconds: float = field(compare=False)


def partition_lags(progress: Progress, now_ms: int) -> list[PartitionLag]:
    """Return how far behind each partition is, sorted; 0 records for one at its end."""
    # The job's thread keeps writing: a copy is atomic, a loop is not.
    waiting, since = progress.lag_records.copy(), progress.lag_since_ms.copy()
    return sorted(
        PartitionLag(
            topic,
            partition,
            records,
            max(0, now_ms - since.get((topic, partition), now_ms)) / 1000,
        )
        for (topic, partition), records in waiting.items()
    )


def backlog_of(
    progress: Progress, kind: ConnectorType, now_ms: int, running_since_ms: int | None
) -> Backlog:
    """Return a job's backlog; ``running_since_ms`` is None for a connector that does not run."""
    # Sums only: a connector may have 20,000 partitions, and every page and status asks for this.
    waiting, since = progress.lag_records.copy(), progress.lag_since_ms.copy()
    oldest_ms = min((at for key, at in since.items() if key in waiting), default=now_ms)
    stuck_ms = None if running_since_ms is None else _undone_since(progress, kind, running_since_ms)
    return Backlog(
        measured_ms=progress.measured_ms,
        records=sum(waiting.values()),
        seconds=max(0, now_ms - oldest_ms) / 1000,
        last_progress_ms=progress.last_commit_ms,
        no_progress_since_ms=stuck_ms
        if stuck_ms is not None and now_ms - stuck_ms >= NO_PROGRESS_MS
        else None,
        gaps=progress.lost,
        is_passive=progress.is_passive,
    )


def _undone_since(progress: Progress, kind: ConnectorType, running_since_ms: int) -> int | None:
    """Return since when work is due; a sink reads the end offsets every few seconds.

    Records that wait for a rotation rule are not due.
    """
    if progress.due_since_ms is not None:
        return max(progress.due_since_ms, running_since_ms)
    if kind == "source" or progress.is_passive:
        return None
    return max(progress.measured_ms or 0, running_since_ms)


def gaps_of(gaps: Iterable[Gap]) -> OffsetGaps:
    """Summarise the gaps of a log: all counted, the newest listed."""
    found = sorted(gaps, key=lambda gap: (gap.at_ms, gap.partition_id, gap.range.start))
    return OffsetGaps(
        count=len(found),
        offsets=sum(len(gap.range) for gap in found),
        newest=tuple(_lost(gap) for gap in reversed(found[-GAPS_SHOWN:])),
    )


def _lost(gap: Gap) -> LostOffsets:
    return LostOffsets(
        topic=gap.partition_id.topic,
        partition=gap.partition_id.partition,
        start=gap.range.start,
        end=gap.range.end,
        reason=gap.reason,
        at_ms=gap.at_ms,
    )


def format_trace(error: BaseException) -> str:
    """Return an error with its hint, its place in the code and its causes, without variables."""
    lines: list[str] = []
    seen: BaseException | None = error
    for depth in range(_LONGEST_CHAIN):
        if seen is None:
            break
        kind = f"{type(seen).__module__}.{type(seen).__qualname__}"
        lines.append(("Caused by: " if depth else "") + f"{kind}: {_message(seen)}")
        if isinstance(seen, KafkeepError) and seen.hint:
            lines.append(in_keys(seen.hint))
        for frame in reversed(traceback.extract_tb(seen.__traceback__)):
            lines.append(f"\tat {frame.name} ({_short(frame.filename)}:{frame.lineno})")
        seen = seen.__cause__
    return "\n".join(lines)[:LONGEST_TRACE]


def _message(error: BaseException) -> str:
    return in_keys(error.message) if isinstance(error, KafkeepError) else str(error)


def in_keys(text: str) -> str:
    """Replace flags of ``restore`` in a sentence by the keys of a connector.

    A sentence with a whole command stays as it is.
    """
    if "kafkeep " in text:
        return text
    names = [*(one.name for one in restore_options()), "state"]
    keys = {name: RESTORE + name for name in names} | {"topics": "topics"}

    def key_of(flag: re.Match[str]) -> str:
        return keys.get(flag[1].replace("-", "."), flag[0])

    return _FLAG.sub(key_of, text)


def _short(filename: str) -> str:
    """Return the path from the package on, without the folder it is installed in."""
    for package in ("/kafkeep/", "/site-packages/"):
        _, found, rest = filename.rpartition(package)
        if found:
            return package.strip("/") + "/" + rest if package == "/kafkeep/" else rest
    return filename.rpartition("/")[2]
