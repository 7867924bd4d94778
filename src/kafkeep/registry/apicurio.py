"""The import of Apicurio Registry, which is the only way to keep schema ids there.

The API accepts a zip in the format of its export: the text and a description of each schema, then
the versions that have it. It reports success even if it skips schemas, so callers must read the
registry afterwards. ``import_zip`` is pure. The other functions send requests.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from kafkeep.archive.schemas import RegisteredSchema, SchemaSet, SchemaVersion
from kafkeep.registry.client import Registry

BELOW = "/apis/"
"""The start of the path of every Apicurio API, including the one compatible with Confluent's."""
_INFO = "/apis/registry/v2/system/info"
_IMPORT = "/apis/registry/v2/admin/import"


def is_apicurio(registry: Registry) -> bool:
    """Return whether a registry is Apicurio and has version 2 of its API."""
    if BELOW not in registry.address:
        return False
    answer = registry.ask_beside(_INFO, below=BELOW)
    return isinstance(answer, dict) and "apicurio" in str(answer.get("name")).lower()


def import_versions(
    registry: Registry,
    found: SchemaSet,
    versions: Sequence[tuple[str, SchemaVersion]],
    newest: Mapping[str, int],
    at_ms: int,
) -> None:
    """Import some versions of ``found``, in this order, with their ids.

    ``newest`` is the last version of each subject after the import.
    """
    headers = {
        "Content-Type": "application/zip",
        "Accept": "*/*",
        "X-Registry-Preserve-ContentId": "true",
        "X-Registry-Preserve-GlobalId": "false",
    }
    registry.send(_IMPORT, import_zip(found, versions, newest, at_ms), headers, below=BELOW)


def import_zip(
    found: SchemaSet,
    versions: Sequence[tuple[str, SchemaVersion]],
    newest: Mapping[str, int],
    at_ms: int,
) -> bytes:
    """Return the zip for the import. Pure.

    Each schema must follow its references, because Apicurio hashes schemas as it reads the zip.
    """
    out = io.BytesIO()
    written: set[int] = set()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for subject, one in versions:
            schema = found.schemas[one.id]
            if one.id not in written:
                written.add(one.id)
                content = _content(one.id, schema)
                file.writestr(f"content/{content['contentHash']}.Content.json", _json(content))
                file.writestr(f"content/{content['contentHash']}.Content.data", schema.text)
            path = f"groups/default/artifacts/{subject}/versions/{one.version}"
            latest = one.version == newest[subject]
            version = _version(subject, one, schema.type, latest=latest, at_ms=at_ms)
            file.writestr(f"{path}.ArtifactVersion.json", _json(version))
    return out.getvalue()


def _content(id: int, schema: RegisteredSchema) -> dict[str, Any]:
    references = _serialized(schema)
    body = schema.text.encode() + (references or "").encode()
    return {
        "contentId": id,
        "canonicalHash": None,
        "contentHash": hashlib.sha256(body).hexdigest(),
        "artifactType": schema.type,
        "serializedReferences": references,
    }


def _serialized(schema: RegisteredSchema) -> str | None:
    """Return references as Apicurio writes them. The hash of a schema covers these bytes."""
    if not schema.references:
        return None
    rows: Iterable[Mapping[str, Any]] = [
        {
            "groupId": None,
            "artifactId": one.subject,
            "version": str(one.version),
            "name": one.name,
        }
        for one in schema.references
    ]
    return orjson.dumps(list(rows)).decode()


def _version(
    subject: str, one: SchemaVersion, kind: str, *, latest: bool, at_ms: int
) -> dict[str, Any]:
    return {
        "globalId": -1,
        "groupId": None,
        "artifactId": subject,
        "version": str(one.version),
        "versionId": one.version,
        "artifactType": kind,
        "state": "DISABLED" if one.deleted else "ENABLED",
        "name": None,
        "description": None,
        "createdBy": "",
        "createdOn": at_ms,
        "labels": None,
        "properties": None,
        "isLatest": latest,
        "contentId": one.id,
    }


def _json(document: Mapping[str, Any]) -> bytes:
    return orjson.dumps(document)
