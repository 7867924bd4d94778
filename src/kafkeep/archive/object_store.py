"""The ``ObjectStore`` protocol: the operations of object storage that the archive needs.

``kafkeep.store`` implements it for S3, local folders and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafkeep.archive.names import KeyLimits


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object in a listing or the answer to a HEAD; only ``head`` fills ``metadata``."""

    key: str
    size_bytes: int
    modified_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """An unfinished upload: it takes up space, and its object is not visible."""

    id: str
    key: str
    """Empty when the store has no id for it, as for a temporary file."""
    touched_ms: int
    """When it began, or when it was last written to if the store reports that."""


@dataclass(frozen=True, slots=True)
class StrayFile:
    """A file in a folder that is not an object. Readers skip it, and kafkeep never removes it."""

    path: str
    """Its name for messages; bytes that are not UTF-8 are escaped."""
    reason: str
    """Why it is not an object, as the rest of a sentence: ``is a symbolic link …``."""


class ObjectWriter(Protocol):
    """An object that is being written; it becomes visible in ``finish``."""

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Memory use is bounded for objects of any size."""

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible whole, or raise KeyExistsError if the key is taken.

        ``metadata`` is added to that of ``create`` when the object fits into one request; larger
        objects have only that of ``create``. ``tags`` are set with the object, or right after it
        when it was uploaded in parts. The store's options say what happens when that fails.
        """

    def abort(self) -> None:
        """Discard what was written; safe to call at any time, also after ``finish``."""


class ObjectStore(Protocol):
    """Objects under string keys, created once and never replaced.

    Keys are relative to the archive's prefix and use ``/``. Every method may raise TransientError
    (safe to repeat), AccessDeniedError or NoSuchArchiveError (the bucket is missing).
    Implementations can be pickled and opened again in a task.
    """

    @property
    def key_limits(self) -> KeyLimits:
        """How long a key may be."""

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` whole or not at all; raise KeyExistsError if ``key`` is taken."""

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> ObjectWriter:
        """Begin an object of any size; ``finish`` is the conditional create."""

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; raise KeyMissingError when there is no object."""

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags; raise KeyMissingError when there is no object."""

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags; raise KeyMissingError when there is no object.

        For an adopted object whose writer died before it could tag it.
        """

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key begins with ``prefix``, past the key ``after``.

        Objects of one folder come in key order. Folders may come in another order (SeaweedFS sorts
        ``/`` first). Lazy: taking only the first row costs one request.
        """

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield files under ``prefix`` that cannot be objects; a bucket has none."""

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the names of the folders right under ``prefix``, which ends with ``/``.

        The cost depends on the number of folders, not on that of their objects.
        """

    def delete(self, key: str) -> None:
        """Remove an object; no error when there is none."""

    def uploads(self) -> Sequence[Upload]:
        """Return the unfinished uploads under the prefix, of any writer."""

    def end_upload(self, upload: Upload) -> None:
        """Discard an upload; no error when there is none.

        A writer that still uses it fails, and its object is not created.
        """

    def now_ms(self) -> int:
        """Return the time by the clock that sets ``modified_ms``."""

    def describe(self) -> str:
        """Return the address for messages, without credentials."""
