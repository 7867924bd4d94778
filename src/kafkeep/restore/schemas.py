"""The schemas of a restore: planned with the rest, in the registry before the first record.

On the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kafkeep.archive.reader import ArchiveView
from kafkeep.archive.schemas import load_schemas
from kafkeep.archive.store import ObjectStore
from kafkeep.check import Check, Verdict
from kafkeep.config.registry import bare_address
from kafkeep.config.restore import RestoreOptions
from kafkeep.errors import PreflightError
from kafkeep.failpoint import failpoint
from kafkeep.kafka.schema_ids import IdMap
from kafkeep.registry.client import Registry, open_registry
from kafkeep.registry.read import RegistryReader
from kafkeep.registry.write import (
    ImportWay,
    delete_versions,
    import_versions,
    import_way,
    register_version,
    set_compatibility,
    with_references,
)
from kafkeep.restore.document import RestoreDocument
from kafkeep.restore.schema_plan import (
    SchemaPlan,
    lacking,
    newest_versions,
    plan_ids,
    plan_map,
    without_more,
)
from kafkeep.restore.summary import RestoreSummary

OFF, IDS, MAP = "off", "ids", "map"


@dataclass(frozen=True, kw_only=True)
class SchemaStep:
    """Brings the schemas of one commit into one registry: planned, not yet done."""

    mode: str
    digest: str
    address: str
    registry: Registry
    plan: SchemaPlan
    now_ms: Callable[[], int]

    @property
    def checks(self) -> tuple[Check, ...]:
        """What the preflight shows of it."""
        return self.plan.checks

    def to_json(self) -> dict[str, Any]:
        """Return the plan, for who reads it by a program."""
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
        """Register what is missing; return what the restore's document says of it.

        Called again after a crash it finds what is there, and comes to the same.
        """
        plan = self.plan
        ids = self._import(plan) if self.mode == IDS else self._register(plan)
        set_compatibility(self.registry, plan.levels)
        failpoint("restore.schemas")
        there = len(plan.archived.versions()) - len(plan.missing)
        summary.schema_notes = [c.what for c in plan.checks if c.verdict is Verdict.WARN]
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
        way = import_way(self.registry)
        import_versions(
            self.registry, way, plan.archived, plan.missing, newest=newest, at_ms=self.now_ms()
        )
        lost = lacking(plan.archived, reader.read())
        if lost is not None:
            raise PreflightError(
                f"{self.address} took the import, but does not hold {lost}",
                hint="See its log. --schemas map gives records the ids that it gives.",
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
    """Compare archive and registry; writes nothing. PreflightError when a commit has no schemas.

    ``begun`` is the document of a run whose records are to be gone on with.
    """
    settings = options.registry()
    assert settings is not None, "the options were checked"
    if not view.schemas:
        raise PreflightError(
            f"commit {view.commit} of {view.name} names no schemas",
            hint="They are kept by kafkeep backup --schema-registry URL.",
        )
    registry, address = open_registry(settings), bare_address(settings)
    archived = load_schemas(store, view.name, view.schemas)
    there, way = RegistryReader(registry).read(), import_way(registry)
    left_out: list[Check] = []
    if way is ImportWay.APICURIO:
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
    """Return what records get other ids by; None when they keep theirs.

    Keys and values that transforms have made anew bear no archived id.
    """
    if document.schemas.get("mode") != MAP:
        return None
    wanted, changes = options.schema_ids_in, options.changes
    keys = wanted != "values" and (changes is None or not changes.changes("key"))
    values = wanted != "keys" and (changes is None or not changes.changes("value"))
    return IdMap(_ids_of(document.schemas), keys, values)


def _ids_of(told: Mapping[str, Any]) -> dict[int, int]:
    return {int(old): int(new) for old, new in told.get("ids", {}).items()}
