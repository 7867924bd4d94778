"""What workers tell each other, as JSON: connectors, statuses, documents of the state. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from kafkeep.archive.document import as_dict, as_int, as_list, as_str, parse_document
from kafkeep.connect.model import (
    Connector,
    ConnectorStatus,
    ConnectorType,
    LoggerLevel,
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


def level_to_json(level: LoggerLevel) -> dict[str, Any]:
    """Return a level for all workers."""
    return {"number": level.number, "logger": level.logger, "level": level.level}


def level_from_json(document: Mapping[str, Any]) -> LoggerLevel:
    """Read it back."""
    return LoggerLevel(
        as_int(document["number"]), as_str(document["logger"]), as_str(document["level"])
    )
