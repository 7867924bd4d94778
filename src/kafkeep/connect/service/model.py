"""Why a connector failed, as text for people: message, hint, and where it came from. Pure.

What the service speaks of: connectors, their states, and what their jobs report. Pure.

A connector's work as the supervisor sees it: something that runs until it is told to stop.
"""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol

from kafkeep.connect.connectors.source_keys import RESTORE, restore_options
from kafkeep.errors import KafkeepError
from kafkeep.options.kafka import KafkaOptions
from kafkeep.options.storage import StorageOptions

ConnectorType = Literal["sink", "source"]


class Target(StrEnum):
    """What a connector is told to be; kept over restarts of the service."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class RunState(StrEnum):
    """What a connector or a task is, under Connect's names."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector as it is defined; ``config`` is as it was sent, references unresolved.

    ``generation`` grows with every change of the configuration, so that a run knows it is old.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    target: Target = Target.RUNNING
    generation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """One task; ``trace`` says why it failed, without secrets."""

    id: int
    state: RunState
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets ``[start, end)`` of a partition that are not in the archive, and why."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGaps:
    """The gaps that a connector's log has: all are counted, the newest are listed first."""

    count: int = 0
    offsets: int = 0
    newest: tuple[LostOffsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How far a connector is behind, when it last got on, and what it never got.

    ``no_progress_since_ms`` is set while work is due and nothing is committed.
    """

    measured_ms: int | None = None
    """When lag and gaps were read; None: not yet."""
    records: int = 0
    seconds: float = 0.0
    last_progress_ms: int | None = None
    no_progress_since_ms: int | None = None
    gaps: OffsetGaps = field(default_factory=OffsetGaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """A connector and its tasks as they are now."""

    name: str
    type: ConnectorType
    version: str
    state: RunState
    worker_id: str
    tasks: tuple[TaskStatus, ...] = ()
    trace: str | None = None
    backlog: Backlog | None = None
    """None while it has no job."""
    generation: int | None = None
    """Of the connector it was taken of; None from a worker of an older kafkeep."""


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level that every worker is to have; numbers grow with every one that is set."""

    number: int
    logger: str
    level: str


@dataclass(slots=True)
class Progress:
    """What a job has done since it was started, told by the job, read by status and metrics.

    Plain numbers that one thread writes and others read; partitions are (topic, number). Records
    are counted last: who sees them sees where they are, too.
    """

    records: int = 0
    bytes: int = 0
    objects: int = 0
    commits: int = 0
    gaps: int = 0
    skipped_offsets: int = 0
    """Offsets in those gaps."""
    bad_records: int = 0
    last_commit_ms: int | None = None
    topics: set[str] = field(default_factory=set)
    """Topics records were read from or written to."""
    positions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Archived (or read back) up to here."""
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    """Of a sink: where Kafka ended when it was last looked at."""
    measured_ms: int | None = None
    """When lag and gaps were last read."""
    due_since_ms: int | None = None
    """Since when there is something to do, of which nothing is committed yet."""
    waits_its_turn: bool = False
    """Whether it does not look at Kafka now because another of its pair archives."""
    lost: OffsetGaps = field(default_factory=OffsetGaps)
    """All gaps of the log, those of earlier runs too."""
    lag_records: dict[tuple[str, int], int] = field(default_factory=dict)
    lag_since_ms: dict[tuple[str, int], int] = field(default_factory=dict)
    """Since when records of a partition wait; none for one that is archived to its end."""


class RestError(KafkeepError):
    """An answer other than success: ``status`` is HTTP's, the message goes out as it is."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return (RestError, (self.status, self.message))


Json = dict[str, Any]


RunTasks = Callable[..., Any]
"""``OpenSpark.run_tasks``: bundles in, rows out."""
TASKS_UNSEEN = 100
"""No more tasks are shown than this while nobody knows how many partitions there are."""


def shown_tasks(tasks_max: int | None, partitions: int | None = None) -> int:
    """Return how many tasks to show; ``partitions`` None: not known yet.

    A ``tasks.max`` may be anything, and every task that is shown takes room in all answers.
    """
    return max(1, min(tasks_max or 1, TASKS_UNSEEN if partitions is None else partitions))


def expected_tasks(new: Mapping[str, str], old: Mapping[str, str], shown: int) -> int:
    """Return how many tasks a changed connector will show, where the old one shows ``shown``.

    ``tasks.max`` decides, unless there were fewer partitions than that already.
    """
    wanted, had = _wanted_tasks(new), _wanted_tasks(old)
    if wanted is None or had is None or wanted == had:
        return shown
    return min(wanted, shown) if shown < had else wanted


def _wanted_tasks(config: Mapping[str, str]) -> int | None:
    """Return what ``tasks.max`` asks for; None for a reference, which is resolved elsewhere."""
    text = config.get("tasks.max", "1").strip()
    return shown_tasks(int(text)) if text.isascii() and text.isdigit() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every job of a worker shares."""

    kafka: KafkaOptions
    """The worker's cluster; a connector's overrides come on top."""
    run_tasks: RunTasks
    cores: int
    state_address: str
    """Where the service keeps its state: documents of restores lie beside it."""
    state_storage: StorageOptions | None = None
    """How that is reached; None: as the environment says."""
    turn: AbstractContextManager[None] = field(default_factory=nullcontext)
    """Entered where a job is busy in this process; ``run_tasks`` leaves it meanwhile."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Keys of the worker's file that hold for connectors without them, e.g. value.converter."""


class ConnectorJob(Protocol):
    """One connector's run. Made anew for every start; safe to run again after any end."""

    type: ConnectorType
    task_count: int
    """How many tasks to show: at most tasks.max, and never more than partitions to read."""
    progress: Progress

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set, then end cleanly; a source may end by itself, when done.

        Raises KafkeepError when it cannot go on. Faults that pass are waited out inside.
        """


class MakeJob(Protocol):
    """Makes the job of a connector; ``connect/jobs/make.py`` has the one there is."""

    def __call__(
        self, name: str, config: Mapping[str, str], surroundings: Surroundings
    ) -> ConnectorJob:
        """Return the job; ``config`` is resolved, with real secrets. UsageError if it is wrong."""


LONGEST_TRACE = 8_000
_LONGEST_CHAIN = 5
_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")


def format_trace(error: BaseException) -> str:
    """Return the error, its hint, its place in the code and its causes; no values of variables."""
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
    """Return a sentence that names flags of ``restore`` with the keys that a connector has.

    One that tells a whole command stays as it is.
    """
    if "kafkeep " in text:
        return text
    keys = {one.name: RESTORE + one.name for one in restore_options()} | {"topics": "topics"}

    def key_of(flag: re.Match[str]) -> str:
        return keys.get(flag[1].replace("-", "."), flag[0])

    return _FLAG.sub(key_of, text)


def _short(filename: str) -> str:
    """Return the path from the package on: where it is installed is nobody's business."""
    for package in ("/kafkeep/", "/site-packages/"):
        _, found, rest = filename.rpartition(package)
        if found:
            return package.strip("/") + "/" + rest if package == "/kafkeep/" else rest
    return filename.rpartition("/")[2]
