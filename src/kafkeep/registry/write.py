"""Write schemas into a registry: with their original ids, or with new ones.

Original ids need Apicurio's import, or Confluent's IMPORT mode: in it a subject accepts versions
with given ids and numbers. A schema is written after those that it refers to. Every call may be
repeated: what exists already stays as it is.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from urllib.parse import quote

from kafkeep.archive.schemas import RegisteredSchema, SchemaSet, SchemaVersion
from kafkeep.errors import DamagedError, PreflightError, RecordError
from kafkeep.failpoint import failpoint
from kafkeep.registry import apicurio
from kafkeep.registry.client import Registry

SubjectVersion = tuple[str, int]
"""A subject and one of its versions."""


def in_order(found: SchemaSet) -> list[tuple[str, SchemaVersion]]:
    """Return every version after those it refers to and after earlier ones of its subject. Pure.

    Of several that may come next, the lowest id is first, as they were registered. References to
    schemas outside of the set are ignored here. DamagedError when references form a circle.
    """
    places = {(name, one.version): one for name, one in found.versions()}
    before = {place: set(_before(found, place, places)) for place in places}
    after: dict[SubjectVersion, list[SubjectVersion]] = {place: [] for place in places}
    for place, earlier in before.items():
        for one in earlier:
            after[one].append(place)
    ready = [(places[p].id, p) for p, earlier in before.items() if not earlier]
    heapq.heapify(ready)
    ordered = []
    while ready:
        _, place = heapq.heappop(ready)
        ordered.append((place[0], places[place]))
        for other in after[place]:
            before[other].discard(place)
            if not before[other]:
                heapq.heappush(ready, (places[other].id, other))
    if len(ordered) < len(places):
        stuck = min(place for place, earlier in before.items() if earlier)
        raise DamagedError(f"version {stuck[1]} of {stuck[0]} refers to itself in a circle")
    return ordered


def missing_references(found: SchemaSet) -> Iterator[tuple[int, str]]:
    """Yield the ids of schemas with a reference that the set lacks, and the reference."""
    for id, schema in sorted(found.schemas.items()):
        for one in schema.references:
            subject = found.subjects.get(one.subject)
            if subject is None or subject.find(one.version) is None:
                yield id, f"version {one.version} of {one.subject}"


def _before(
    found: SchemaSet, place: SubjectVersion, places: dict[SubjectVersion, SchemaVersion]
) -> Iterator[SubjectVersion]:
    name, version = place
    earlier = [one.version for one in found.subjects[name].versions if one.version < version]
    if earlier:
        yield name, max(earlier)
    schema: RegisteredSchema = found.schemas[places[place].id]
    for one in schema.references:
        if (one.subject, one.version) in places:
            yield one.subject, one.version


_IMPORT = {"mode": "IMPORT"}


def has_import_mode(registry: Registry) -> bool:
    """Return whether the registry has modes at all."""
    try:
        answer = registry.ask("GET", "/mode")
    except RecordError:
        return False
    return isinstance(answer, dict) and "mode" in answer


def import_with_ids(
    registry: Registry, found: SchemaSet, versions: Sequence[tuple[str, SchemaVersion]]
) -> None:
    """Import some versions of ``found``, in this order, with their ids and numbers.

    The subjects stay in IMPORT mode until ``leave_import_mode``, because subjects may refer to each
    other.
    """
    for subject in sorted({name for name, _ in versions}):
        registry.ask("PUT", f"/mode/{quote(subject, safe='')}?force=true", _IMPORT)
    for subject, one in versions:
        body = {**found.schemas[one.id].to_json(), "id": one.id, "version": one.version}
        registry.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)


def leave_import_mode(registry: Registry, subjects: Iterable[str]) -> None:
    """End the IMPORT mode of subjects, also of those that a run that died left in it."""
    for subject in subjects:
        path = f"/mode/{quote(subject, safe='')}"
        if registry.ask("GET", path) != _IMPORT:
            continue
        try:
            registry.ask("DELETE", path)
        except RecordError:  # the registry cannot delete a mode
            registry.ask("PUT", path, {"mode": "READWRITE"})


Versions = Sequence[tuple[str, SchemaVersion]]


class ImportMethod(StrEnum):
    """How a registry accepts schemas with their ids."""

    APICURIO = "Apicurio's import"
    CONFLUENT = "IMPORT mode"
    NONE = "none"


def find_import_method(registry: Registry) -> ImportMethod:
    """Return what the registry offers."""
    if apicurio.is_apicurio(registry):
        return ImportMethod.APICURIO
    return ImportMethod.CONFLUENT if has_import_mode(registry) else ImportMethod.NONE


def import_versions(
    registry: Registry,
    way: ImportMethod,
    found: SchemaSet,
    missing: Versions,
    *,
    newest: Mapping[str, int],
    at_ms: int,
) -> None:
    """Import the missing versions of ``found``, in this order, with their ids."""
    if way is ImportMethod.APICURIO:
        if missing:
            apicurio.import_versions(registry, found, missing, newest, at_ms)
        return
    import_with_ids(registry, found, missing)
    failpoint("schemas.importing")
    leave_import_mode(registry, sorted(found.subjects))
    delete_versions(registry, [(name, one.version) for name, one in missing if one.deleted])


def register_version(registry: Registry, subject: str, schema: RegisteredSchema) -> tuple[int, int]:
    """Register a schema; return its id and its version under the subject."""
    failpoint("schemas.register")
    path = f"/subjects/{quote(subject, safe='')}"
    try:
        id = registry.register(subject, schema)
        answer = registry.ask("POST", path, schema.to_json())
    except RecordError as error:
        raise PreflightError(
            f"{subject}: {error.message}",
            hint="Registered schemas stay; run the same command to continue. If the schema "
            "is incompatible, set the subject's compatibility to NONE until it is registered.",
        ) from error
    if answer is None:
        raise PreflightError(f"{subject}: the registry does not find what it has registered")
    return id, int(answer["version"])


def delete_versions(registry: Registry, places: Iterable[SubjectVersion]) -> None:
    """Soft-delete versions, the last first, so that no other refers to one that is deleted."""
    for subject, version in reversed(list(places)):
        registry.ask("DELETE", f"/subjects/{quote(subject, safe='')}/versions/{version}")


def set_compatibility(registry: Registry, levels: Mapping[str, str]) -> None:
    """Set the compatibility levels of subjects; the empty name stands for the registry."""
    for subject, level in sorted(levels.items()):
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        registry.ask("PUT", path, {"compatibility": level})


def with_references(
    schema: RegisteredSchema, places: Mapping[SubjectVersion, SubjectVersion]
) -> RegisteredSchema | None:
    """Return a schema with its references moved to their new places; None if one has none."""
    if not all((one.subject, one.version) in places for one in schema.references):
        return None
    moved = [
        replace(one, subject=place[0], version=place[1])
        for one in schema.references
        for place in [places[one.subject, one.version]]
    ]
    return replace(schema, references=tuple(moved))
