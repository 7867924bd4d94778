"""The state of the service, the changes it consists of, and their JSON. Pure.

The state keeps configurations as they were sent: with unresolved ``${…}`` references, and with
secrets that were written out as text. Who can read the state store can read those secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

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
    TargetState,
    TaskStatus,
)
from kafkeep.errors import NewerFormatError

REMEMBERED_CHANGES = 400
"""How many ids of changes a state remembers: more than the journal keeps documents."""

Kind = Literal["define", "target", "delete", "topics"]
_KINDS: tuple[Kind, ...] = ("define", "target", "delete", "topics")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """One change: a connector is defined, gets a target state, has used topics, or is deleted.

    The journal gives each change a unique ``id``, by which a writer recognises its own.
    ``topics`` are all active topics after the change: none after a reset.
    """

    kind: Kind
    name: str
    id: str = ""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: TargetState = TargetState.RUNNING
    topics: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields of its document."""
        document: dict[str, Any] = {"id": self.id, "kind": self.kind, "name": self.name}
        if self.kind == "define":
            document["config"] = dict(self.config)
        if self.kind in ("define", "target"):
            document["target"] = self.target.value
        if self.kind == "topics":
            document["topics"] = list(self.topics)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StateChange:
        """Parse a document; KeyError, TypeError or ValueError when it is none of these."""
        kind = as_str(document["kind"])
        if kind not in _KINDS:
            raise ValueError(f"there is no change of the kind {kind!r}")
        return cls(
            id=as_str(document["id"]),
            kind=kind,
            name=as_str(document["name"]),
            config=_texts(document.get("config", {})),
            target=TargetState(document.get("target", TargetState.RUNNING)),
            topics=tuple(as_str(topic) for topic in as_list(document.get("topics", []))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """All connectors after change ``number``; -1 before the first.

    A connector's generation is the number of the change that gave it its configuration. It
    distinguishes a connector that was created again from its predecessor.
    """

    number: int = -1
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recent: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fields of its snapshot."""
        return {
            "version": STATE_VERSION,
            "number": self.number,
            "recent": list(self.recent),
            "connectors": {
                name: {
                    "config": dict(connector.config),
                    "target": connector.target.value,
                    "generation": connector.generation,
                    "topics": list(self.topics.get(name, ())),
                }
                for name, connector in self.connectors.items()
            },
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ServiceState:
        """Parse a snapshot; KeyError, TypeError or ValueError when it is none."""
        rows = {name: as_dict(row) for name, row in as_dict(document["connectors"]).items()}
        return cls(
            number=as_int(document["number"]),
            recent=tuple(as_str(one) for one in as_list(document["recent"])),
            connectors={
                name: Connector(
                    name=name,
                    config=_texts(row["config"]),
                    target=TargetState(row["target"]),
                    generation=as_int(row["generation"]),
                )
                for name, row in rows.items()
            },
            topics={
                name: tuple(as_str(topic) for topic in as_list(row["topics"]))
                for name, row in rows.items()
                if row["topics"]
            },
        )


def apply(state: ServiceState, change: StateChange) -> ServiceState:
    """Return the state after ``change``; a change of a missing connector has no effect.

    So workers that read the same changes have the same state, in whatever order they wrote.
    """
    number = state.number + 1
    connectors, topics = dict(state.connectors), dict(state.topics)
    known = connectors.get(change.name)
    match change.kind:
        case "define":
            connectors[change.name] = Connector(
                name=change.name,
                config=dict(change.config),
                target=change.target,
                generation=number,
            )
        case "target" if known is not None:
            connectors[change.name] = replace(known, target=change.target)
        case "delete":
            connectors.pop(change.name, None)
            topics.pop(change.name, None)
        case "topics" if known is not None:
            topics.pop(change.name, None)
            if change.topics:
                topics[change.name] = tuple(sorted(change.topics))
        case _:
            pass
    return ServiceState(
        number=number,
        connectors=connectors,
        topics=topics,
        recent=(*state.recent, change.id)[-REMEMBERED_CHANGES:],
    )


def _texts(value: Any) -> dict[str, str]:
    return {as_str(key): as_str(text) for key, text in as_dict(value).items()}


STATE_VERSION = 1
"""The version of every document in the state store."""


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
    """Return a connector as workers send it to each other."""
    return {
        "name": connector.name,
        "config": dict(connector.config),
        "target": connector.target.value,
        "generation": connector.generation,
    }


def connector_from_json(document: Mapping[str, Any]) -> Connector:
    """Parse a connector; like all below, KeyError, TypeError or ValueError when it is none."""
    return Connector(
        name=as_str(document["name"]),
        config={key: as_str(text) for key, text in as_dict(document["config"]).items()},
        target=TargetState(document["target"]),
        generation=as_int(document["generation"]),
    )


def status_to_json(status: ConnectorStatus) -> dict[str, Any]:
    """Return a status with all its tasks, as heartbeats have it."""
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
        "records_per_second": status.records_per_second,
        "bytes_per_second": status.bytes_per_second,
    }


def status_from_json(document: Mapping[str, Any]) -> ConnectorStatus:
    """Parse a status."""
    return ConnectorStatus(
        name=as_str(document["name"]),
        type=_type(document["type"]),
        version=as_str(document["version"]),
        state=RunState(document["state"]),
        worker_id=as_str(document["worker_id"]),
        trace=_text_or_none(document["trace"]),
        tasks=tuple(_task(as_dict(task)) for task in as_list(document["tasks"])),
        # An older kafkeep sends none of these.
        backlog=_backlog(document.get("backlog")),
        generation=_int_or_none(document.get("generation")),
        records_per_second=_float_or_none(document.get("records_per_second")),
        bytes_per_second=_float_or_none(document.get("bytes_per_second")),
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
        is_passive=document.get("is_passive") is True,
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


def _float_or_none(value: Any) -> float | None:
    return None if value is None else float(value)


def _int_or_none(value: Any) -> int | None:
    return None if value is None else as_int(value)


def level_to_json(level: LoggerLevel) -> dict[str, Any]:
    """Return a level that holds on all workers, as heartbeats have it."""
    return {"number": level.number, "logger": level.logger, "level": level.level}


def level_from_json(document: Mapping[str, Any]) -> LoggerLevel:
    """Parse such a level."""
    return LoggerLevel(
        as_int(document["number"]), as_str(document["logger"]), as_str(document["level"])
    )
