"""The values the service works with: connectors, their states, errors of the REST API. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from kafkeep.errors import KafkeepError

ConnectorType = Literal["sink", "source"]
Json = dict[str, Any]


class TargetState(StrEnum):
    """What a connector should be; it survives restarts of the service."""

    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"


class RunState(StrEnum):
    """What a connector or a task is now, under Connect's names."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A connector as it is defined; ``config`` is as it was sent, with references unresolved.

    ``generation`` grows with every change of the configuration, so that an outdated run is known.
    """

    name: str
    config: Mapping[str, str] = field(repr=False)
    target: TargetState = TargetState.RUNNING
    generation: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskStatus:
    """The state of one task; ``trace`` says why it failed, without secrets."""

    id: int
    state: RunState
    worker_id: str
    trace: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LostOffsets:
    """Offsets ``[start, end)`` of a partition that the archive lacks, and why."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetGaps:
    """The gaps in a connector's log: all counted, the newest listed, newest first."""

    count: int = 0
    offsets: int = 0
    newest: tuple[LostOffsets, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """How far a connector is behind, when it last made progress, and what it lost.

    ``no_progress_since_ms`` is set while work is due and nothing is committed.
    """

    measured_ms: int | None = None
    """When lag and gaps were measured; None: not yet."""
    records: int = 0
    seconds: float = 0.0
    last_progress_ms: int | None = None
    no_progress_since_ms: int | None = None
    gaps: OffsetGaps = field(default_factory=OffsetGaps)
    is_passive: bool = False
    """True while another connector of its pair archives in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorStatus:
    """The state of a connector and its tasks."""

    name: str
    type: ConnectorType
    version: str
    state: RunState
    worker_id: str
    tasks: tuple[TaskStatus, ...] = ()
    trace: str | None = None
    backlog: Backlog | None = None
    """None while the connector has no job."""
    generation: int | None = None
    """The connector's generation; None from a worker of an older kafkeep."""
    records_per_second: float | None = None
    """Over the last minute; only in the leader's heartbeats."""
    bytes_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level for all workers; a later one has a larger number."""

    number: int
    logger: str
    level: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginInfo:
    """What a connector's class is: sink or source, and the version that statuses show."""

    type: ConnectorType
    version: str


class RestError(KafkeepError):
    """An error answer: ``status`` is the HTTP status, the message is sent as it is."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[object, ...]:
        return (RestError, (self.status, self.message))


def invalid_config(errors: list[str]) -> RestError:
    """Return the error that lists everything wrong with a configuration, in Connect's words."""
    lines = "\n".join(errors)
    return RestError(
        400,
        f"Connector configuration is invalid and contains the following {len(errors)} error(s):\n"
        f"{lines}\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
    )
