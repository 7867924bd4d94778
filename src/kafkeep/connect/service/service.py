"""The protocol between the REST API, the web console and the service, whichever worker answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ParamSpec, Protocol, TypeVar

from kafkeep.connect.catalog.archives.stored_objects import StoredObject
from kafkeep.connect.catalog.catalog import Catalog
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    TaskStatus,
)
from kafkeep.connect.runs.board import RunBoard
from kafkeep.connect.runs.restore import RestoreRuns
from kafkeep.connect.service.operations import Operation
from kafkeep.connect.service.overview import (
    GrowthPoint,
    ServiceOverview,
    WorkerSettings,
)
from kafkeep.restore.preflight import Preflight

P = ParamSpec("P")
R = TypeVar("R")


class ConnectService(Protocol):
    """What Connect's REST API asks for. Errors are RestError with the status to answer.

    Methods block and may be called from any thread. They return configurations as they were sent,
    with secrets and with references to config providers; the REST API masks them. Messages and
    codes are those of ``connect-golden``.
    """

    @property
    def catalog(self) -> Catalog:
        """The live cluster and the archives of the connectors."""

    @property
    def runs(self) -> RunBoard:
        """Restores and other long work, to read; ``change`` runs the operations on them."""

    @property
    def restores(self) -> RestoreRuns:
        """How restores are asked for."""

    def plan_restore(self, asked: Mapping[str, str]) -> Preflight:
        """Return what a restore would write, with all checks; writes nothing."""

    def root(self) -> Json:
        """Return version, commit and kafka_cluster_id."""

    def names(self) -> list[str]:
        """Return the names of all connectors."""

    def connector(self, name: str) -> Connector:
        """Return a connector as it is defined; 404 when there is none."""

    def type_of(self, name: str) -> ConnectorType:
        """Return whether it is a sink or a source."""

    def status(self, name: str) -> ConnectorStatus:
        """Return the state of a connector and its tasks; 404 when there is none."""

    def task_configs(self, name: str) -> list[Mapping[str, str]]:
        """Return the configuration of each task; a stopped connector has no tasks."""

    def task_status(self, name: str, task: int) -> TaskStatus:
        """Return one task's status; 404 when there is none."""

    def change(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one of ``operations.py`` on the worker that leads; 409 when none does."""

    def topics(self, name: str) -> list[str]:
        """Return the topics a connector has used since it was created or they were reset."""

    def check_topics_reset(self) -> None:
        """Refuse with 403 unless this worker tracks topics and allows a reset."""

    def offsets(self, name: str) -> list[Json]:
        """Return ``{"partition": …, "offset": …}`` for each partition that has an offset."""

    def offset_page(
        self, name: str, start: int, count: int, *, max_age_s: float | None = None
    ) -> tuple[list[Json], int]:
        """Return some of a connector's offsets, and how many there are.

        Those of a sink are at most ``max_age_s`` old; None: as old as the catalog's logs.
        """

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return class, type and version of each plugin."""

    def plugin_config(self, plugin: str) -> list[Json]:
        """Return the definitions of a plugin's keys; 404 when there is none."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        """Return the verdict on a configuration, key by key."""

    def loggers(self) -> Json:
        """Return the level of each logger that has one."""

    def logger(self, name: str) -> Json:
        """Return one logger's level; 404 when there is no such logger."""

    def set_logger(self, name: str, level: str) -> list[str]:
        """Set a logger and those below it; return their names. 404 for an unknown level."""

    def answers_from_memory(self) -> bool:
        """Return True while reading connectors makes no request, so that it takes no time."""

    def metrics(self) -> str:
        """Return all metrics in Prometheus's text format."""

    def health(self) -> Json:
        """Return the health of this worker: ``{"status", "leader", "connectors", "failed", …}``."""

    def is_ready(self) -> bool:
        """Return True when connectors run here or on another worker."""

    def overview(self) -> ServiceOverview:
        """Return the worker's health, and state, lag and rate of each connector."""

    def growth(self, name: str) -> tuple[GrowthPoint, ...]:
        """Return the size of a connector's archive over time, in at most 300 points."""

    def objects(self, name: str, limit: int) -> tuple[StoredObject, ...]:
        """Return the newest objects of a connector's log, the newest first."""

    def settings(self) -> WorkerSettings:
        """Return the configuration of this worker, with secrets masked."""
