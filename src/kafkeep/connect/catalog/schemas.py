"""Schemas: those of the live registries beside those that the archives keep. Reads only."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import orjson

from kafkeep.archive.schemas import RegisteredSchema, RegistrySubject, SchemaSet, load_schemas
from kafkeep.connect.catalog.archives.archives import ArchiveLog, Archives
from kafkeep.connect.catalog.registries import RegistryPlace
from kafkeep.connect.model import RestError
from kafkeep.errors import KafkeepError
from kafkeep.options.sink.converter_settings import RegistrySettings
from kafkeep.registry.client import make_registry
from kafkeep.registry.schemas import RegistryReader
from kafkeep.restore.schemas import same_schema
from kafkeep.retry import REGISTRY

Source = Literal["registry", "archive"]
VERSIONS_SHOWN = 20
"""The newest versions of a subject that are read from a registry: each costs a request."""
MOST_LINES = 3000
"""Longer texts are not compared: that takes quadratic time."""
_TIMEOUT_S = 3.0
_SETS_KEPT = 8
_NOTHING = RegistrySubject(())


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaLog:
    """A log that keeps schemas, at its newest commit."""

    archive: str
    address: str
    log: str
    commit: int
    at_ms: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectSummary:
    """One subject, in the registry, in the archive, or in both."""

    name: str
    in_registry: bool | None
    """None: the registry was not asked, or does not answer."""
    archived_versions: int = 0
    type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPlaces:
    """What can be compared, and what is compared: registries and logs."""

    registries: tuple[RegistryPlace, ...]
    logs: tuple[SchemaLog, ...]
    registry: RegistryPlace | None
    log: SchemaLog | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectList:
    """All subjects by name; ``problem`` says why those of the registry are missing."""

    places: SchemaPlaces
    subjects: tuple[SubjectSummary, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSchema:
    """A schema with its id, in the registry or in the archive."""

    id: int
    schema: RegisteredSchema
    is_deleted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedVersion:
    """One version of a subject on both sides; None: not there, or not read."""

    version: int
    live: StoredSchema | None = None
    archived: StoredSchema | None = None

    @property
    def verdict(self) -> str:
        """Say how the two sides differ."""
        if self.live is None or self.archived is None:
            return "only in the archive" if self.live is None else "only in the registry"
        if not same_schema(self.live.schema, self.archived.schema):
            return "different text"
        return "same" if self.live.id == self.archived.id else "same text, other id"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubjectDetails:
    """One subject with some of its versions, the newest first."""

    name: str
    places: SchemaPlaces
    versions: tuple[ComparedVersion, ...]
    count: int = 0
    """How many versions there are in all."""
    older: int = 0
    """How many earlier versions are not shown."""
    also: tuple[ComparedVersion, ...] = ()
    """Other versions that were asked for by their number."""
    live_compatibility: str | None = None
    archived_compatibility: str | None = None
    problem: str = ""

    def find(self, source: str, version: int) -> StoredSchema | None:
        """Return a schema of one side."""
        for one in (*self.versions, *self.also):
            if one.version == version:
                return one.live if source == "registry" else one.archived
        return None


@dataclass(slots=True)
class _Kept:
    readers: dict[RegistrySettings, RegistryReader] = field(default_factory=dict)
    sets: dict[tuple[str, str, str], SchemaSet] = field(default_factory=dict)


class SchemaCatalog:
    """Reads schemas. Safe to use from any thread."""

    def __init__(
        self, registries: Callable[[], Sequence[RegistryPlace]], archives: Archives
    ) -> None:
        self._registries = registries
        self._archives = archives
        self._lock = threading.Lock()
        self._kept = _Kept()

    def registries(self) -> list[RegistrySettings]:
        """Return how to reach each registry that a connector names."""
        return [place.settings for place in self._registries()]

    def places(self, registry: str = "", log: str = "") -> SchemaPlaces:
        """Return what there is, with the chosen ones; ``log`` is an archive's id, ``:`` and a name.

        The first registry and the newest log that keeps schemas are chosen if none is named.
        """
        registries = tuple(self._registries())
        logs = self._logs()
        chosen = [one for one in registries if registry in ("", one.id)]
        named = [one for one in logs if log in ("", f"{one.archive}:{one.log}")]
        if registry and not chosen:
            raise RestError(404, f"No connector of this service uses a registry {registry!r}")
        if log and not named:
            raise RestError(404, f"No log {log!r} keeps schemas")
        return SchemaPlaces(
            registries=registries,
            logs=logs,
            registry=chosen[0] if chosen else None,
            log=named[0] if named else None,
        )

    def subjects(self, places: SchemaPlaces) -> SubjectList:
        """Return all subjects; one or two requests to the registry."""
        archived = self._archived(places)
        live: set[str] | None = None
        problem = ""
        if places.registry is not None:
            try:
                live = set(self._reader(places.registry).subject_names())
            except KafkeepError as error:
                problem = error.message
        names = sorted(archived.subjects.keys() | (live or set()))
        return SubjectList(
            places=places,
            subjects=tuple(_summary(name, archived, live) for name in names),
            problem=problem,
        )

    def subject(
        self, name: str, places: SchemaPlaces, *, start: int = 0, also: Collection[int] = ()
    ) -> SubjectDetails:
        """Return 20 versions of a subject, without the newest ``start``, and those in ``also``.

        404 when there is no subject of that name.
        """
        archived = self._archived(places)
        saved = archived.subjects.get(name, _NOTHING)
        numbers: Mapping[int, bool] = {}
        level, problem = None, ""
        reader = self._reader(places.registry) if places.registry is not None else None
        if reader is not None:
            try:
                numbers = reader.version_numbers(name)
                level = reader.compatibility(name) or reader.compatibility("")
            except KafkeepError as error:
                reader, problem = None, error.message
        known = sorted({*numbers, *(one.version for one in saved.versions)}, reverse=True)
        if not known and not problem:
            raise RestError(404, f"There is no subject {name!r} in the registry or the archive")
        start = min(start, max(0, len(known) - 1) // VERSIONS_SHOWN * VERSIONS_SHOWN)
        listed = known[start : start + VERSIONS_SHOWN]
        wanted = [*listed, *(number for number in known if number in also and number not in listed)]
        shown = [
            ComparedVersion(version=number, archived=_stored(archived, saved, number))
            for number in wanted
        ]
        if reader is not None:
            try:
                shown = [_with_live(one, name, numbers, reader) for one in shown]
            except KafkeepError as error:
                problem = error.message
        return SubjectDetails(
            name=name,
            places=places,
            versions=tuple(shown[: len(listed)]),
            also=tuple(shown[len(listed) :]),
            count=len(known),
            older=len(known) - start - len(listed),
            live_compatibility=level,
            archived_compatibility=(saved.compatibility or archived.compatibility)
            if saved.versions
            else None,
            problem=problem,
        )

    def _archived(self, places: SchemaPlaces) -> SchemaSet:
        """Return what a log keeps; a document never changes, so it is read once."""
        log = places.log
        if log is None:
            return SchemaSet()
        key = log.archive, log.log, log.digest
        with self._lock:
            known = self._kept.sets.get(key)
        if known is None:
            store = self._archives.store(self._archives.place(log.archive))
            known = load_schemas(store, log.log, log.digest)
            with self._lock:
                if len(self._kept.sets) >= _SETS_KEPT:
                    del self._kept.sets[next(iter(self._kept.sets))]
                self._kept.sets[key] = known
        return known

    def _reader(self, place: RegistryPlace) -> RegistryReader:
        with self._lock:
            known = self._kept.readers.get(place.settings)
            if known is None:
                once = replace(REGISTRY, attempts=1)
                registry = make_registry(place.settings, timeout_s=_TIMEOUT_S, retry=once)
                known = self._kept.readers[place.settings] = RegistryReader(registry)
            return known

    def _logs(self) -> tuple[SchemaLog, ...]:
        found: list[ArchiveLog] = []
        for place in self._archives.places():
            try:
                found += [log for log in self._archives.logs(place) if log.view.schemas]
            except KafkeepError:
                continue  # a page about the archive says what is wrong with it
        found.sort(key=lambda log: -log.view.at_ms)
        return tuple(
            SchemaLog(
                archive=log.place.id,
                address=log.place.address,
                log=log.name,
                commit=log.view.commit,
                at_ms=log.view.at_ms,
                digest=log.view.schemas,
            )
            for log in found
        )


def _summary(name: str, archived: SchemaSet, live: set[str] | None) -> SubjectSummary:
    versions = archived.subjects.get(name, _NOTHING).versions
    return SubjectSummary(
        name=name,
        in_registry=None if live is None else name in live,
        archived_versions=len(versions),
        type=archived.schemas[versions[-1].id].type if versions else "",
    )


def _stored(archived: SchemaSet, saved: RegistrySubject, number: int) -> StoredSchema | None:
    one = saved.find(number)
    if one is None:
        return None
    return StoredSchema(id=one.id, schema=archived.schemas[one.id], is_deleted=one.deleted)


def _with_live(
    one: ComparedVersion, name: str, numbers: Mapping[int, bool], reader: RegistryReader
) -> ComparedVersion:
    if one.version not in numbers:
        return one
    found = reader.version(name, one.version, fresh=one.version == max(numbers))
    if found is None:
        return one
    id, schema = found
    return replace(one, live=StoredSchema(id=id, schema=schema, is_deleted=numbers[one.version]))


def pretty(schema: RegisteredSchema) -> str:
    """Return the text of a schema to read: JSON is indented, its members stay in order."""
    try:
        value = orjson.loads(schema.text)
    except orjson.JSONDecodeError:
        return schema.text
    if not isinstance(value, (dict, list)):
        return schema.text
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a comparison; ``sign`` is ``+``, ``-``, a space, or ``@`` for what is skipped."""

    sign: str
    text: str


def compare_texts(old: str, new: str) -> list[DiffLine] | None:
    """Return the lines that differ, with three around them; None when the texts are too long."""
    before, after = old.splitlines(), new.splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return None
    lines = list(difflib.unified_diff(before, after, lineterm="", n=3))[2:]
    return [_diff_line(line) for line in lines]


def _diff_line(line: str) -> DiffLine:
    if not line.startswith("@"):
        return DiffLine(line[0], line[1:])
    number = line.split(" ")[2].partition(",")[0]
    return DiffLine("@", f"from line {number.lstrip('+')}")
