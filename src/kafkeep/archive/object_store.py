"""The ``ObjectStore`` protocol: what the archive needs of object storage.

``kafkeep.store`` implements it for S3, local folders and memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kafkeep.archive.names import KeyLimits


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What a listing or a HEAD tells of one object; ``metadata`` is filled by ``head`` alone."""

    key: str
    size_bytes: int
    modified_ms: int
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Upload:
    """An object that was begun and is not finished: it takes up room, and nobody sees it."""

    id: str
    key: str
    """Empty where the store does not tell: a file aside has a name of its own."""
    touched_ms: int
    """When it was begun, or last written to where the store tells that."""


@dataclass(frozen=True, slots=True)
class Stray:
    """Something in a folder that is no object; readers pass over it, and nobody removes it."""

    path: str
    """Fit for a message: bytes of its name that are not UTF-8 are escaped."""
    reason: str
    """The rest of a sentence about it: ``is a symbolic link …``."""


class ObjectWriter(Protocol):
    """One object being written; nothing is visible under its key before ``finish``."""

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes. Memory stays bounded whatever the object's size."""

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible whole, or raise KeyExistsError if the key is taken.

        ``metadata`` joins that of ``create`` for objects sent in one request; larger ones carry
        what ``create`` was given alone. ``tags`` come with the object, or right after it when it
        went up in parts; what happens when they cannot be set is for the store's options to say.
        """

    def abort(self) -> None:
        """Forget what was written; safe to call at any time, also after ``finish``."""


class ObjectStore(Protocol):
    """Objects under string keys, created once and never replaced.

    Keys are relative to the archive's prefix and use ``/``. Every method may raise TransientError
    (safe to repeat), AccessDeniedError or NoSuchArchiveError (the bucket is missing).
    Implementations can be pickled and opened again in a task.
    """

    @property
    def key_limits(self) -> KeyLimits:
        """How long a key may be; a longer one is refused."""

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
        """Begin an object too large to hold in memory; ``finish`` is the conditional create."""

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``; raise KeyMissingError when there is no object."""

    def head(self, key: str) -> ObjectInfo:
        """Tell size, time and metadata, or raise KeyMissingError."""

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags, none for most; raise KeyMissingError when there is no object."""

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Give an object these tags instead of those it has; raise KeyMissingError without one.

        For an object adopted from an attempt that died before it could tag it.
        """

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects whose key begins with ``prefix``, past the key ``after``.

        Inside one folder they come in key order; folders may come in another order than their
        names (SeaweedFS sorts ``/`` first). Lazy: taking only the first row costs one request.
        """

    def strays(self, prefix: str) -> Iterator[Stray]:
        """Yield what lies under ``prefix`` and cannot be an object; a bucket has none."""

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the names of the folders right under ``prefix``, which ends with ``/``.

        Costs by the number of folders, not of the objects in them.
        """

    def delete(self, key: str) -> None:
        """Remove an object; no error when there is none."""

    def uploads(self) -> Sequence[Upload]:
        """Return what was begun under the prefix and is not finished, by whomever."""

    def end_upload(self, upload: Upload) -> None:
        """Forget an upload; no error when there is none.

        A writer that is still at it fails: its object is not made.
        """

    def now_ms(self) -> int:
        """Return the time by the clock that objects are stamped with."""

    def describe(self) -> str:
        """Return the address, fit for a message: no credentials."""
