"""Read all schemas of a registry, and write schemas into a registry. Sends requests.

A schema keeps its id or gets a new one. Keeping ids requires Apicurio's import, or Confluent's
IMPORT mode, in which a subject accepts versions with given ids and numbers. A schema is written
after its references. Every call may be repeated, because existing schemas are kept.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote

from kafkeep.archive.schemas import RegisteredSchema, RegistrySubject, SchemaSet, SchemaVersion
from kafkeep.errors import DamagedError, PreflightError, RecordError, TransientError, UsageError
from kafkeep.failpoint import failpoint
from kafkeep.registry import apicurio
from kafkeep.registry.client import CONNECTIONS, Registry

logger = logging.getLogger(__name__)
NONE = "NONE"
MOST_SUBJECTS = 1000
"""The default limit of Apicurio's subject list. Apicurio does not report that a list is cut."""
_CONTEXT = ":."


class RegistryReader:
    """Reads a registry repeatedly, but each schema only once.

    The schema of a version changes only if the version and all later ones are deleted permanently
    and registered again. The last version of each subject is therefore always read again.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._apicurio: bool | None = None
        self._known: dict[tuple[str, int], tuple[int, RegisteredSchema]] = {}

    def check(self) -> None:
        """Raise UsageError if it is not a registry, TransientError if it does not respond."""
        self._subjects()

    def read(self) -> SchemaSet:
        """Return all subjects and schemas. Send several requests at a time.

        Changes during the call may or may not be included. Every schema that existed before the
        call is included unless it is deleted. Raise UsageError if it is not a registry.
        """
        names = self.subject_names()
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="registry") as pool:
            found = list(pool.map(self._subject, names))
        schemas = {id: schema for _, read in found for id, schema in read.items()}
        subjects = {
            name: subject
            for name, (subject, _) in zip(names, found, strict=True)
            if subject.versions
        }
        for key in self._known.keys() - _keys(subjects):
            del self._known[key]
        return SchemaSet(subjects, schemas, self.compatibility(""))

    def subject_names(self) -> list[str]:
        """Return the names of all subjects, deleted ones too. Sends one or two requests."""
        self._is_apicurio()
        return self._subjects()

    def _is_apicurio(self) -> bool:
        if self._apicurio is None:
            self._apicurio = apicurio.is_apicurio(self._registry)
        return self._apicurio

    def version_numbers(self, subject: str) -> dict[int, bool]:
        """Return the versions of a subject, and whether each is deleted."""
        path = f"/subjects/{quote(subject, safe='')}/versions"
        every = sorted(self._registry.ask("GET", f"{path}?deleted=true") or [])
        active = set(self._registry.ask("GET", path) or []) if every else set()
        return {number: number not in active for number in every}

    def _subjects(self) -> list[str]:
        listed = self._registry.ask("GET", "/subjects?deleted=true")
        if not isinstance(listed, list):
            raise UsageError(
                f"{self._registry.address} does not answer like a schema registry",
                hint="Apicurio has Confluent's API under /apis/ccompat/v7.",
            )
        names = [name for name in listed if not name.startswith(_CONTEXT)]
        if len(names) < len(listed):
            logger.warning(
                "%d subjects of other contexts are left out: their ids are their own",
                len(listed) - len(names),
            )
        if self._apicurio and len(listed) == MOST_SUBJECTS:
            logger.warning(
                "the registry lists %d subjects and may have more: set its "
                "registry.ccompat.max-subjects higher",
                MOST_SUBJECTS,
            )
        return sorted(set(names))

    def _subject(self, name: str) -> tuple[RegistrySubject, dict[int, RegisteredSchema]]:
        every = self.version_numbers(name)
        newest = max(every, default=0)
        versions, schemas, unread = [], {}, 0
        for number, deleted in every.items():
            found = self.version(name, number, fresh=number == newest)
            if found is None:
                unread += 1
                continue
            id, schema = found
            schemas[id] = schema
            versions.append(SchemaVersion(number, id, deleted))
        if unread:
            logger.warning(
                "%s: %d versions are listed, but cannot be read: they are left out", name, unread
            )
        return RegistrySubject(tuple(versions), self.compatibility(name)), schemas

    def version(
        self, name: str, number: int, *, fresh: bool
    ) -> tuple[int, RegisteredSchema] | None:
        """Return the id and the schema of a version; None when there is none.

        ``fresh`` reads it again although it is known: for the last version of a subject.
        """
        key = name, number
        if fresh or key not in self._known:
            path = f"/subjects/{quote(name, safe='')}/versions/{number}?deleted=true"
            answer = self._registry.ask("GET", path)
            if answer is None:  # permanently deleted in the meantime, or unreadable
                return None
            self._known[key] = _parse(answer, name)
        return self._known[key]

    def compatibility(self, subject: str) -> str | None:
        """Return the level of a subject, or of the registry for an empty name."""
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        answer = self._registry.ask("GET", path)
        level = (answer or {}).get("compatibilityLevel")
        if subject and level == NONE and self._is_apicurio():
            return None  # Apicurio also returns NONE for a subject without its own level
        return level


def _parse(answer: Mapping[str, Any], name: str) -> tuple[int, RegisteredSchema]:
    try:
        return int(answer["id"]), RegisteredSchema.from_json(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise TransientError(
            f"the schema registry's answer about {name} is not a schema"
        ) from error


def _keys(subjects: Mapping[str, RegistrySubject]) -> set[tuple[str, int]]:
    return {(name, one.version) for name, s in subjects.items() for one in s.versions}


SubjectVersion = tuple[str, int]
"""A subject and one of its versions."""


def in_order(found: SchemaSet) -> list[tuple[str, SchemaVersion]]:
    """Order versions so that each follows its references and the earlier ones of its subject. Pure.

    Among the versions that can come next, the lowest id is first, which is the order of
    registration. References to schemas outside the set are ignored. Raise DamagedError when
    references form a cycle.
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
    """Yield the schema id and a description of each reference that the set lacks. Pure."""
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
    """Return whether the registry supports modes."""
    try:
        answer = registry.ask("GET", "/mode")
    except RecordError:
        return False
    return isinstance(answer, dict) and "mode" in answer


def import_with_ids(
    registry: Registry, found: SchemaSet, versions: Sequence[tuple[str, SchemaVersion]]
) -> None:
    """Import some versions of ``found``, in this order, with their ids and version numbers.

    The subjects stay in IMPORT mode until ``leave_import_mode``, because subjects may reference
    each other.
    """
    for subject in sorted({name for name, _ in versions}):
        registry.ask("PUT", f"/mode/{quote(subject, safe='')}?force=true", _IMPORT)
    for subject, one in versions:
        body = {**found.schemas[one.id].to_json(), "id": one.id, "version": one.version}
        registry.ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)


def leave_import_mode(registry: Registry, subjects: Iterable[str]) -> None:
    """End the IMPORT mode of subjects, including those that a failed run left in it."""
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
    """Return the import method that the registry supports."""
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
        raise PreflightError(
            f"{subject}: the registry does not return the schema that it has registered"
        )
    return id, int(answer["version"])


def delete_versions(registry: Registry, places: Iterable[SubjectVersion]) -> None:
    """Soft-delete versions in reverse order, so that no version references a deleted one."""
    for subject, version in reversed(list(places)):
        registry.ask("DELETE", f"/subjects/{quote(subject, safe='')}/versions/{version}")


def set_compatibility(registry: Registry, levels: Mapping[str, str]) -> None:
    """Set the compatibility levels of subjects. The empty name means the whole registry."""
    for subject, level in sorted(levels.items()):
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        registry.ask("PUT", path, {"compatibility": level})


def with_references(
    schema: RegisteredSchema, places: Mapping[SubjectVersion, SubjectVersion]
) -> RegisteredSchema | None:
    """Return a schema with its references mapped by ``places``, or None if one is not mapped."""
    if not all((one.subject, one.version) in places for one in schema.references):
        return None
    moved = [
        replace(one, subject=place[0], version=place[1])
        for one in schema.references
        for place in [places[one.subject, one.version]]
    ]
    return replace(schema, references=tuple(moved))
