"""The schemas of a registry as a document of the archive.

It is stored as ``_kafkeep/<log>/schemas/<sha256>.json.zst``, and commits name it by that digest of
the document before compression. So a registry that does not change is stored once. docs/format.md
describes each field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kafkeep.archive.document import (
    FIRST_VERSION,
    as_dict,
    as_int,
    as_list,
    as_str,
    digest_of,
    dump_document,
    pack,
    read_intact,
    reading,
    unpack,
)
from kafkeep.archive.keys import schemas_key
from kafkeep.archive.object_store import ObjectStore
from kafkeep.errors import DamagedError, KeyExistsError, KeyMissingError

AVRO = "AVRO"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MORE = ("metadata", "ruleSet")


@dataclass(frozen=True, slots=True, order=True)
class SchemaReference:
    """A reference to another schema: its name in the text, and where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """The text of a schema and its references."""

    type: str
    text: str
    references: tuple[SchemaReference, ...] = ()
    more: str = ""
    """Metadata and rules of the schema in the registry, as one JSON text."""

    @classmethod
    def from_json(cls, answer: Mapping[str, Any]) -> RegisteredSchema:
        """Parse a registry's answer, which leaves out the type when it is Avro."""
        references = tuple(
            SchemaReference(as_str(one["name"]), as_str(one["subject"]), as_int(one["version"]))
            for one in answer.get("references") or ()
        )
        more = {name: answer[name] for name in _MORE if answer.get(name)}
        return cls(
            as_str(answer.get("schemaType") or AVRO),
            as_str(answer["schema"]),
            references,
            dump_document(more).decode() if more else "",
        )

    def to_json(self) -> dict[str, Any]:
        """Return the body that registers this schema."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type != AVRO:
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [
                {"name": one.name, "subject": one.subject, "version": one.version}
                for one in self.references
            ]
        return {**body, **(orjson.loads(self.more) if self.more else {})}


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject, and the schema id in its records."""

    version: int
    id: int
    deleted: bool = False
    """Soft-deleted: the registry still returns the schema for its id."""


@dataclass(frozen=True, slots=True)
class RegistrySubject:
    """The versions of a subject, in order. ``compatibility`` defaults to the registry's."""

    versions: tuple[SchemaVersion, ...]
    compatibility: str | None = None

    def find(self, version: int) -> SchemaVersion | None:
        """Return one version, or None."""
        return next((one for one in self.versions if one.version == version), None)


@dataclass(frozen=True, slots=True)
class SchemaSet:
    """All subjects and schemas of a registry."""

    subjects: Mapping[str, RegistrySubject] = field(default_factory=dict)
    schemas: Mapping[int, RegisteredSchema] = field(default_factory=dict)
    """By id."""
    compatibility: str | None = None

    def versions(self) -> list[tuple[str, SchemaVersion]]:
        """Return every version of every subject, sorted."""
        return [
            (name, one)
            for name, subject in sorted(self.subjects.items())
            for one in subject.versions
        ]


def schemas_digest(found: SchemaSet) -> str:
    """Return the digest that names the document; equal sets have equal digests."""
    return _digest(_schemas_to_json(found))


def save_schemas(store: ObjectStore, log: str, found: SchemaSet) -> str:
    """Store the document unless it exists, and return its digest."""
    document = _schemas_to_json(found)
    digest = _digest(document)
    try:
        store.put_new(schemas_key(log, digest), pack(document))
    except KeyExistsError:
        load_schemas(store, log, digest)  # raises if it is damaged
    return digest


def load_schemas(store: ObjectStore, log: str, digest: str) -> SchemaSet:
    """Return the schemas of a digest; DamagedError when they are missing or damaged."""
    key = schemas_key(log, digest)
    try:
        document = unpack(read_intact(store, key, lambda body: _is(body, key, digest)), key)
    except KeyMissingError as error:
        raise DamagedError(f"{key} is missing, but a commit names it") from error
    if _digest(document) != digest:
        raise DamagedError(f"{key} is damaged: its SHA-256 does not match its name")
    with reading(key):
        return _schemas_from_json(document)


def check_digest(text: str) -> str:
    """Return ``text`` if it is a SHA-256 in hex or empty, else raise ValueError."""
    if text and not _DIGEST.fullmatch(text):
        raise ValueError(f"{text!r:.80} is not a SHA-256")
    return text


def _is(body: bytes, key: str, digest: str) -> bool:
    try:
        return _digest(unpack(body, key)) == digest
    except DamagedError:
        return False


def _digest(document: Mapping[str, Any]) -> str:
    return digest_of(dump_document(document))


def _schemas_to_json(found: SchemaSet) -> dict[str, Any]:
    return {
        "version": FIRST_VERSION,
        "compatibility": found.compatibility,
        "subjects": {name: _subject_to_json(subject) for name, subject in found.subjects.items()},
        "schemas": {str(id): schema.to_json() for id, schema in found.schemas.items()},
    }


def _subject_to_json(subject: RegistrySubject) -> dict[str, Any]:
    document: dict[str, Any] = {
        "versions": [
            {"version": one.version, "id": one.id, **({"deleted": True} if one.deleted else {})}
            for one in subject.versions
        ]
    }
    if subject.compatibility is not None:
        document["compatibility"] = subject.compatibility
    return document


def _schemas_from_json(document: Mapping[str, Any]) -> SchemaSet:
    schemas = {
        int(id): RegisteredSchema.from_json(as_dict(one))
        for id, one in as_dict(document["schemas"]).items()
    }
    subjects = {
        name: _subject_from_json(as_dict(one))
        for name, one in as_dict(document["subjects"]).items()
    }
    for name, subject in subjects.items():
        for one in subject.versions:
            if one.id not in schemas:
                raise ValueError(f"schema {one.id} of {name} is missing")
    return SchemaSet(subjects, schemas, _text_or_none(document.get("compatibility")))


def _subject_from_json(document: Mapping[str, Any]) -> RegistrySubject:
    versions = tuple(
        SchemaVersion(as_int(one["version"]), as_int(one["id"]), one.get("deleted") is True)
        for one in as_list(document["versions"])
    )
    return RegistrySubject(versions, _text_or_none(document.get("compatibility")))


def _text_or_none(value: Any) -> str | None:
    return None if value is None else as_str(value)
