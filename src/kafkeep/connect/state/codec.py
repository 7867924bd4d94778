"""What workers tell each other, as JSON: connectors, statuses, documents of the state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, get_args

from kafkeep.archive.document import as_dict, as_int, as_list, as_str, parse_document
from kafkeep.connect.model import (
    Backlog,
    Connector,
    ConnectorStatus,
    ConnectorType,
    LoggerLevel,
    LostOffsets,
    OffsetGaps,
    RunState,
    Target,
    TaskStatus,
)
from kafkeep.errors import NewerFormatError

STATE_VERSION = 1
"""Of every document in the state store."""


def parse_state_document(body: bytes, key: str) -> dict[str, Any]:
    """Read a document of the state store; NewerFormatError or DamagedError, both naming ``key``."""
    document = parse_document(body, key)
    if document["version"] > STATE_VERSION:
        raise NewerFormatError(
            f"{key}: version {document['version']} of the service's state needs a newer kafkeep"
            f" (this one reads up to version {STATE_VERSION})",
            hint="Install the newest kafkeep on every worker of this state.",
        )
    return document


def connector_to_json(connector: Connector) -> dict[str, Any]:
    """Return a connector as it is; the configuration with whatever masks it has."""
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "target": connector.target.value,
        "generation": connector.generation,
    }


def connector_from_json(document: Mapping[str, Any]) -> Connector:
    """Read it back; KeyError, TypeError or ValueError when it is none; so below."""
    return Connector(
        name=as_str(document["name"]),
        config={key: as_str(text) for key, text in as_dict(document["config"]).items()},
        target=Target(document["target"]),
        generation=as_int(document["generation"]),
    )


def status_to_json(status: ConnectorStatus) -> dict[str, Any]:
    """Return a status with all its tasks."""
    return {
        "name": status.name,
        "type": status.type,
        "version": status.version,
        "state": status.state.value,
        "worker_id": status.worker_id,
        "trace": status.trace,
        "tasks": [
            {"id": t.id, "state": t.state.value, "worker_id": t.worker_id, "trace": t.trace}
            for t in status.tasks
        ],
        "backlog": None if status.backlog is None else asdict(status.backlog),
        "generation": status.generation,
    }


def status_from_json(document: Mapping[str, Any]) -> ConnectorStatus:
    """Read a status."""
    return ConnectorStatus(
        name=as_str(document["name"]),
        type=_type(document["type"]),
        version=as_str(document["version"]),
        state=RunState(document["state"]),
        worker_id=as_str(document["worker_id"]),
        trace=_text_or_none(document["trace"]),
        tasks=tuple(_task(as_dict(task)) for task in as_list(document["tasks"])),
        # A worker of an older kafkeep sends neither.
        backlog=_backlog(document.get("backlog")),
        generation=_int_or_none(document.get("generation")),
    )


def _backlog(document: Any) -> Backlog | None:
    if document is None:
        return None
    gaps = as_dict(document["gaps"])
    newest = tuple(_lost(as_dict(row)) for row in as_list(gaps["newest"]))
    return Backlog(
        measured_ms=_int_or_none(document["measured_ms"]),
        records=as_int(document["records"]),
        seconds=float(document["seconds"]),
        last_progress_ms=_int_or_none(document["last_progress_ms"]),
        no_progress_since_ms=_int_or_none(document["no_progress_since_ms"]),
        gaps=OffsetGaps(
            count=as_int(gaps["count"]), offsets=as_int(gaps["offsets"]), newest=newest
        ),
    )


def _lost(document: Mapping[str, Any]) -> LostOffsets:
    return LostOffsets(
        topic=as_str(document["topic"]),
        partition=as_int(document["partition"]),
        start=as_int(document["start"]),
        end=as_int(document["end"]),
        reason=as_str(document["reason"]),
        at_ms=as_int(document["at_ms"]),
    )


def _task(document: Mapping[str, Any]) -> TaskStatus:
    return TaskStatus(
        id=as_int(document["id"]),
        state=RunState(document["state"]),
        worker_id=as_str(document["worker_id"]),
        trace=_text_or_none(document["trace"]),
    )


def _type(value: Any) -> ConnectorType:
    if value not in get_args(ConnectorType):
        raise ValueError(f"a connector is a sink or a source, not {value!r:.40}")
    return "sink" if value == "sink" else "source"


def _text_or_none(value: Any) -> str | None:
    return None if value is None else as_str(value)


def _int_or_none(value: Any) -> int | None:
    return None if value is None else as_int(value)


def level_to_json(level: LoggerLevel) -> dict[str, Any]:
    """Return a level for all workers."""
    return {"number": level.number, "logger": level.logger, "level": level.level}


def level_from_json(document: Mapping[str, Any]) -> LoggerLevel:
    """Read it back."""
    return LoggerLevel(
        as_int(document["number"]), as_str(document["logger"]), as_str(document["level"])
    )
