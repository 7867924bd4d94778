"""What the service knows of all connectors at one moment, and of one connector's archive. Pure.

The REST API and the web console show the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from kafkeep.connect.metrics.totals import ConnectorTotals
from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    OffsetGaps,
    RunState,
    TargetState,
)

MAX_POINTS = 300
"""How many points a growth curve has at most."""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the log of a connector says: when it last moved on, and which offsets are lost."""

    last_commit_ms: int | None = None
    gaps: OffsetGaps = field(default_factory=OffsetGaps)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorOverview:
    """One connector: its state, how far it is behind and how fast it works; None: not known."""

    name: str
    type: ConnectorType
    state: RunState
    tasks: int = 0
    failed_tasks: int = 0
    lag_records: int | None = None
    lag_seconds: float | None = None
    last_commit_ms: int | None = None
    verified_ms: int | None = None
    no_progress_since_ms: int | None = None
    gaps: OffsetGaps | None = None
    is_passive: bool = False
    """True while another connector of its pair archives in its place."""
    records_per_second: float | None = None
    bytes_per_second: float | None = None

    @property
    def gap_count(self) -> int | None:
        """How many gaps its log has."""
        return None if self.gaps is None else self.gaps.count

    @property
    def lost_offsets(self) -> int | None:
        """How many offsets are lost in these gaps."""
        return None if self.gaps is None else self.gaps.offsets

    @property
    def has_failed(self) -> bool:
        """True when the connector or one of its tasks failed."""
        return self.state is RunState.FAILED or self.failed_tasks > 0

    @property
    def needs_attention(self) -> bool:
        """True when records are lost, or are not archived although they should be."""
        return self.has_failed or bool(self.gap_count) or self.no_progress_since_ms is not None

    @property
    def doubt(self) -> str:
        """Why a sink may be behind without anybody noticing; empty when it cannot be."""
        if self.type != "sink" or self.is_passive:
            return ""
        if self.state is not RunState.RUNNING:
            return "not started" if self.state is RunState.UNASSIGNED else self.state.value.lower()
        if self.lag_records is None:
            return "lag not measured yet"
        return "gaps not read yet" if self.gaps is None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOverview:
    """All connectors at one moment, and the worker's health."""

    health: str
    leader: str | None
    is_leader: bool
    connectors: tuple[ConnectorOverview, ...] = ()

    @property
    def failed(self) -> int:
        """How many connectors failed."""
        return sum(one.has_failed for one in self.connectors)

    @property
    def running(self) -> int:
        """How many connectors run with all of their tasks."""
        return sum(one.state is RunState.RUNNING and not one.has_failed for one in self.connectors)

    @property
    def lag_records(self) -> int | None:
        """The lag of all connectors; None when none is known."""
        known = [one.lag_records for one in self.connectors if one.lag_records is not None]
        return sum(known) if known else None

    @property
    def lag_seconds(self) -> float | None:
        """The longest wait of all connectors."""
        return max(
            (one.lag_seconds for one in self.connectors if one.lag_seconds is not None),
            default=None,
        )

    @property
    def records_per_second(self) -> float | None:
        """The rate of all connectors."""
        known = [o.records_per_second for o in self.connectors if o.records_per_second is not None]
        return sum(known) if known else None

    @property
    def bytes_per_second(self) -> float | None:
        """The rate of all connectors in bytes as Kafka holds them."""
        known = [o.bytes_per_second for o in self.connectors if o.bytes_per_second is not None]
        return sum(known) if known else None

    @property
    def gaps(self) -> int | None:
        """The gaps of all connectors; None when none is known."""
        known = [one.gap_count for one in self.connectors if one.gap_count is not None]
        return sum(known) if known else None

    @property
    def unmeasured(self) -> int:
        """How many connectors have a lag that is not known."""
        return sum(one.lag_records is None and not one.is_passive for one in self.connectors)

    @property
    def sinks(self) -> tuple[ConnectorOverview, ...]:
        """The connectors that archive."""
        return tuple(one for one in self.connectors if one.type == "sink")

    @property
    def last_commit_ms(self) -> int | None:
        """The newest commit of all connectors."""
        known = [one.last_commit_ms for one in self.connectors if one.last_commit_ms is not None]
        return max(known, default=None)

    def find(self, name: str) -> ConnectorOverview | None:
        """Return one connector."""
        return next((one for one in self.connectors if one.name == name), None)


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """What an archive had gained by a time: all objects, records and bytes committed so far."""

    at_ms: int
    objects: int
    records: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """The worker as it was started; secrets are masked."""

    version: str
    connect_version: str = ""
    worker_id: str = ""
    state: str = ""
    config: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, bool] = field(default_factory=dict)


def downsample(points: Sequence[GrowthPoint], limit: int = MAX_POINTS) -> tuple[GrowthPoint, ...]:
    """Return at most ``limit`` of the points, evenly chosen; the first and the last stay."""
    if len(points) <= limit:
        return tuple(points)
    step = (len(points) - 1) / (limit - 1)
    return tuple(points[round(number * step)] for number in range(limit))


def total_growth(curves: Sequence[Sequence[GrowthPoint]]) -> tuple[GrowthPoint, ...]:
    """Return the sum of several archives over time."""
    times = sorted({point.at_ms for curve in curves for point in curve})
    places = [0] * len(curves)
    total: list[GrowthPoint] = []
    for at_ms in times:
        for number, curve in enumerate(curves):
            while places[number] < len(curve) and curve[places[number]].at_ms <= at_ms:
                places[number] += 1
        seen = [curve[at - 1] for curve, at in zip(curves, places, strict=True) if at]
        total.append(
            GrowthPoint(
                at_ms,
                sum(point.objects for point in seen),
                sum(point.records for point in seen),
                sum(point.bytes for point in seen),
            )
        )
    return downsample(total)


def caught_up(status: ConnectorStatus, connector: Connector) -> ConnectorStatus:
    """Return the status that follows from the leader's last one and the connector as it is now.

    A connector that was created again, paused, has never run, whatever its predecessor did.
    """
    if (
        status.generation in (None, connector.generation)
        or connector.target is not TargetState.PAUSED
    ):
        return status
    tasks = tuple(replace(task, state=RunState.PAUSED, trace=None) for task in status.tasks)
    return replace(status, state=RunState.PAUSED, trace=None, tasks=tasks)


def health_of(
    statuses: Sequence[ConnectorStatus], leader_id: str | None, *, is_leader: bool
) -> Json:
    """Return whether this worker leads or knows who does, and which connectors failed."""
    return {
        "status": "healthy" if leader_id is not None else "starting",
        "leader": leader_id,
        "is_leader": is_leader,
        "connectors": len(statuses),
        "failed": sorted(one.name for one in statuses if _has_failed(one)),
    }


def _has_failed(status: ConnectorStatus) -> bool:
    return RunState.FAILED in (status.state, *(task.state for task in status.tasks))


def overview_of(
    statuses: Sequence[ConnectorStatus],
    readings: Mapping[str, ConnectorTotals],
    verified_ms: Mapping[str, int],
    logs: Mapping[str, LogFacts],
    health: Json,
) -> ServiceOverview:
    """Put together what is known of each connector; a standby worker has no ``readings``.

    ``logs`` tell what a job has not: one that is stopped, paused, or has just been started.
    """
    return ServiceOverview(
        health=str(health["status"]),
        leader=health["leader"],
        is_leader=bool(health["is_leader"]),
        connectors=tuple(
            _connector(one, readings.get(one.name), verified_ms.get(one.name), logs.get(one.name))
            for one in statuses
        ),
    )


def _connector(
    status: ConnectorStatus,
    reading: ConnectorTotals | None,
    verified_ms: int | None,
    log: LogFacts | None,
) -> ConnectorOverview:
    backlog = status.backlog or Backlog()
    is_measured = backlog.measured_ms is not None
    commits_ms = (
        backlog.last_progress_ms,
        reading.last_commit_ms if reading is not None else None,
        log.last_commit_ms if log is not None else None,
    )
    known_gaps = log.gaps if log is not None else None
    return ConnectorOverview(
        name=status.name,
        type=status.type,
        state=status.state,
        tasks=len(status.tasks),
        failed_tasks=sum(task.state is RunState.FAILED for task in status.tasks),
        lag_records=backlog.records if is_measured else None,
        lag_seconds=backlog.seconds if is_measured else None,
        last_commit_ms=max((at for at in commits_ms if at is not None), default=None),
        verified_ms=verified_ms,
        no_progress_since_ms=backlog.no_progress_since_ms,
        gaps=backlog.gaps if is_measured else known_gaps,
        is_passive=backlog.is_passive,
        records_per_second=status.records_per_second
        if reading is None
        else reading.rate("records"),
        bytes_per_second=status.bytes_per_second if reading is None else reading.rate("bytes"),
    )
