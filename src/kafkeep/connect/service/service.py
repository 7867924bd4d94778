"""What the REST API asks of the service, whichever worker answers. The seam between the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ParamSpec, Protocol, TypeVar

from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    TaskStatus,
)
from kafkeep.connect.service.operations import Operation

P = ParamSpec("P")
R = TypeVar("R")


class ConnectService(Protocol):
    """Every operation of Connect's REST API; errors are RestError with the status to answer.

    Methods block and may be called from any thread. Configurations come back as they were sent,
    secrets and references to config providers alike: who answers a caller masks them. Messages and
    codes are those of ``connect-golden``.
    """

    def root(self) -> Json:
        """Return version, commit and kafka_cluster_id."""

    def names(self) -> list[str]:
        """Return the names of all connectors."""

    def connector(self, name: str) -> Connector:
        """Return a connector as it was defined; 404 when there is none."""

    def type_of(self, name: str) -> ConnectorType:
        """Tell whether it is a sink or a source."""

    def status(self, name: str) -> ConnectorStatus:
        """Return what it is doing; 404 when there is none."""

    def task_configs(self, name: str) -> list[Mapping[str, str]]:
        """Return the configuration of each task; none of a stopped connector."""

    def task_status(self, name: str, task: int) -> TaskStatus:
        """Return one task's status; 404 when there is none."""

    def change(self, operation: Operation[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Run one of ``operations.py`` on the worker that leads; 409 when none does."""

    def topics(self, name: str) -> list[str]:
        """Return the topics it has read or written since it was made or they were reset."""

    def check_topics_reset(self) -> None:
        """Refuse with 403 unless this worker tracks topics and allows a reset."""

    def offsets(self, name: str) -> list[Json]:
        """Return ``{"partition": …, "offset": …}`` for each partition it has an offset of."""

    def plugins(self, *, connectors_only: bool) -> list[Json]:
        """Return class, type and version of each."""

    def plugin_config(self, plugin: str) -> list[Json]:
        """Return the definitions of a plugin's keys; 404 when there is none."""

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Json:
        """Say what is right and wrong with a configuration, key by key."""

    def loggers(self) -> Json:
        """Return the level of each logger that was set."""

    def logger(self, name: str) -> Json:
        """Return one logger's level; 404 when it was never named."""

    def set_logger(self, name: str, level: str) -> list[str]:
        """Set a logger and those under it; returns their names. 404 for a level there is not."""

    def answers_from_memory(self) -> bool:
        """Tell whether looking at connectors asks nobody now, and so takes no time."""

    def metrics(self) -> str:
        """Return all metrics as text, as Prometheus reads them."""

    def health(self) -> Json:
        """Say how this worker is: ``{"status", "leader", "connectors", "failed", …}``."""

    def is_ready(self) -> bool:
        """Tell whether connectors can be run or are run by another worker."""
