"""What the service speaks of: connectors, their states, and what their jobs report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from kafkeep.errors import KafkeepError

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
class ConnectorStatus:
    """A connector and its tasks as they are now."""

    name: str
    type: ConnectorType
    version: str
    state: RunState
    worker_id: str
    tasks: tuple[TaskStatus, ...] = ()
    trace: str | None = None


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
