"""The service's values as the JSON that Connect's clients know. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    LostOffsets,
    TaskStatus,
)


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
    answer: Json = {
        "name": status.name,
        "connector": state,
        "tasks": [task_status_json(task, status.version) for task in status.tasks],
        "type": status.type,
    }
    more = backlog_json(status.backlog) if status.backlog is not None else {}
    return {**answer, "kafkeep": more} if more else answer


def backlog_json(backlog: Backlog) -> Json:
    """Return lag, progress and gaps, as far as they are known; offsets are inclusive."""
    answer: Json = {}
    if backlog.measured_ms is not None:
        answer["lag_records"] = backlog.records
        answer["lag_seconds"] = round(backlog.seconds, 3)
        answer["measured_at"] = format_time(backlog.measured_ms)
    if backlog.last_progress_ms is not None:
        answer["last_progress"] = format_time(backlog.last_progress_ms)
    if backlog.no_progress_since_ms is not None:
        answer["no_progress_since"] = format_time(backlog.no_progress_since_ms)
    if backlog.measured_ms is not None:
        gaps = backlog.gaps
        newest = [_lost_json(lost) for lost in gaps.newest]
        answer["gaps"] = {"count": gaps.count, "offsets": gaps.offsets, "newest": newest}
    return answer


def _lost_json(lost: LostOffsets) -> Json:
    return {
        "topic": lost.topic,
        "partition": lost.partition,
        "first_offset": lost.start,
        "last_offset": lost.end - 1,
        "reason": lost.reason,
        "found_at": format_time(lost.at_ms),
    }


def format_time(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
