"""Restore archived schemas into a registry before the first record is written. On the driver.

The plans compare the archive with the registry and are pure. They list present, missing and
conflicting schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.schemas import (
    RegisteredSchema,
    RegistrySubject,
    SchemaSet,
    SchemaVersion,
    load_schemas,
)
from kafkeep.archive.view import ArchiveView
from kafkeep.check_result import Check, CheckStatus
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.batch.schema_ids import IdMap
from kafkeep.options.registry import bare_address
from kafkeep.options.restore import RestoreOptions
from kafkeep.registry.client import Registry, open_registry
from kafkeep.registry.schemas import (
    ImportMethod,
    RegistryReader,
    SubjectVersion,
    delete_versions,
    find_import_method,
    import_versions,
    in_order,
    missing_references,
    register_version,
    set_compatibility,
    with_references,
)
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.summary import RestoreSummary

_NOTHING = RegistrySubject(())


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """The schemas to register, and checks."""

    archived: SchemaSet
    missing: tuple[tuple[str, SchemaVersion], ...] = ()
    """In the order in which they are registered."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Compatibility to set, by subject; an empty name is the whole registry."""
    ids: Mapping[int, int] = field(default_factory=dict)
    """With new ids: the ids that are already known, by archived id."""
    places: Mapping[SubjectVersion, SubjectVersion] = field(default_factory=dict)
    """With new ids: the versions that the registry already has."""
    checks: tuple[Check, ...] = ()


def plan_ids(
    archived: SchemaSet, there: SchemaSet, way: ImportMethod, *, registry: str
) -> SchemaPlan:
    """Plan a restore with the archived ids; fail if the registry uses one for another schema."""
    checks = list(_check_references(archived, registry))
    if way is ImportMethod.NONE:
        checks.append(
            Check(
                CheckStatus.FAIL,
                registry,
                "it supports neither IMPORT mode nor Apicurio's import: ids cannot be kept",
                "Use --schemas map, which rewrites the ids in records.",
            )
        )
    for id, schema in sorted(archived.schemas.items()):
        checks += _check_id(id, schema, there, registry)
    if way is ImportMethod.APICURIO:
        checks += _check_once(archived, there, registry)
    missing = []
    for name, one in in_order(archived) if not checks else ():
        known = there.subjects.get(name, _NOTHING).find(one.version)
        if known is None:
            missing.append((name, one))
        elif known.id != one.id:
            what = (
                f"version {one.version} of {name} has id {known.id} there, {one.id} in the archive"
            )
            checks.append(Check(CheckStatus.FAIL, registry, what, _OTHER_REGISTRY))
    levels, notes = _levels(archived, there, registry)
    note = _summary(archived, missing, registry, f"under their ids, by {way.value}")
    return SchemaPlan(
        archived=archived,
        missing=tuple(missing),
        levels=levels,
        checks=(*checks, *notes) if checks else (note, *notes),
    )


def plan_map(
    archived: SchemaSet, there: SchemaSet, before: Mapping[int, int], *, registry: str
) -> SchemaPlan:
    """Plan a restore with new ids; ``before`` are the ids in records that are already written."""
    checks = list(_check_references(archived, registry))
    places: dict[SubjectVersion, SubjectVersion] = {}
    ids: dict[int, int] = {}
    missing = []
    for name, one in in_order(archived) if not checks else ():
        schema = with_references(archived.schemas[one.id], places)
        found = _find(there, name, schema) if schema is not None else None
        if found is None:
            missing.append((name, one))
        else:
            places[name, one.version] = name, found.version
            ids.setdefault(one.id, found.id)
    for old, new in sorted(before.items()):
        if ids.get(old) != new:
            what = (
                f"schema {old} had id {new} there when this restore started, but no longer has it"
            )
            checks.append(Check(CheckStatus.FAIL, registry, what, _BEGIN_ANEW))
    levels, notes = _levels(archived, there, registry)
    note = _summary(archived, missing, registry, "under ids that the registry assigns")
    return SchemaPlan(
        archived=archived,
        missing=tuple(missing),
        levels=levels,
        ids=ids,
        places=places,
        checks=(*checks, *notes) if checks else (note, *notes),
    )


_OTHER_REGISTRY = (
    "Restore into an empty registry, or with --schemas map, which rewrites the ids in records."
)
_BEGIN_ANEW = "Delete the topics and run the restore again."


def without_more(archived: SchemaSet, registry: str) -> tuple[SchemaSet, list[Check]]:
    """Leave out metadata and rules, with a warning, if the registry does not support them."""
    rich = [id for id, schema in archived.schemas.items() if schema.more]
    if not rich:
        return archived, []
    bare = {id: replace(schema, more="") for id, schema in archived.schemas.items()}
    what = f"it does not support metadata and rules: those of {len(rich)} schemas are left out"
    return replace(archived, schemas=bare), [Check(CheckStatus.WARN, registry, what)]


def same_schema(one: RegisteredSchema, other: RegisteredSchema) -> bool:
    """Return whether two schemas are equal, regardless of JSON formatting."""
    if replace(one, text="") != replace(other, text=""):
        return False
    return one.text == other.text or _json(one.text) == _json(other.text) is not None


def lacking(archived: SchemaSet, there: SchemaSet) -> str | None:
    """Return an archived version that the registry lacks under its id; None if it has all."""
    for name, one in archived.versions():
        known = there.subjects.get(name, _NOTHING).find(one.version)
        if known is None or known.id != one.id:
            return f"version {one.version} of {name} with id {one.id}"
    return None


def newest_versions(archived: SchemaSet, there: SchemaSet) -> dict[str, int]:
    """Return the last version of each archived subject after the restore."""
    return {
        name: max(
            one.version for one in (*subject.versions, *there.subjects.get(name, _NOTHING).versions)
        )
        for name, subject in archived.subjects.items()
    }


def _check_references(archived: SchemaSet, registry: str) -> Iterator[Check]:
    for id, what in missing_references(archived):
        yield Check(
            CheckStatus.FAIL,
            registry,
            f"schema {id} refers to {what}, which is not in the archive",
            "It was deleted before the backup. Leave the schemas alone with --schemas off.",
        )


def _check_id(
    id: int, schema: RegisteredSchema, there: SchemaSet, registry: str
) -> Iterator[Check]:
    known = there.schemas.get(id)
    if known is not None and not same_schema(known, schema):
        users = [name for name, one in there.versions() if one.id == id]
        what = f"id {id} is another schema there, of {users[0] if users else 'no subject'}"
        yield Check(CheckStatus.FAIL, registry, what, _OTHER_REGISTRY)


def _check_once(archived: SchemaSet, there: SchemaSet, registry: str) -> Iterator[Check]:
    """Refuse one schema under two ids: Apicurio has one id per content."""
    known = {schema: id for id, schema in there.schemas.items()}
    mine: dict[RegisteredSchema, int] = {}
    for id, schema in sorted(archived.schemas.items()):
        if mine.setdefault(schema, id) != id:
            what = f"ids {mine[schema]} and {id} are the same schema, which it can hold only once"
            yield Check(CheckStatus.FAIL, registry, what, _OTHER_REGISTRY)
        elif id not in there.schemas and schema in known:
            what = f"it holds the schema of id {id} as {known[schema]}, and can hold it only once"
            yield Check(CheckStatus.FAIL, registry, what, _OTHER_REGISTRY)


def _find(there: SchemaSet, name: str, schema: RegisteredSchema) -> SchemaVersion | None:
    for one in there.subjects.get(name, _NOTHING).versions:
        if same_schema(there.schemas[one.id], schema):
            return one
    return None


def _levels(
    archived: SchemaSet, there: SchemaSet, registry: str
) -> tuple[dict[str, str], list[Check]]:
    """Return the levels to set: for subjects without one, and globally without other subjects."""
    levels: dict[str, str] = {}
    notes: list[Check] = []

    def note(what: str) -> None:
        notes.append(Check(CheckStatus.WARN, registry, what))

    for name, subject in sorted(archived.subjects.items()):
        level, known = subject.compatibility, there.subjects.get(name, _NOTHING).compatibility
        if level is not None and known is None:
            levels[name] = level
        elif level is not None and known != level:
            note(f"{name} has compatibility {known} there, not {level}: unchanged")
    wanted = archived.compatibility
    if wanted is not None and wanted != there.compatibility:
        if set(there.subjects) <= set(archived.subjects):
            levels[""] = wanted
        else:
            note(f"its compatibility is {there.compatibility}, not {wanted}: unchanged")
    return levels, notes


def _summary(
    archived: SchemaSet, missing: list[tuple[str, SchemaVersion]], registry: str, how: str
) -> Check:
    total = len(archived.versions())
    what = (
        f"{len(archived.subjects)} subjects with {total} versions: {len(missing)} will be "
        f"registered {how}, {total - len(missing)} are there"
    )
    return Check(CheckStatus.PASS, registry, what)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


OFF, IDS, MAP = "off", "ids", "map"


@dataclass(frozen=True, kw_only=True)
class SchemaStep:
    """The planned restore of the schemas of one commit into a registry."""

    mode: str
    digest: str
    address: str
    registry: Registry
    plan: SchemaPlan
    now_ms: Callable[[], int]

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks for the preflight."""
        return self.plan.checks

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON."""
        return {
            "mode": self.mode,
            "document": self.digest,
            "registry": self.address,
            "missing": [
                {"subject": name, "version": one.version, "id": one.id}
                for name, one in self.plan.missing
            ],
            "compatibility": dict(self.plan.levels),
        }

    def put(self, summary: RestoreSummary) -> dict[str, Any]:
        """Register missing schemas; return the fields for the restore's document.

        Idempotent: safe to repeat after a crash.
        """
        plan = self.plan
        ids = self._import(plan) if self.mode == IDS else self._register(plan)
        set_compatibility(self.registry, plan.levels)
        failpoint("restore.schemas")
        there = len(plan.archived.versions()) - len(plan.missing)
        summary.schema_notes = [c.what for c in plan.checks if c.verdict is CheckStatus.WARN]
        summary.schemas = {"registered": len(plan.missing), "there": there}
        return {
            "mode": self.mode,
            "document": self.digest,
            "registry": self.address,
            "ids": {str(old): new for old, new in sorted(ids.items())},
        }

    def _import(self, plan: SchemaPlan) -> Mapping[int, int]:
        reader = RegistryReader(self.registry)
        newest = newest_versions(plan.archived, reader.read())
        way = find_import_method(self.registry)
        import_versions(
            self.registry, way, plan.archived, plan.missing, newest=newest, at_ms=self.now_ms()
        )
        lost = lacking(plan.archived, reader.read())
        if lost is not None:
            raise PreflightError(
                f"{self.address} accepted the import, but does not hold {lost}",
                hint="See the log of the registry, or rewrite ids in records with --schemas map.",
            )
        return {}

    def _register(self, plan: SchemaPlan) -> Mapping[int, int]:
        ids, places = dict(plan.ids), dict(plan.places)
        for name, one in plan.missing:
            schema = with_references(plan.archived.schemas[one.id], places)
            assert schema is not None, "they come in order"
            id, version = register_version(self.registry, name, schema)
            ids.setdefault(one.id, id)
            places[name, one.version] = name, version
        deleted = [places[name, one.version] for name, one in plan.missing if one.deleted]
        delete_versions(self.registry, deleted)
        return ids


def plan_schemas(
    options: RestoreOptions,
    view: ArchiveView,
    store: ObjectStore,
    begun: RestoreDocument | None,
    now_ms: Callable[[], int],
) -> SchemaStep:
    """Compare archive and registry; writes nothing. PreflightError if the commit has no schemas.

    ``begun`` is the document of an unfinished run of the same restore.
    """
    settings = options.registry()
    assert settings is not None, "the options were checked"
    if not view.schemas:
        raise PreflightError(
            f"commit {view.commit} of {view.name} names no schemas",
            hint="Archive them with kafkeep backup --schema-registry URL.",
        )
    registry, address = open_registry(settings), bare_address(settings)
    archived = load_schemas(store, view.name, view.schemas)
    there, way = RegistryReader(registry).read(), find_import_method(registry)
    left_out: list[Check] = []
    if way is ImportMethod.APICURIO:
        archived, left_out = without_more(archived, address)
    if options.schemas == IDS:
        plan = plan_ids(archived, there, way, registry=address)
    else:
        before = _ids_of(begun.schemas) if begun is not None else {}
        plan = plan_map(archived, there, before, registry=address)
    return SchemaStep(
        mode=options.schemas,
        digest=view.schemas,
        address=address,
        registry=registry,
        plan=replace(plan, checks=(*plan.checks, *left_out)),
        now_ms=now_ms,
    )


def id_map(document: RestoreDocument, options: RestoreOptions) -> IdMap | None:
    """Return the map of schema ids in records; None if they do not change.

    Keys and values that a transform produced hold no archived id.
    """
    if document.schemas.get("mode") != MAP:
        return None
    wanted, changes = options.schema_ids_in, options.changes
    keys = wanted != "values" and (changes is None or not changes.changes("key"))
    values = wanted != "keys" and (changes is None or not changes.changes("value"))
    return IdMap(_ids_of(document.schemas), keys, values)


def _ids_of(document: Mapping[str, Any]) -> dict[int, int]:
    return {int(old): int(new) for old, new in document.get("ids", {}).items()}
