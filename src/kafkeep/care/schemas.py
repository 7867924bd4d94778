"""What a log has of a registry's schemas, counted."""

from __future__ import annotations

from typing import Any

from kafkeep.archive.schemas import load_schemas
from kafkeep.archive.store import ObjectStore
from kafkeep.archive.view import ArchiveView
from kafkeep.errors import DamagedError


def count_schemas(store: ObjectStore, view: ArchiveView) -> dict[str, Any] | None:
    """Count what a registry held; a document that cannot be read is for verify to name."""
    if not view.schemas:
        return None
    told: dict[str, Any] = {"document": view.schemas, "subjects": None, "versions": None}
    try:
        found = load_schemas(store, view.name, view.schemas)
    except DamagedError:
        return told
    return {**told, "subjects": len(found.subjects), "versions": len(found.versions())}
