"""Schemas brought into a registry: with their ids, or under those it gives them.

Each call may be repeated: what is there already is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from urllib.parse import quote

from kafkeep.archive.schemas import RegisteredSchema, SchemaSet, SchemaVersion
from kafkeep.errors import PreflightError, RecordError
from kafkeep.failpoint import failpoint
from kafkeep.registry import apicurio, confluent
from kafkeep.registry.client import Registry
from kafkeep.registry.order import Place

Versions = Sequence[tuple[str, SchemaVersion]]


class ImportWay(StrEnum):
    """How a registry takes schemas with their ids."""

    APICURIO = "Apicurio's import"
    CONFLUENT = "IMPORT mode"
    NONE = "none"


def import_way(registry: Registry) -> ImportWay:
    """Find out what the registry offers."""
    if apicurio.is_apicurio(registry):
        return ImportWay.APICURIO
    return ImportWay.CONFLUENT if confluent.has_import_mode(registry) else ImportWay.NONE


def import_versions(
    registry: Registry,
    way: ImportWay,
    found: SchemaSet,
    missing: Versions,
    *,
    newest: Mapping[str, int],
    at_ms: int,
) -> None:
    """Bring the missing versions of ``found`` in, in this order, under their ids."""
    if way is ImportWay.APICURIO:
        if missing:
            apicurio.import_versions(registry, found, missing, newest, at_ms)
        return
    confluent.import_versions(registry, found, missing)
    failpoint("schemas.importing")
    confluent.leave(registry, sorted(found.subjects))
    delete_versions(registry, [(name, one.version) for name, one in missing if one.deleted])


def register_version(registry: Registry, subject: str, schema: RegisteredSchema) -> tuple[int, int]:
    """Register a schema; return its id and the version it has under the subject."""
    failpoint("schemas.register")
    path = f"/subjects/{quote(subject, safe='')}"
    try:
        id = registry.register(subject, schema)
        told = registry.ask("POST", path, schema.to_json())
    except RecordError as error:
        raise PreflightError(
            f"{subject}: {error.message}",
            hint="What was registered so far stays; the same command goes on. If it is not "
            "compatible, set the subject's compatibility to NONE for the while.",
        ) from error
    if told is None:
        raise PreflightError(f"{subject}: the registry does not find what it has registered")
    return id, int(told["version"])


def delete_versions(registry: Registry, places: Iterable[Place]) -> None:
    """Delete versions, but not for good: the last first, so that none is referred to."""
    for subject, version in reversed(list(places)):
        registry.ask("DELETE", f"/subjects/{quote(subject, safe='')}/versions/{version}")


def set_compatibility(registry: Registry, levels: Mapping[str, str]) -> None:
    """Set the levels of subjects; an empty name is the whole registry."""
    for subject, level in sorted(levels.items()):
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        registry.ask("PUT", path, {"compatibility": level})


def with_references(
    schema: RegisteredSchema, places: Mapping[Place, Place]
) -> RegisteredSchema | None:
    """Return a schema that refers to where its references stand now; None when one is nowhere."""
    if not all((one.subject, one.version) in places for one in schema.references):
        return None
    moved = [
        replace(one, subject=place[0], version=place[1])
        for one in schema.references
        for place in [places[one.subject, one.version]]
    ]
    return replace(schema, references=tuple(moved))
