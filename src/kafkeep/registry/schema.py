"""A schema as a registry holds it; the archive keeps it in the same form."""

from __future__ import annotations

from kafkeep.archive.schemas import Reference, RegisteredSchema

__all__ = ["Reference", "RegisteredSchema"]
