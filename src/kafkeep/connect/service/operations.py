"""What changes connectors, on the worker that leads. Messages are those of a real Connect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from kafkeep.connect.jobs.job import JobContext
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    Json,
    RestError,
    RunState,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.plugins.definitions import Definitions
from kafkeep.connect.safety.secrets import mask
from kafkeep.connect.service.leader_loop import LeaderLoop
from kafkeep.connect.service.loggers import Loggers
from kafkeep.connect.service.state import ServiceState, StateChange

STOP_SECONDS = 60.0
NOT_STOPPED = (
    "Connectors must be in the STOPPED state before their offsets can be modified. This can be "
    "done for the specified connector by issuing a 'PUT' request to the '/connectors/{name}/stop' "
    "endpoint"
)


class Operations(Protocol):
    """The writing half of ``Service``: run here, or sent to the worker that leads."""

    def create(self, name: str, config: Mapping[str, str], initial: TargetState) -> Connector:
        """See ``Service``; so for all of them."""

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]: ...  # noqa: D102
    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector: ...  # noqa: D102
    def delete(self, name: str) -> None: ...  # noqa: D102
    def set_target(self, name: str, target: TargetState) -> None: ...  # noqa: D102
    def restart(  # noqa: D102
        self, name: str, *, include_tasks: bool, only_failed: bool
    ) -> ConnectorStatus: ...
    def restart_task(self, name: str, task: int) -> None: ...  # noqa: D102
    def reset_topics(self, name: str) -> None: ...  # noqa: D102
    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str: ...  # noqa: D102
    def reset_offsets(self, name: str) -> str: ...  # noqa: D102
    def set_logger_everywhere(self, name: str, level: str) -> None: ...  # noqa: D102


class LocalOperations:
    """Operations of the worker that leads."""

    def __init__(
        self,
        loop: LeaderLoop,
        definitions: Definitions,
        context_for: Callable[[Mapping[str, str]], JobContext],
        loggers: Loggers,
    ) -> None:
        self._loop = loop
        self._loggers = loggers
        self._definitions = definitions
        self._context_for = context_for
        self._locks: dict[str, threading.Lock] = {}

    def create(self, name: str, config: Mapping[str, str], initial: TargetState) -> Connector:
        """Define a connector that is not there."""
        if name in self._loop.journal.state.connectors:
            raise _exists(name)
        whole = self._definitions.checked(name, config, None)

        def decide(state: ServiceState) -> StateChange:
            if name in state.connectors:
                raise _exists(name)
            return StateChange(kind="define", name=name, config=whole, target=initial)

        return self._loop.commit(decide).connectors[name]

    def put_config(self, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
        """Define or change it; what is the same after its masks are filled changes nothing."""
        stored = self._loop.journal.state.connectors.get(name)
        return self._define(name, config, stored), stored is None

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Connector:
        """Change some keys; None removes one.

        The others stand as if they were sent back masked: a secret goes to no new address unseen.
        """
        stored = self._found(name, _not_found(name))
        merged = {**mask(stored.config), **changes}
        config = {key: text for key, text in merged.items() if text is not None}
        return self._define(name, config, stored)

    def _define(self, name: str, config: Mapping[str, str], stored: Connector | None) -> Connector:
        """Change ``stored`` to ``config``; 409 when another changed it meanwhile."""
        if stored is not None and {**config, "name": name} == stored.config:
            return stored
        whole = self._definitions.checked(name, config, stored.config if stored else None)

        def decide(state: ServiceState) -> StateChange | None:
            now = state.connectors.get(name)
            if (now.generation if now else None) != (stored.generation if stored else None):
                raise RestError(
                    409, f"Cannot complete request: connector {name} was changed at the same time"
                )
            if now is not None and now.config == whole:
                return None
            target = now.target if now is not None else TargetState.RUNNING
            return StateChange(kind="define", name=name, config=whole, target=target)

        return self._loop.commit(decide).connectors[name]

    def delete(self, name: str) -> None:
        """Forget it; its log stays in the archive."""

        def decide(state: ServiceState) -> StateChange:
            if name not in state.connectors:
                raise RestError(404, _not_found(name))
            return StateChange(kind="delete", name=name)

        self._loop.commit(decide)

    def set_target(self, name: str, target: TargetState) -> None:
        """Pause, resume or stop it; not while its offsets are being moved."""
        unknown = f"Unknown connector {name}"

        def decide(state: ServiceState) -> StateChange | None:
            if name not in state.connectors:
                raise RestError(404, unknown)
            if state.connectors[name].target is target:
                return None
            return StateChange(kind="target", name=name, target=target)

        with self._alone(name, unknown):
            self._loop.commit(decide)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """Restart what was asked for; one job does the work of all tasks, so they go together."""
        connector = self._found(name, f"Unknown connector: {name}")
        before = self._loop.supervisor.status(connector)
        restarts_connector = before.state is RunState.FAILED or not only_failed
        failed = any(task.state is RunState.FAILED for task in before.tasks)
        restarts_tasks = include_tasks and bool(before.tasks) and (failed or not only_failed)
        # A connector that is well has nothing of its own to restart: its tasks do the work.
        if before.state is RunState.FAILED or restarts_tasks:
            self._restart(connector)
        return replace(
            before,
            state=RunState.RESTARTING if restarts_connector else before.state,
            trace=None if restarts_connector else before.trace,
            tasks=tuple(_restarting(task) if restarts_tasks else task for task in before.tasks),
        )

    def restart_task(self, name: str, task: int) -> None:
        """Restart a task, and with it those beside it."""
        connector = self._found(name, f"Unknown connector: {name}")
        if task >= len(self._loop.supervisor.status(connector).tasks):
            raise RestError(404, f"Unknown task: {name}-{task}")
        self._restart(connector)

    def reset_topics(self, name: str) -> None:
        """Forget its active topics."""
        self._found(name, _not_found(name))
        self._loop.reset_topics(name)

    def alter_offsets(self, name: str, offsets: Sequence[Json]) -> str:
        """Move a stopped connector."""
        with self._alone(name, _not_found(name)):
            config = self._stopped(name)
            from kafkeep.connect.jobs.sink_offsets import alter_offsets  # noqa: PLC0415 - rarely needed

            return alter_offsets(name, config, self._context_for(config), offsets)

    def reset_offsets(self, name: str) -> str:
        """Move a stopped connector back to the beginning."""
        with self._alone(name, _not_found(name)):
            config = self._stopped(name)
            from kafkeep.connect.jobs.sink_offsets import reset_offsets  # noqa: PLC0415 - rarely needed

            return reset_offsets(name, config, self._context_for(config))

    def set_logger_everywhere(self, name: str, level: str) -> None:
        """Set a logger here, and tell the other workers."""
        self._loggers.set_everywhere(name, level)
        self._loop.beat_soon()

    def _alone(self, name: str, otherwise: str) -> threading.Lock:
        """Return what lets one at a time set a connector going or move it; others go on."""
        self._found(name, otherwise)
        return self._locks.setdefault(name, threading.Lock())

    def _found(self, name: str, otherwise: str) -> Connector:
        connector = self._loop.journal.state.connectors.get(name)
        if connector is None:
            raise RestError(404, otherwise)
        return connector

    def _stopped(self, name: str) -> dict[str, str]:
        """Return the resolved configuration of a connector of which nothing runs any more."""
        connector = self._found(name, _not_found(name))
        if connector.target is not TargetState.STOPPED:
            raise RestError(400, NOT_STOPPED.format(name=name))
        if not self._loop.supervisor.wait_ended(name, STOP_SECONDS):
            raise RestError(
                409,
                f"Failed to modify offsets for connector {name} because its tasks haven't stopped "
                "completely yet. This operation can be safely retried",
            )
        return self._definitions.resolve(connector.config)

    def _restart(self, connector: Connector) -> None:
        self._loop.supervisor.restart(connector)
        self._loop.beat_soon()


def _restarting(task: TaskStatus) -> TaskStatus:
    return replace(task, state=RunState.RESTARTING, trace=None)


def _not_found(name: str) -> str:
    return f"Connector {name} not found"


def _exists(name: str) -> RestError:
    return RestError(409, f"Connector {name} already exists")
