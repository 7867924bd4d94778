"""The service's state, and the changes it is made of. Pure: the journal stores them.

Configurations are kept as they were sent: ``${…}`` references unresolved, and a secret written out
as text is kept as text. Who can read the state store can read those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kafkeep.archive.document import as_dict, as_int, as_list, as_str
from kafkeep.connect.model import Connector, Target
from kafkeep.connect.state.codec import STATE_VERSION

REMEMBERED_CHANGES = 400
"""Ids of changes a state remembers: enough for all whose documents may still be there."""

Kind = Literal["define", "target", "delete", "topics"]
_KINDS: tuple[Kind, ...] = ("define", "target", "delete", "topics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One step: a connector is defined or changed, told to be something, seen with topics, gone.

    ``id`` is unique, given by the journal, so that a writer knows its own change from another's.
    ``topics`` are all that are active from now on: none after a reset.
    """

    kind: Kind
    name: str
    id: str = ""
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: Target = Target.RUNNING
    topics: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as a document says it."""
        document: dict[str, Any] = {"id": self.id, "kind": self.kind, "name": self.name}
        if self.kind == "define":
            document["config"] = dict(self.config)
        if self.kind in ("define", "target"):
            document["target"] = self.target.value
        if self.kind == "topics":
            document["topics"] = list(self.topics)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Change:
        """Read it back; KeyError, TypeError or ValueError when it is not one."""
        kind = as_str(document["kind"])
        if kind not in _KINDS:
            raise ValueError(f"there is no change of the kind {kind!r}")
        return cls(
            id=as_str(document["id"]),
            kind=kind,
            name=as_str(document["name"]),
            config=_texts(document.get("config", {})),
            target=Target(document.get("target", Target.RUNNING)),
            topics=tuple(as_str(topic) for topic in as_list(document.get("topics", []))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """All connectors after change ``number``; -1 before the first.

    A connector's generation is the number of the change that gave it its configuration, so that
    one made anew under an old name is told from its predecessor.
    """

    number: int = -1
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    topics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    recent: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the snapshot of this state."""
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
    def from_json(cls, document: Mapping[str, Any]) -> State:
        """Read a snapshot; KeyError, TypeError or ValueError when it is not one."""
        rows = {name: as_dict(row) for name, row in as_dict(document["connectors"]).items()}
        return cls(
            number=as_int(document["number"]),
            recent=tuple(as_str(one) for one in as_list(document["recent"])),
            connectors={
                name: Connector(
                    name=name,
                    config=_texts(row["config"]),
                    target=Target(row["target"]),
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


def apply(state: State, change: Change) -> State:
    """Return the state after ``change``; one about a connector that is not there changes nothing.

    So two workers that read the same changes hold the same state, whatever order they wrote in.
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
    return State(
        number=number,
        connectors=connectors,
        topics=topics,
        recent=(*state.recent, change.id)[-REMEMBERED_CHANGES:],
    )


def _texts(value: Any) -> dict[str, str]:
    return {as_str(key): as_str(text) for key, text in as_dict(value).items()}
