"""The document of a restore makes it resumable, and its writes exactly once.

Each revision is an object of its own under ``_kafkeep/restores/<id>/``. It is created once, and the
newest counts, so a worker that was replaced notices it. A producer id is in the document before
the first batch is sent under it. Read and written on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import orjson

from kafkeep.archive.document import FIELD, check_checksum, dump_with_checksum, require_checksum
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import DocumentSequence
from kafkeep.errors import (
    AccessDeniedError,
    DamagedError,
    FencedError,
    NewerFormatError,
    PreflightError,
)
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

MAX_BYTES = 256 << 20
"""The maximum size of a document; readers stop here."""


def check_version(key: str, version: int, known: int) -> None:
    """Refuse a document of a newer kafkeep; TypeError if ``version`` is not a number."""
    if version > known:
        raise NewerFormatError(
            f"{key} has version {version}, this kafkeep supports {known}", hint="Update kafkeep."
        )


def revisions_in(store: ObjectStore, folder: str) -> DocumentSequence:
    """Return the revisions of the state of a following restore."""
    return DocumentSequence(store=store, folder=folder, max_bytes=MAX_BYTES, is_pruned=True)


def load_newest(revisions: DocumentSequence) -> tuple[bytes, str] | None:
    """Return the newest revision and its key, or None when there is none."""
    newest = revisions.newest()
    return None if newest < 0 else (revisions.read(newest), revisions.key(newest))


def save_revision(revisions: DocumentSequence, revision: int, body: bytes) -> None:
    """Create a revision; FencedError if another worker created it first."""
    is_ours = revisions.create(revision, body).is_ours
    # A pruned number is free again, but then a newer revision exists.
    if not is_ours or next(revisions.iter_numbers(after=revision), None) is not None:
        raise FencedError(
            "another worker runs this connector",
            hint="Only one worker runs a connector at a time; this worker has stopped.",
        )


VERSION = 2
"""Version 2 added a checksum; readers of version 1 refuse unknown fields."""
FOLDER = "_kafkeep/restores"


class Phase(StrEnum):
    """The phase that a restore has reached."""

    PREPARING = "preparing"
    WRITING = "writing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """One target partition: its first record is at ``base``, under one producer id."""

    base: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Target:
    """One target topic; ``topic_id`` and ``partitions`` are empty while preparing.

    ``settings`` are put back at the end: the archived ones, or for a topic that was there
    before, its own.
    """

    source: str
    incarnation: int
    topic: str
    existed: bool
    settings: Mapping[str, str]
    topic_id: str = ""
    partitions: tuple[TargetPartition, ...] = ()
    done: bool = False
    """True if it is restored, while other targets were deleted and are created again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDocument:
    """One revision of the document."""

    id: str
    revision: int
    phase: Phase
    log: str
    commit: int
    cluster_id: str
    at_ms: int
    targets: tuple[Target, ...]
    asked: Mapping[str, Any] = field(default_factory=dict)
    """The selection and the routing; a later comparison reads them."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """The changes in the schema registry, and the new ids of records."""
    lost: tuple[Mapping[str, Any], ...] = ()
    """Offsets that were left out, set when the restore is done; since version 2."""

    def next(self, phase: Phase, *, at_ms: int, targets: tuple[Target, ...]) -> RestoreDocument:
        """Return the following revision."""
        return replace(self, revision=self.revision + 1, phase=phase, at_ms=at_ms, targets=targets)

    def target(self, topic: str) -> Target | None:
        """Return the target of that name, if the restore has it."""
        return next((target for target in self.targets if target.topic == topic), None)


_OLDER_FIELDS = ("version", *(one.name for one in fields(RestoreDocument)))


def open_documents(state: str | None, storage: StorageOptions, archive: ObjectStore) -> ObjectStore:
    """Return the store of restore documents: ``state`` if given, else the archive."""
    return open_store(state, storage, create=True) if state else archive


def documents_of(store: ObjectStore, id: str) -> DocumentSequence:
    """Return the revisions of a restore's document."""
    return DocumentSequence(store=store, folder=f"{FOLDER}/{id}/", digits=6, max_bytes=MAX_BYTES)


def save_document(store: ObjectStore, document: RestoreDocument) -> None:
    """Create a revision; PreflightError if another run of the same restore created it first."""
    body = dump_with_checksum({"version": VERSION, **asdict(document)})
    try:
        if documents_of(store, document.id).try_create(document.revision, body):
            return
    except AccessDeniedError as error:
        raise AccessDeniedError(
            f"the restore's document cannot be written: {error.message}",
            hint="Set --state to keep it outside of a read-only archive.",
        ) from error
    raise PreflightError(
        "another run of this restore is in progress",
        hint="Wait for it to end, then run the same command to check or resume it.",
    )


def load_document(store: ObjectStore, id: str) -> RestoreDocument | None:
    """Return the newest revision, or None if this restore never started."""
    newest = load_newest(documents_of(store, id))
    return None if newest is None else _parse(*newest)


def _parse(body: bytes, key: str) -> RestoreDocument:
    try:
        check_checksum(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        require_checksum(body, document, key, _OLDER_FIELDS)
        del document["version"]
        document.pop(FIELD, None)
        targets = tuple(
            Target(
                **{
                    **target,
                    "partitions": tuple(TargetPartition(**p) for p in target["partitions"]),
                }
            )
            for target in document.pop("targets")
        )
        changed = {"phase": Phase(document["phase"]), "lost": tuple(document.get("lost", ()))}
        return RestoreDocument(**{**document, **changed}, targets=targets)
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"{key} is not a restore's document: {error}") from error
