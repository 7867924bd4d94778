"""Every operation that changes connectors, declared once, as the leader runs it.

``service.change(create, name, config, target)`` runs an operation wherever the leader is. On the
leader it calls the function. Another worker sends the function's name and its arguments by their
names (``forward.py``), so these names are the wire form between workers and stay as they are.

The messages are those of a real Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    Json,
    RestError,
    RunState,
    TargetState,
    TaskStatus,
)
from kafkeep.connect.runs.run import Run
from kafkeep.connect.runs.schedules import RunSchedule
from kafkeep.connect.safety.secrets import mask
from kafkeep.connect.service.leader import Leader
from kafkeep.connect.service.state import ServiceState, StateChange

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Operation(Generic[P, R]):
    """One change of the service; ``run`` is what the leader does."""

    run: Callable[Concatenate[Leader, P], R]

    @property
    def name(self) -> str:
        """The name that workers call it by."""
        return self.run.__name__


OPERATIONS: dict[str, Operation[..., Any]] = {}
"""All of them, by name."""


def operation(run: Callable[Concatenate[Leader, P], R]) -> Operation[P, R]:
    """Declare an operation."""
    declared = Operation(run)
    OPERATIONS[declared.name] = declared
    return declared


@operation
def create(leader: Leader, name: str, config: Mapping[str, str], target: TargetState) -> Connector:
    """Define a connector; 409 when the name is taken, 400 when the configuration is wrong."""
    if leader.find(name) is not None:
        raise _exists(name)
    checked = leader.check(name, config, None)

    def decide(state: ServiceState) -> StateChange:
        if name in state.connectors:
            raise _exists(name)
        return StateChange(kind="define", name=name, config=checked, target=target)

    return leader.commit(decide).connectors[name]


@operation
def put_config(leader: Leader, name: str, config: Mapping[str, str]) -> tuple[Connector, bool]:
    """Define or change a connector, and say whether it is new.

    A configuration that equals the stored one, once its masks are filled in, changes nothing.
    """
    stored = leader.find(name)
    return _define(leader, name, config, stored), stored is None


@operation
def patch_config(leader: Leader, name: str, changes: Mapping[str, str | None]) -> Connector:
    """Change some keys; None removes one.

    The other keys count as sent back masked, so no secret goes to a new address unseen.
    """
    stored = leader.need(name, _not_found(name))
    merged = {**mask(stored.config), **changes}
    config = {key: text for key, text in merged.items() if text is not None}
    return _define(leader, name, config, stored)


def _define(
    leader: Leader, name: str, config: Mapping[str, str], stored: Connector | None
) -> Connector:
    """Change ``stored`` to ``config``; 409 when another request changed it meanwhile."""
    if stored is not None and {**config, "name": name} == stored.config:
        return stored
    checked = leader.check(name, config, stored)

    def decide(state: ServiceState) -> StateChange | None:
        now = state.connectors.get(name)
        if (now.generation if now else None) != (stored.generation if stored else None):
            raise RestError(
                409, f"Cannot complete request: connector {name} was changed at the same time"
            )
        if now is not None and now.config == checked:
            return None
        target = now.target if now is not None else TargetState.RUNNING
        return StateChange(kind="define", name=name, config=checked, target=target)

    return leader.commit(decide).connectors[name]


@operation
def delete(leader: Leader, name: str) -> None:
    """Delete a connector. Its log stays in the archive and continues under the same name."""

    def decide(state: ServiceState) -> StateChange:
        if name not in state.connectors:
            raise RestError(404, _not_found(name))
        return StateChange(kind="delete", name=name)

    leader.commit(decide)


@operation
def set_target(leader: Leader, name: str, target: TargetState) -> None:
    """Pause, resume or stop a connector, but not while its offsets are being moved."""
    unknown = f"Unknown connector {name}"

    def decide(state: ServiceState) -> StateChange | None:
        if name not in state.connectors:
            raise RestError(404, unknown)
        if state.connectors[name].target is target:
            return None
        return StateChange(kind="target", name=name, target=target)

    with leader.lock(name, unknown):
        leader.commit(decide)


@operation
def restart(
    leader: Leader, name: str, *, include_tasks: bool, only_failed: bool
) -> ConnectorStatus:
    """Restart a connector, its tasks, or what failed of them.

    One job does the work of all tasks, so the tasks restart together.
    """
    connector = leader.need(name, f"Unknown connector: {name}")
    before = leader.status(connector)
    restarts_connector = before.state is RunState.FAILED or not only_failed
    failed = any(task.state is RunState.FAILED for task in before.tasks)
    restarts_tasks = include_tasks and bool(before.tasks) and (failed or not only_failed)
    # A connector that has not failed has nothing of its own to restart: its tasks do the work.
    if before.state is RunState.FAILED or restarts_tasks:
        leader.restart(connector)
    return replace(
        before,
        state=RunState.RESTARTING if restarts_connector else before.state,
        trace=None if restarts_connector else before.trace,
        tasks=tuple(_restarting(task) if restarts_tasks else task for task in before.tasks),
    )


@operation
def restart_task(leader: Leader, name: str, task: int) -> None:
    """Restart a task, and with it the others of its connector; 404 when there is none."""
    connector = leader.need(name, f"Unknown connector: {name}")
    if task >= len(leader.status(connector).tasks):
        raise RestError(404, f"Unknown task: {name}-{task}")
    leader.restart(connector)


@operation
def reset_topics(leader: Leader, name: str) -> None:
    """Forget the active topics of a connector."""
    leader.need(name, _not_found(name))
    leader.reset_topics(name)


@operation
def alter_offsets(leader: Leader, name: str, offsets: Sequence[Json]) -> str:
    """Move a stopped connector; return the message to answer."""
    from kafkeep.connect.jobs.offsets import alter_offsets as alter  # noqa: PLC0415 - rarely needed

    with leader.lock(name, _not_found(name)):
        config = leader.stopped_config(name, _not_found(name))
        return alter(name, config, leader.context_for(config), offsets)


@operation
def reset_offsets(leader: Leader, name: str) -> str:
    """Move a stopped connector back to the beginning; return the message to answer."""
    from kafkeep.connect.jobs.offsets import reset_offsets as reset  # noqa: PLC0415 - rarely needed

    with leader.lock(name, _not_found(name)):
        config = leader.stopped_config(name, _not_found(name))
        return reset(name, config, leader.context_for(config))


@operation
def set_logger_everywhere(leader: Leader, name: str, level: str) -> None:
    """Set a logger on every worker: on the leader at once, on the others within seconds."""
    leader.set_logger_everywhere(name, level)


@operation
def create_run(leader: Leader, name: str, asked: Mapping[str, str], who: str) -> Run:
    """Store a draft of a run of the kind ``name``."""
    return leader.runs.create(name, asked, who)


@operation
def change_run(leader: Leader, name: str, asked: Mapping[str, str]) -> Run:
    """Replace what the draft ``name`` asks for."""
    return leader.runs.change(name, asked)


@operation
def start_run(leader: Leader, name: str, who: str) -> Run:
    """Start a run, or continue one that was paused or has failed; 400 when it asks for nonsense."""
    return leader.runs.start(name, who)


@operation
def resume_run(leader: Leader, name: str, who: str) -> Run:
    """Continue a run that was paused or has failed."""
    return leader.runs.resume(name, who)


@operation
def pause_run(leader: Leader, name: str) -> Run:
    """Stop a run so that it can continue later."""
    return leader.runs.pause(name)


@operation
def cancel_run(leader: Leader, name: str) -> Run:
    """Stop a run for good."""
    return leader.runs.cancel(name)


@operation
def delete_run(leader: Leader, name: str) -> None:
    """Delete a run that is not active, with its reports."""
    leader.runs.delete(name)


@operation
def create_schedule(
    leader: Leader, name: str, asked: Mapping[str, str], when: Mapping[str, str], who: str
) -> RunSchedule:
    """Start runs of the kind ``name`` by themselves from now on."""
    return leader.runs.schedules.create(name, asked, when, who)


@operation
def delete_schedule(leader: Leader, name: str) -> None:
    """Remove the schedule ``name``; its runs stay."""
    leader.runs.schedules.delete(name)


def _restarting(task: TaskStatus) -> TaskStatus:
    return replace(task, state=RunState.RESTARTING, trace=None)


def _not_found(name: str) -> str:
    return f"Connector {name} not found"


def _exists(name: str) -> RestError:
    return RestError(409, f"Connector {name} already exists")
