"""Turn the service's values and errors into HTTP answers with Connect's JSON. Pure.

Errors are ``{"error_code", "message"}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from starlette.responses import Response

from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    ConnectorType,
    Json,
    LostOffsets,
    RestError,
    TaskStatus,
)
from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    FencedError,
    GapError,
    InterruptedRunError,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    NoSuchArchiveError,
    PreflightError,
    RecordError,
    TransientError,
    UsageError,
)


def connector_json(connector: Connector, kind: ConnectorType, task_count: int) -> Json:
    """Return a connector as Connect's ConnectorInfo."""
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "tasks": [_task_id(connector.name, task) for task in range(task_count)],
        "type": kind,
    }


def status_json(status: ConnectorStatus) -> Json:
    """Return the states of a connector and its tasks; ``trace`` only where one failed."""
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
    """Return lag, progress and gaps, as far as known; offsets are inclusive."""
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


_STATUSES: tuple[tuple[type[KafkeepError], int], ...] = (
    (UsageError, 400),
    (NoSuchArchiveError, 404),
    (KeyMissingError, 404),
    (FencedError, 409),
    (PreflightError, 409),
    (GapError, 409),
    (KeyExistsError, 409),
    (RecordError, 422),
    (AccessDeniedError, 502),
    (TransientError, 503),
    (EnvironmentFault, 503),
    (InterruptedRunError, 503),
)
UNEXPECTED = "The request failed with an unexpected error; see the worker's log"


class HttpError(RestError):
    """A RestError with its own headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str]) -> None:
        super().__init__(status, message)
        self.headers = headers

    def __reduce__(self) -> tuple[object, ...]:
        return (HttpError, (self.status, self.message, self.headers))


def plain_error(status: int, headers: Mapping[str, str] | None = None) -> HttpError:
    """Return Connect's error without a message of its own, e.g. ``HTTP 404 Not Found``."""
    phrase = HTTPStatus(status).phrase
    return HttpError(status, f"HTTP {status} {phrase}", headers or {})


def json_answer(
    value: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return ``value`` as JSON in UTF-8."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # What UTF-8 cannot encode (half a surrogate pair in a file name) becomes a JSON escape.
    content = text.encode("utf-8", "backslashreplace")
    return Response(content, status, dict(headers or {}), media_type="application/json")


def empty_answer(status: int) -> Response:
    """Return an answer without a body and without a media type."""
    return Response(status_code=status)


def error_answer(error: KafkeepError) -> Response:
    """Return an error under the status that fits it."""
    if isinstance(error, RestError):
        headers = error.headers if isinstance(error, HttpError) else None
        return _error(error.status, error.message, headers)
    message = f"{error.message}. {error.hint}" if error.hint else error.message
    return _error(_status_of(error), message)


def unexpected_answer() -> Response:
    """Return the answer to an unexpected error, without its details."""
    return _error(500, UNEXPECTED)


def _status_of(error: KafkeepError) -> int:
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return json_answer({"error_code": status, "message": message}, status, headers)
