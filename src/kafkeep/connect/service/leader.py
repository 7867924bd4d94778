"""The worker that leads, as operations see it: the state they change and the jobs that follow."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import Connector, ConnectorStatus, RestError, TargetState
from kafkeep.connect.plugins.definitions import Definitions
from kafkeep.connect.service.leader_loop import LeaderLoop
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.state import ServiceState, StateChange

STOP_SECONDS = 60.0
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' "
    "endpoint"
)


class Leader:
    """Everything an operation needs. Used from any thread, while this worker leads."""

    def __init__(
        self,
        loop: LeaderLoop,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        loggers: Loggers,
    ) -> None:
        self._loop = loop
        self._definitions = definitions
        self._loggers = loggers
        self._locks: dict[str, threading.Lock] = {}
        self.context_for = context_for

    def find(self, name: str) -> Connector | None:
        """Return a connector as it is stored, None when there is none."""
        return self._loop.journal.state.connectors.get(name)

    def need(self, name: str, otherwise: str) -> Connector:
        """Return a connector; 404 with the message ``otherwise`` when there is none."""
        connector = self.find(name)
        if connector is None:
            raise RestError(404, otherwise)
        return connector

    def status(self, connector: Connector) -> ConnectorStatus:
        """Return what a connector and its tasks are doing."""
        return self._loop.supervisor.status(connector)

    def check(
        self, name: str, config: Mapping[str, str], stored: Connector | None
    ) -> dict[str, str]:
        """Return the configuration to store, with masks filled in; 400 lists what is wrong."""
        return self._definitions.checked(name, config, stored.config if stored else None)

    def commit(self, decide: Callable[[ServiceState], StateChange | None]) -> ServiceState:
        """Commit the change that ``decide`` returns for the newest state, and apply it to jobs."""
        return self._loop.commit(decide)

    def restart(self, connector: Connector) -> None:
        """Restart the connector's job and publish its state soon."""
        self._loop.supervisor.restart(connector)
        self._loop.publish_soon()

    def reset_topics(self, name: str) -> None:
        """Forget the active topics of a connector."""
        self._loop.reset_topics(name)

    def set_logger_everywhere(self, logger: str, level: str) -> None:
        """Set a logger here and publish the level to the other workers."""
        self._loggers.set_everywhere(logger, level)
        self._loop.publish_soon()

    def lock(self, name: str, otherwise: str) -> threading.Lock:
        """Return the lock that keeps a connector from being started while its offsets move."""
        self.need(name, otherwise)
        return self._locks.setdefault(name, threading.Lock())

    def stopped_config(self, name: str, otherwise: str) -> dict[str, str]:
        """Return the resolved configuration of a connector whose job has ended.

        400 for a connector that is not stopped, 409 when its job does not end in time.
        """
        connector = self.need(name, otherwise)
        if connector.target is not TargetState.STOPPED:
            raise RestError(400, NOT_STOPPED.format(name=name))
        if not self._loop.supervisor.wait_ended(name, STOP_SECONDS):
            raise RestError(
                409,
                f"Failed to modify offsets for connector {name} because its tasks haven't stopped "
                "completely yet. This operation can be safely retried",
            )
        return self._definitions.resolve(connector.config)
