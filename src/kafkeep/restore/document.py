"""The document of a restore: what makes it resumable, and its writes exactly once.

Each revision is an object of its own under ``_kafkeep/restores/<id>/``, created once; the newest
one counts. A producer id is in the document before the first batch is sent under it.

Documents of restores: one object for each revision of what says how far one has come.

Each is created once, and the newest one counts: a worker that lost its place finds that it is late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

import orjson

from kafkeep.archive.document import FIELD, check_seal, check_whole, read_sound, seal
from kafkeep.archive.object_store import ObjectStore
from kafkeep.archive.sequence import iter_numbered
from kafkeep.errors import (
    AccessDeniedError,
    DamagedError,
    FencedError,
    KeyExistsError,
    NewerFormatError,
    PreflightError,
)
from kafkeep.options.storage import StorageOptions
from kafkeep.store.open import open_store

MAX_BYTES = 256 << 20
"""No document of a restore is larger; of a larger one no more than this is read."""


def check_version(key: str, version: int, known: int) -> None:
    """Refuse a document of a newer kafkeep by name; TypeError when ``version`` is no number."""
    if version > known:
        raise NewerFormatError(
            f"{key} has version {version}, this kafkeep knows {known}", hint="Update kafkeep."
        )


def load_newest(store: ObjectStore, folder: str) -> tuple[bytes, str] | None:
    """Return the newest revision and its key, or None when there is none."""
    newest = None
    for info in iter_numbered(store, folder):
        newest = info.key
    return None if newest is None else (read_sound(store, newest, max_bytes=MAX_BYTES), newest)


def save_revision(store: ObjectStore, folder: str, revision: int, body: bytes) -> None:
    """Create a revision. FencedError when another worker was faster."""
    key = revision_key(folder, revision)
    try:
        store.put_new(key, body)
    except KeyExistsError as error:
        if read_sound(store, key, max_bytes=MAX_BYTES) != body:
            raise _fenced() from error
    # An old number is free again once it was swept: then there is a newer one.
    if next(iter_numbered(store, folder, after=key), None) is not None:
        raise _fenced()


def sweep_revisions(store: ObjectStore, folder: str, revision: int, *, before_ms: int) -> None:
    """Delete those before ``revision`` that are older than ``before_ms``."""
    for info in list(iter_numbered(store, folder)):
        if info.key < revision_key(folder, revision) and info.modified_ms < before_ms:
            store.delete(info.key)


def revision_key(folder: str, revision: int) -> str:
    """Return where a revision lies."""
    return f"{folder}{revision:012d}.json"


def _fenced() -> FencedError:
    return FencedError(
        "another worker runs this connector",
        hint="A connector is run by one worker at a time; this one has stopped.",
    )


VERSION = 2
"""Since 2 it has a checksum; readers of 1 refuse a field they do not know."""
FOLDER = "_kafkeep/restores"


class Phase(StrEnum):
    """How far a restore has come."""

    PREPARING = "preparing"
    WRITING = "writing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """Where one partition's records go: the first at ``base``, under one producer id."""

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
    """Whether it was restored before the others, which were deleted since and are made anew."""


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
    """What was picked, and into what shape; for those who look at the target later."""
    schemas: Mapping[str, Any] = field(default_factory=dict)
    """What was done in a schema registry, and which ids records get; empty: nothing."""
    lost: tuple[Mapping[str, Any], ...] = ()
    """Offsets that were left out, once it is done; since version 2."""

    def next(self, phase: Phase, *, at_ms: int, targets: tuple[Target, ...]) -> RestoreDocument:
        """Return the following revision."""
        return replace(self, revision=self.revision + 1, phase=phase, at_ms=at_ms, targets=targets)

    def target(self, topic: str) -> Target | None:
        """Return the target of that name, if the restore has it."""
        return next((target for target in self.targets if target.topic == topic), None)


_UNSEALED = ("version", *(one.name for one in fields(RestoreDocument)))


def open_documents(state: str | None, storage: StorageOptions, archive: ObjectStore) -> ObjectStore:
    """Return where restores keep their documents: the archive, unless ``state`` says where."""
    return open_store(state, storage, create=True) if state else archive


def document_key(id: str, revision: int) -> str:
    """Return where a revision lies."""
    return f"{FOLDER}/{id}/{revision:06d}.json"


def save_document(store: ObjectStore, document: RestoreDocument) -> None:
    """Create a revision. PreflightError when another run of the same restore was faster."""
    body = seal({"version": VERSION, **asdict(document)})
    try:
        store.put_new(document_key(document.id, document.revision), body)
    except KeyExistsError as error:
        raise PreflightError(
            "another run of this restore is under way",
            hint="Wait for it to end, then run the same command to check or go on.",
        ) from error
    except AccessDeniedError as error:
        raise AccessDeniedError(
            f"the restore's document cannot be written: {error.message}",
            hint="Give --state FOLDER to keep it outside of a read-only archive.",
        ) from error


def load_document(store: ObjectStore, id: str) -> RestoreDocument | None:
    """Return the newest revision, or None when this restore was never begun."""
    newest = newest_document(store, id)
    if newest is None:
        return None
    return _parse(read_sound(store, newest, max_bytes=MAX_BYTES), newest)


def newest_document(store: ObjectStore, id: str) -> str | None:
    """Return the key of the newest revision, or None when there is none."""
    keys = [info.key for info in iter_numbered(store, f"{FOLDER}/{id}/", digits=6)]
    return max(keys, default=None)


def _parse(body: bytes, key: str) -> RestoreDocument:
    try:
        check_whole(body, key)
        document: dict[str, Any] = orjson.loads(body)
        check_version(key, document["version"], VERSION)
        check_seal(body, document, key, _UNSEALED)
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
