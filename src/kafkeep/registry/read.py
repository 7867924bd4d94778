"""Read all schemas of a registry, for a backup and before a restore."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

from kafkeep.archive.schemas import RegisteredSchema, RegistrySubject, SchemaSet, SchemaVersion
from kafkeep.errors import TransientError, UsageError
from kafkeep.registry.apicurio import is_apicurio
from kafkeep.registry.client import CONNECTIONS, Registry

logger = logging.getLogger(__name__)
NONE = "NONE"
MOST_SUBJECTS = 1000
"""Apicurio lists no more than so many by default, and does not say that it left some out."""
_CONTEXT = ":."


class RegistryReader:
    """Reads a registry repeatedly, and each schema only once.

    The schema of a version changes only when the version and all later ones are deleted for good
    and registered anew. So the last version of each subject is always read again.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._apicurio: bool | None = None
        self._known: dict[tuple[str, int], tuple[int, RegisteredSchema]] = {}

    def check(self) -> None:
        """Raise UsageError when it is no registry, TransientError when it does not answer."""
        self._subjects()

    def read(self) -> SchemaSet:
        """Return all subjects and schemas, with several requests at a time.

        Changes during the call may or may not be included. Every schema that existed before the
        call is included unless it is deleted. UsageError when it is no registry.
        """
        if self._apicurio is None:
            self._apicurio = is_apicurio(self._registry)
        names = self._subjects()
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
        return SchemaSet(subjects, schemas, self._compatibility(""))

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
        path = f"/subjects/{quote(name, safe='')}/versions"
        every = sorted(self._registry.ask("GET", f"{path}?deleted=true") or [])
        active = set(self._registry.ask("GET", path) or []) if every else set()
        versions, schemas, unread = [], {}, 0
        for number in every:
            found = self._version(name, number, fresh=number == every[-1])
            if found is None:
                unread += 1
                continue
            id, schema = found
            schemas[id] = schema
            versions.append(SchemaVersion(number, id, number not in active))
        if unread:
            logger.warning(
                "%s: %d versions are listed, but cannot be read: they are left out", name, unread
            )
        return RegistrySubject(tuple(versions), self._compatibility(name)), schemas

    def _version(
        self, name: str, number: int, *, fresh: bool
    ) -> tuple[int, RegisteredSchema] | None:
        key = name, number
        if fresh or key not in self._known:
            path = f"/subjects/{quote(name, safe='')}/versions/{number}?deleted=true"
            answer = self._registry.ask("GET", path)
            if answer is None:  # deleted for good meanwhile, or unreadable
                return None
            self._known[key] = _parse(answer, name)
        return self._known[key]

    def _compatibility(self, subject: str) -> str | None:
        path = f"/config/{quote(subject, safe='')}" if subject else "/config"
        answer = self._registry.ask("GET", path)
        level = (answer or {}).get("compatibilityLevel")
        if subject and self._apicurio and level == NONE:
            return None  # its answer for a subject without a level of its own is the same
        return level


def _parse(answer: Mapping[str, Any], name: str) -> tuple[int, RegisteredSchema]:
    try:
        return int(answer["id"]), RegisteredSchema.from_json(answer)
    except (KeyError, TypeError, ValueError) as error:
        raise TransientError(f"the schema registry's answer about {name} is no schema") from error


def _keys(subjects: Mapping[str, RegistrySubject]) -> set[tuple[str, int]]:
    return {(name, one.version) for name, s in subjects.items() for one in s.versions}
