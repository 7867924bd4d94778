"""Write objects to S3: small ones in one request, large ones in parts.

The bytes of a small object are buffered until it is complete. They are in memory, or on disk when
all buffered objects together exceed the memory limit.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkeep.archive.object_store import Upload
from kafkeep.errors import (
    AccessDeniedError,
    KafkeepError,
    KeyExistsError,
    KeyMissingError,
    TransientError,
)
from kafkeep.failpoint import failpoint
from kafkeep.options.storage import StorageOptions
from kafkeep.store.keys import check_metadata, check_tags, encode_metadata
from kafkeep.store.retry import store_policy
from kafkeep.store.s3_client import Digests
from kafkeep.store.s3_errors import field
from kafkeep.store.spill import Body, Spill

if TYPE_CHECKING:
    from kafkeep.store.s3 import S3Store


BUFFERED_BYTES = 32 << 20
"""The memory limit for all buffered objects of this process."""
_READ_BYTES = 1 << 20


class _Budget:
    """Counts the buffered bytes of all threads, which share one file on disk."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._buffered = 0
        self._changing = threading.RLock()
        self.spill = Spill()

    def change(self, by: int) -> bool:
        """Add to the buffered bytes. Return whether they exceed the limit."""
        with self._changing:
            self._buffered += by
            return self._buffered > self._limit


BUDGET = _Budget(BUFFERED_BYTES)


class BufferedBytes:
    """The buffered bytes of one object, which http.client reads as a file.

    ``read`` returns about 1 MiB. http.client asks for less, but sends all it gets.
    """

    def __init__(self, budget: _Budget = BUDGET) -> None:
        self._budget = budget
        self._body = Body(budget.spill)
        self._rest: Iterator[bytes] = iter(())
        self._read = 0

    def __len__(self) -> int:
        return self._body.size

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._body)

    def __del__(self) -> None:
        self.clear()  # in case the writer was dropped without abort

    def add(self, data: bytes) -> None:
        """Add bytes. Move this object to disk when all objects together exceed the limit."""
        self._body.add(data)
        if self._budget.change(len(data)):
            self._to_disk()

    def to_send(self) -> bytes | BufferedBytes:
        """Return the body of a request: a single chunk as bytes, or else this file."""
        self.seek(0)
        chunk = self._body.single_chunk()
        return self if chunk is None else chunk

    def clear(self) -> None:
        """Discard all bytes."""
        self._budget.change(-self._body.in_memory)
        self._body.drop()
        self.seek(0)

    def _to_disk(self) -> None:
        freed = self._body.in_memory
        self._body.to_disk()
        self._budget.change(-freed)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, about 1 MiB, or the rest when ``size`` is negative."""
        found, length = [], 0
        while length < _READ_BYTES or size < 0:
            chunk = next(self._rest, None)
            if chunk is None:
                break
            found.append(chunk)
            length += len(chunk)
        self._read += length
        return b"".join(found)

    def seek(self, position: int, whence: int = 0) -> int:
        """Seek to the beginning or to the end. http.client needs nothing else."""
        if position or whence == 1:
            raise OSError("can only seek to the beginning and the end")
        self._rest = iter(()) if whence else iter(self._body)
        self._read = len(self) if whence else 0
        return self._read

    def tell(self) -> int:
        """Return the position in the file."""
        return self._read


UPLOAD_MARK = "kafkeep-upload"
_GRANT = "Grant s3:ListBucketMultipartUploads and s3:AbortMultipartUpload on the bucket."
PART_BYTES = 16 * 1024 * 1024


class S3Writer:
    """Writes one object to S3.

    An object of up to ``multipart_from`` bytes is buffered and sent at ``finish`` in one
    conditional PUT. A larger one is sent in parts while it is written, and ``finish`` completes the
    upload conditionally. Each writer marks its object. After a lost response, one HEAD request
    shows whether the object belongs to the writer.
    """

    def __init__(
        self,
        store: S3Store,
        key: str,
        metadata: dict[str, str],
        *,
        multipart_from: int,
        options: StorageOptions,
    ) -> None:
        self._store = store
        self._key = key
        self._mark = uuid.uuid4().hex
        self._metadata = {**metadata, UPLOAD_MARK: self._mark}
        self._multipart_from = multipart_from
        self._buffered = BufferedBytes()
        self._digests = Digests(md5=options.send_digest)
        self._size = 0
        self._parts: PartsUpload | None = None
        self._options = options
        self._sent = False
        self._visible = False
        self._finished = False

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes. ``bytes`` objects are buffered without a copy."""
        view = memoryview(data).cast("B")
        self._size += len(view)
        if self._parts is None and self._size > self._multipart_from:
            self._begin_parts()
        if self._parts is not None:
            self._parts.add(view)
        elif view:
            self._digests.update(view)
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
            # A multipart upload begins before the tags are known.
            self._store.tag_finished(self._key, checked_tags, store_policy(self._options))
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
        """Discard the written bytes, and abort a multipart upload at the store."""
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
        self._store.put_body(self._key, self._buffered.to_send(), metadata, self._digests, tags)

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
        self._parts = PartsUpload(self._store, self._key, self._metadata, self._options)
        for chunk in self._buffered:
            self._parts.add(memoryview(chunk))
        self._buffered.clear()


class PartsUpload:
    """A multipart upload. Each part has a checksum and is retried."""

    def __init__(
        self, store: S3Store, key: str, metadata: dict[str, str], options: StorageOptions
    ) -> None:
        self._store = store
        self._key = key
        self._options = options
        self._retry = store_policy(options)
        self._buffer = bytearray()
        self._done: list[dict[str, Any]] = []
        self._upload = self._retry.call(f"beginning {key}", lambda _number: self._begin(metadata))

    def add(self, data: memoryview) -> None:
        """Add bytes and send complete parts."""
        while len(self._buffer) + len(data) >= (
            part_bytes := part_size(len(self._done), self._options.part_bytes)
        ):
            room = part_bytes - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            self._put_part()
        self._buffer += data

    def complete(self) -> None:
        """Create the object conditionally. The caller may call it again."""
        if self._buffer:
            self._put_part()
        what = f"creating {self._key}"
        with self._store.faults(what, writes=True):
            answer = self._store.client.complete_multipart_upload(
                **self._where(),
                **self._store.key_arguments(),
                MultipartUpload={"Parts": self._done},
                IfNoneMatch="*",
            )
        field(answer, "ETag", what, writes=True)

    def abort(self) -> None:
        """Abort the upload at the store. If that fails, it stays invisible until ``gc``."""
        with suppress(KafkeepError), self._store.faults(f"giving up {self._key}"):
            self._store.client.abort_multipart_upload(**self._where())

    def _begin(self, metadata: dict[str, str]) -> str:
        self._store.require_bucket()
        with self._store.faults(f"beginning {self._key}"):
            answer = self._store.client.create_multipart_upload(
                **self._store.where(self._key),
                **self._store.object_arguments(),
                Metadata=encode_metadata(metadata),
                ChecksumAlgorithm="CRC32",
            )
        return str(field(answer, "UploadId", f"beginning {self._key}"))

    def _put_part(self) -> None:
        body = bytes(self._buffer)
        number = len(self._done) + 1
        digests = Digests(md5=self._options.send_digest)
        digests.update(memoryview(body))
        arguments = {**self._where(), **self._store.key_arguments(), **digests.arguments()}

        def attempt(_number: int) -> dict[str, Any]:
            with self._store.faults(f"sending part {number} of {self._key}"):
                answer: dict[str, Any] = self._store.client.upload_part(
                    PartNumber=number, Body=body, **arguments
                )
                field(answer, "ETag", f"sending part {number} of {self._key}")
                return answer

        answer = self._retry.call(f"sending part {number} of {self._key}", attempt)
        part = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumCRC32" in answer:
            part["ChecksumCRC32"] = answer["ChecksumCRC32"]
        self._done.append(part)
        self._buffer = bytearray()
        failpoint("object.part")

    def _where(self) -> dict[str, str]:
        return {**self._store.where(self._key), "UploadId": self._upload}


def list_uploads(store: S3Store) -> Iterator[Upload]:
    """Yield the unfinished multipart uploads under the store's prefix."""
    bucket, prefix = store.where("").values()
    asked: dict[str, Any] = {"Bucket": bucket, "Prefix": prefix}
    while True:
        try:
            with store.faults(f"listing the unfinished uploads of bucket {bucket}"):
                page = store.client.list_multipart_uploads(**asked)
        except AccessDeniedError as error:
            raise AccessDeniedError(error.message, hint=_GRANT) from error
        field(page, "IsTruncated", f"listing the unfinished uploads of bucket {bucket}")
        for row in page.get("Uploads", []):
            began_ms = int(row["Initiated"].timestamp() * 1000)
            yield Upload(row["UploadId"], row["Key"].removeprefix(prefix), began_ms)
        # SeaweedFS sends only the upload's id as the marker.
        markers = {name: page.get(f"Next{name}") for name in ("KeyMarker", "UploadIdMarker")}
        after = {**asked, **{name: value for name, value in markers.items() if value}}
        if not page.get("IsTruncated") or after == asked:
            return
        asked = after


def part_size(done: int, bound: int | None) -> int:
    """Return the size of the next part after ``done`` parts.

    S3 accepts at most 10,000 parts, so parts grow. They grow steadily if the options set no size.
    Otherwise they grow only after 9,000 parts, which no ordinary object reaches.
    """
    if bound is None:
        return PART_BYTES * (1 + done // 1000) ** 2
    return bound if done < 9000 else min(bound * 2 ** (1 + (done - 9000) // 100), 5 * 1024**3)
