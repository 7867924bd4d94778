"""Under which subject a registry has the schemas of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from kafkeep.errors import RecordError
from kafkeep.registry.client import Registry


@dataclass(frozen=True, slots=True)
class Subject:
    """Keys or values of one topic, by the usual rule: ``orders-value``."""

    role: str
    topic: str | None

    @property
    def name(self) -> str:
        """The subject's name; RecordError when the topic is not known."""
        if self.topic is None:
            raise RecordError("the topic must be known to register schemas for it")
        return f"{self.topic}-{self.role}"

    def version(self, registry: Registry, schema_id: int) -> int | None:
        """Return the version an id has under this subject.

        Under another subject (records named by their type, a topic that is not known) it counts
        when all that have this id agree.
        """
        versions = registry.versions(schema_id)
        if self.topic is not None and self.name in versions:
            return versions[self.name]
        return next(iter(versions.values())) if len(set(versions.values())) == 1 else None
