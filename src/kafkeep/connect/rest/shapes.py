"""The service's values as the JSON that Connect's clients know. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkeep.connect.model import Connector, ConnectorStatus, ConnectorType, Json, TaskStatus


def connector_json(connector: Connector, kind: ConnectorType, task_count: int) -> Json:
    """Return what Connect calls ConnectorInfo."""
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "tasks": [_task_id(connector.name, task) for task in range(task_count)],
        "type": kind,
    }


def status_json(status: ConnectorStatus) -> Json:
    """Return a connector's state and those of its tasks; a trace is there only when one is."""
    state: Json = {
        "state": status.state.value,
        "worker_id": status.worker_id,
        "version": status.version,
    }
    if status.trace:
        state["trace"] = status.trace
    return {
        "name": status.name,
        "connector": state,
        "tasks": [task_status_json(task, status.version) for task in status.tasks],
        "type": status.type,
    }


def task_status_json(task: TaskStatus, version: str) -> Json:
    """Return one task's state."""
    state: Json = {
        "id": task.id,
        "state": task.state.value,
        "worker_id": task.worker_id,
        "version": version,
    }
    if task.trace:
        state["trace"] = task.trace
    return state


def tasks_json(name: str, configs: Sequence[Mapping[str, str]]) -> list[Json]:
    """Return each task with its configuration."""
    return [
        {"id": _task_id(name, task), "config": dict(config)} for task, config in enumerate(configs)
    ]


def _task_id(name: str, task: int) -> Json:
    return {"connector": name, "task": task}
