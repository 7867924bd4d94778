"""A schema as a registry holds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

SchemaType = Literal["AVRO", "JSON", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a schema imports: ``name`` as its text spells it, and where that is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """The text of a schema, and what it refers to."""

    type: str
    text: str
    references: tuple[Reference, ...] = ()

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RegisteredSchema:
        """Read a registry's answer; the type is left out when it is Avro."""
        references = tuple(
            Reference(one["name"], one["subject"], int(one["version"]))
            for one in told.get("references") or ()
        )
        return cls(told.get("schemaType") or "AVRO", told["schema"], references)

    def to_json(self) -> dict[str, Any]:
        """Return the body that registers this schema."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in self.references
            ]
        return body
