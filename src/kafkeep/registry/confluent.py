"""Confluent's IMPORT mode: a subject in it takes versions with the ids and numbers they had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from kafkeep.archive.schemas import SchemaSet, SchemaVersion
from kafkeep.errors import RecordError
from kafkeep.registry.client import Registry

_IMPORT = {"mode": "IMPORT"}


def has_import_mode(registry: Registry) -> bool:
    """Tell whether the registry has modes at all."""
    try:
        told = registry.ask("GET", "/mode")
    except RecordError:
        return False
    return isinstance(told, dict) and "mode" in told


def import_versions(
    registry: Registry, found: SchemaSet, versions: Sequence[tuple[str, SchemaVersion]]
) -> None:
    """Import some versions of ``found``, in this order, with their ids and numbers.

    The subjects stay in IMPORT mode: what refers to each other is imported in turns. See ``leave``.
    """
    for subject in sorted({name for name, _ in versions}):
        registry.ask("PUT", f"/mode/{quote(subject, safe='')}?force=true", _IMPORT)
    for subject, one in versions:
        body = {**found.schemas[one.id].to_json(), "id": one.id, "version": one.version}
        registry.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)


def leave(registry: Registry, subjects: Iterable[str]) -> None:
    """Let subjects take schemas as usual again, also those a run that died left behind."""
    for subject in subjects:
        path = f"/mode/{quote(subject, safe='')}"
        if registry.ask("GET", path) != _IMPORT:
            continue
        try:
            registry.ask("DELETE", path)
        except RecordError:  # of a registry that cannot forget a mode
            registry.ask("PUT", path, {"mode": "READWRITE"})
