"""What becomes of archived schemas in a registry: what is there, what is missing, what is against.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from kafkeep.archive.schemas import RegisteredSchema, SchemaSet, SchemaVersion, Subject
from kafkeep.check import Check, Verdict
from kafkeep.registry.order import Place, in_order, missing_references
from kafkeep.registry.write import ImportWay, with_references

_NOTHING = Subject(())


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlan:
    """What is to be done, and what stands against it."""

    archived: SchemaSet
    missing: tuple[tuple[str, SchemaVersion], ...] = ()
    """In the order in which they are registered."""
    levels: Mapping[str, str] = field(default_factory=dict)
    """Compatibility to set, by subject; an empty name is the whole registry."""
    ids: Mapping[int, int] = field(default_factory=dict)
    """With new ids: those that are known already, by the archived ones."""
    places: Mapping[Place, Place] = field(default_factory=dict)
    """With new ids: where versions stand that are there already."""
    checks: tuple[Check, ...] = ()


def plan_ids(archived: SchemaSet, there: SchemaSet, way: ImportWay, *, registry: str) -> SchemaPlan:
    """Plan a restore under the archived ids; another schema under one of them is a failure."""
    checks = list(_check_references(archived, registry))
    if way is ImportWay.NONE:
        checks.append(
            Check(
                Verdict.FAIL,
                registry,
                "it has neither IMPORT mode nor Apicurio's import: ids cannot be kept",
                "Use --schemas map: records then get the ids that the registry gives.",
            )
        )
    for id, schema in sorted(archived.schemas.items()):
        checks += _check_id(id, schema, there, registry)
    if way is ImportWay.APICURIO:
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
            checks.append(Check(Verdict.FAIL, registry, what, _OTHER_REGISTRY))
    levels, notes = _levels(archived, there, registry)
    told = _told(archived, missing, registry, f"under their ids, by {way.value}")
    return SchemaPlan(
        archived=archived,
        missing=tuple(missing),
        levels=levels,
        checks=(*checks, *notes) if checks else (told, *notes),
    )


def plan_map(
    archived: SchemaSet, there: SchemaSet, before: Mapping[int, int], *, registry: str
) -> SchemaPlan:
    """Plan a restore under new ids; ``before`` are those that records were written with already."""
    checks = list(_check_references(archived, registry))
    places: dict[Place, Place] = {}
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
            what = f"schema {old} was {new} there when this restore began, and is not any more"
            checks.append(Check(Verdict.FAIL, registry, what, _BEGIN_ANEW))
    levels, notes = _levels(archived, there, registry)
    told = _told(archived, missing, registry, "under ids that the registry gives")
    return SchemaPlan(
        archived=archived,
        missing=tuple(missing),
        levels=levels,
        ids=ids,
        places=places,
        checks=(*checks, *notes) if checks else (told, *notes),
    )


_OTHER_REGISTRY = (
    "Restore into an empty registry, or with --schemas map, which gives records other ids."
)
_BEGIN_ANEW = "Delete the topics and run the restore again."


def without_more(archived: SchemaSet, registry: str) -> tuple[SchemaSet, list[Check]]:
    """Leave out metadata and rules, for a registry that has none, and say so."""
    rich = [id for id, schema in archived.schemas.items() if schema.more]
    if not rich:
        return archived, []
    bare = {id: replace(schema, more="") for id, schema in archived.schemas.items()}
    what = f"it keeps no metadata and rules: those of {len(rich)} schemas are left out"
    return replace(archived, schemas=bare), [Check(Verdict.WARN, registry, what)]


def same_schema(one: RegisteredSchema, other: RegisteredSchema) -> bool:
    """Tell whether two schemas are the same, however their JSON is written."""
    if replace(one, text="") != replace(other, text=""):
        return False
    return one.text == other.text or _json(one.text) == _json(other.text) is not None


def lacking(archived: SchemaSet, there: SchemaSet) -> str | None:
    """Say which archived version a registry does not hold under its id; None when it has all."""
    for name, one in archived.versions():
        known = there.subjects.get(name, _NOTHING).find(one.version)
        if known is None or known.id != one.id:
            return f"version {one.version} of {name} with id {one.id}"
    return None


def newest_versions(archived: SchemaSet, there: SchemaSet) -> dict[str, int]:
    """Return the last version each archived subject will have."""
    return {
        name: max(
            one.version for one in (*subject.versions, *there.subjects.get(name, _NOTHING).versions)
        )
        for name, subject in archived.subjects.items()
    }


def _check_references(archived: SchemaSet, registry: str) -> Iterator[Check]:
    for id, what in missing_references(archived):
        yield Check(
            Verdict.FAIL,
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
        yield Check(Verdict.FAIL, registry, what, _OTHER_REGISTRY)


def _check_once(archived: SchemaSet, there: SchemaSet, registry: str) -> Iterator[Check]:
    """Refuse what needs the same schema under two ids: Apicurio has one id for one content."""
    known = {schema: id for id, schema in there.schemas.items()}
    mine: dict[RegisteredSchema, int] = {}
    for id, schema in sorted(archived.schemas.items()):
        if mine.setdefault(schema, id) != id:
            what = f"ids {mine[schema]} and {id} are the same schema: it can hold it once"
            yield Check(Verdict.FAIL, registry, what, _OTHER_REGISTRY)
        elif id not in there.schemas and schema in known:
            what = f"it holds the schema of id {id} as {known[schema]}, and can hold it once"
            yield Check(Verdict.FAIL, registry, what, _OTHER_REGISTRY)


def _find(there: SchemaSet, name: str, schema: RegisteredSchema) -> SchemaVersion | None:
    for one in there.subjects.get(name, _NOTHING).versions:
        if same_schema(there.schemas[one.id], schema):
            return one
    return None


def _levels(
    archived: SchemaSet, there: SchemaSet, registry: str
) -> tuple[dict[str, str], list[Check]]:
    """Say which levels are set: where none is, and for the whole if it has no other subjects."""
    levels: dict[str, str] = {}
    notes: list[Check] = []

    def note(what: str) -> None:
        notes.append(Check(Verdict.WARN, registry, what))

    for name, subject in sorted(archived.subjects.items()):
        level, known = subject.compatibility, there.subjects.get(name, _NOTHING).compatibility
        if level is not None and known is None:
            levels[name] = level
        elif level is not None and known != level:
            note(f"{name} has compatibility {known} there, not {level}: it stays")
    wanted = archived.compatibility
    if wanted is not None and wanted != there.compatibility:
        if set(there.subjects) <= set(archived.subjects):
            levels[""] = wanted
        else:
            note(f"its compatibility is {there.compatibility}, not {wanted}: it stays")
    return levels, notes


def _told(
    archived: SchemaSet, missing: list[tuple[str, SchemaVersion]], registry: str, how: str
) -> Check:
    total = len(archived.versions())
    what = (
        f"{len(archived.subjects)} subjects with {total} versions: {len(missing)} will be "
        f"registered {how}, {total - len(missing)} are there"
    )
    return Check(Verdict.PASS, registry, what)


def _json(text: str) -> object:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
