"""Write objects to a bucket: small ones in one request, large ones in parts.

The bytes of a small object are buffered until it is complete. They are in memory, or on disk when
all buffered objects together exceed the memory limit.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from kafkeep.archive.object_store import ObjectInfo, ObjectStore, ObjectWriter
from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    TransientError,
)
from kafkeep.failpoint import failpoint
from kafkeep.retry import RetryPolicy
from kafkeep.store.keys import check_metadata, check_tags
from kafkeep.store.spill import BufferedBytes

UPLOAD_MARK = "kafkeep-upload"
PART_BYTES = 16 * 1024 * 1024
log = logging.getLogger(__name__)


class BodyChecksum(Protocol):
    """The checksum of a body, in the form that the store verifies."""

    def update(self, data: memoryview, /) -> object:
        """Add bytes."""


class PartsRequests(Protocol):
    """The requests of one upload in parts. Each may be repeated after TransientError."""

    def put(self, body: bytes, *, last: bool) -> None:
        """Send the next part. The last one may be shorter, or empty."""

    def complete(self) -> None:
        """Create the object, or raise KeyExistsError if the key is taken."""

    def abort(self) -> None:
        """Discard the parts. Raise nothing: an upload that remains is invisible."""


@runtime_checkable
class UploadsInParts(ObjectStore, Protocol):
    """A store that can send an object in parts."""

    @property
    def uses_parts(self) -> bool:
        """Whether objects of ordinary size are sent in parts."""

    def create_in_parts(self, key: str) -> ObjectWriter:
        """Begin an object of any size that is sent in parts, to test the store."""


class WriterBackend(Protocol):
    """What a BucketWriter needs of its store."""

    @property
    def retry_policy(self) -> RetryPolicy:
        """The policy of the store's options, for parts."""

    def new_checksum(self) -> Any:
        """Return a BodyChecksum without bytes, for ``put_body``."""

    def put_body(
        self,
        key: str,
        body: bytes | BufferedBytes,
        metadata: Mapping[str, str],
        checksum: Any,
        tags: Mapping[str, str],
    ) -> None:
        """Create an object in one conditional request."""

    def begin_parts(self, key: str, metadata: Mapping[str, str]) -> PartsRequests:
        """Begin an upload in parts."""

    def part_bytes(self, done: int) -> int:
        """Return the size of the next part after ``done`` parts."""

    def head_all(self, key: str) -> tuple[dict[str, str], ObjectInfo]:
        """Return the metadata without the upload mark, and an info whose metadata includes it."""

    def tag_finished(self, key: str, tags: Mapping[str, str], retry: RetryPolicy) -> None:
        """Tag an object that was sent in parts."""


class BucketWriter:
    """Writes one object to a bucket.

    An object of up to ``parts_from`` bytes is buffered and sent at ``finish`` in one conditional
    request. A larger one is sent in parts while it is written, and ``finish`` completes the upload
    conditionally. Each writer marks its object. After a lost response, one request shows whether
    the object belongs to the writer.
    """

    def __init__(
        self, store: WriterBackend, key: str, metadata: dict[str, str], *, parts_from: int
    ) -> None:
        self._store = store
        self._key = key
        self._mark = uuid.uuid4().hex
        self._metadata = {**metadata, UPLOAD_MARK: self._mark}
        self._parts_from = parts_from
        self._buffered = BufferedBytes()
        self._checksum = store.new_checksum()
        self._size = 0
        self._parts: PartsUpload | None = None
        self._sent = False
        self._visible = False
        self._finished = False

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes. ``bytes`` objects are buffered without a copy."""
        view = memoryview(data).cast("B")
        self._size += len(view)
        if self._parts is None and self._size > self._parts_from:
            self._begin_parts()
        if self._parts is not None:
            self._parts.add(view)
        elif view:
            self._checksum.update(view)
            self._buffered.add(data if isinstance(data, bytes) else bytes(view))

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible. Raise KeyExistsError if another object has the key.

        The caller may call it again after TransientError.
        """
        if self._finished:
            return
        joined, checked_tags = {**self._metadata, **check_metadata(metadata)}, check_tags(tags)
        if not self._visible:
            self._make_visible(joined, checked_tags)
        if checked_tags and self._parts is not None:
            # An upload in parts begins before the tags are known.
            self._store.tag_finished(self._key, checked_tags, self._store.retry_policy)
        self._finished = True

    def _make_visible(self, metadata: dict[str, str], tags: dict[str, str]) -> None:
        try:
            self._send(metadata, tags)
        except KafkeepError as error:
            sent_before, self._sent = self._sent, True
            if not sent_before or not self._is_ours(error):
                if not isinstance(error, TransientError):
                    self.abort()
                raise
        self._visible = True
        self._buffered.clear()

    def abort(self) -> None:
        """Discard the written bytes, and an upload in parts at the store."""
        if self._finished:
            return
        self._finished = True
        self._buffered.clear()
        if self._parts is not None and not self._visible:
            self._parts.abort()

    def _send(self, metadata: dict[str, str], tags: dict[str, str]) -> None:
        if self._parts is not None:
            self._parts.complete()
            return
        self._store.put_body(self._key, self._buffered.to_send(), metadata, self._checksum, tags)

    def _is_ours(self, error: KafkeepError) -> bool:
        """Return whether an earlier attempt created the object, after ``error`` in this one."""
        try:
            info = self._store.head_all(self._key)[1]
        except KeyMissingError:
            if isinstance(error, KeyExistsError):
                said = f"{self._key} was said to be taken, but is not there"
                raise TransientError(said) from error
            return False
        return info.metadata.get(UPLOAD_MARK) == self._mark

    def _begin_parts(self) -> None:
        self._parts = PartsUpload(self._store, self._key, self._metadata)
        for chunk in self._buffered:
            self._parts.add(memoryview(chunk))
        self._buffered.clear()


class PartsUpload:
    """An upload in parts, which buffers one part. Each part is retried."""

    def __init__(self, store: WriterBackend, key: str, metadata: Mapping[str, str]) -> None:
        self._store = store
        self._key = key
        self._retry = store.retry_policy
        self._buffer = bytearray()
        self._done = 0
        self._sent_all = False
        self._requests = self._retry.call(
            f"beginning {key}", lambda _number: store.begin_parts(key, metadata)
        )

    def add(self, data: memoryview) -> None:
        """Add bytes and send complete parts."""
        while len(self._buffer) + len(data) >= (size := self._store.part_bytes(self._done)):
            room = size - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            self._put(last=False)
        self._buffer += data

    def complete(self) -> None:
        """Create the object conditionally. The caller may call it again."""
        if not self._sent_all:
            self._put(last=True)
            self._sent_all = True
        self._requests.complete()

    def abort(self) -> None:
        """Discard the upload at the store."""
        self._requests.abort()

    def _put(self, *, last: bool) -> None:
        body = bytes(self._buffer)
        what = f"sending part {self._done + 1} of {self._key}"
        self._retry.call(what, lambda _number: self._requests.put(body, last=last))
        self._done += 1
        self._buffer = bytearray()
        failpoint("object.part")


class TagFailures:
    """Decides what happens to an object whose tags the store refuses.

    The failure is logged, or raised when ``strict``.
    """

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def put(
        self, key: str, put: Callable[[Mapping[str, str]], None], tags: Mapping[str, str]
    ) -> None:
        """Create an object with tags, or without them if the store refuses the tags."""
        try:
            put(tags)
        except (AccessDeniedError, EnvironmentFault) as error:
            if self._strict or not tags:
                raise
            put({})
            self.report(key, error)

    def set(self, key: str, set_tags: Callable[[], None]) -> None:
        """Tag an object that exists."""
        try:
            set_tags()
        except (AccessDeniedError, EnvironmentFault) as error:
            self.report(key, error)

    def set_retrying(self, key: str, set_tags: Callable[[], None], retry: RetryPolicy) -> None:
        """Tag an object that was sent in parts."""
        try:
            retry.call(f"tagging {key}", lambda _number: set_tags())
        except TransientError as error:
            self.report(key, error)

    def report(self, key: str, error: KafkeepError) -> None:
        """Log that an object has no tags, or raise ``error``."""
        if self._strict:
            raise error
        log.warning("%s has no tags: %s", key, error.message)
