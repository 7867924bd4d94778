"""An object of S3 being written: held back, or sent in parts.

Bytes that wait for their object to be sent: in memory, and on disk where that is too much.
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


HELD_BYTES = 32 << 20
"""What all objects on their way from this process hold in memory."""
_SENT_BYTES = 1 << 20


class _Budget:
    """Counts what is held, by any thread; those that go to disk share one file."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0
        self._changing = threading.RLock()
        self.spill = Spill()

    def change(self, by: int) -> bool:
        """Add to what is held; tell whether that is too much."""
        with self._changing:
            self._held += by
            return self._held > self._limit


BUDGET = _Budget(HELD_BYTES)


class HeldBytes:
    """The bytes of one object until it is sent; a file that is read, for http.client.

    That asks for little and takes what it is given, here about 1 MiB.
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
        self.clear()  # of a writer that was dropped

    def add(self, data: bytes) -> None:
        """Take bytes; where all objects hold too much by now, this one's go to disk."""
        self._body.add(data)
        if self._budget.change(len(data)):
            self._to_disk()

    def to_send(self) -> bytes | HeldBytes:
        """Return what to give to a request: bytes where they are one piece, else a file."""
        self.seek(0)
        piece = self._body.only_piece()
        return self if piece is None else piece

    def clear(self) -> None:
        """Forget everything."""
        self._budget.change(-self._body.in_memory)
        self._body.drop()
        self.seek(0)

    def _to_disk(self) -> None:
        freed = self._body.in_memory
        self._body.to_disk()
        self._budget.change(-freed)

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, about 1 MiB; all that are left when no size was asked for."""
        found, length = [], 0
        while length < _SENT_BYTES or size < 0:
            piece = next(self._rest, None)
            if piece is None:
                break
            found.append(piece)
            length += len(piece)
        self._read += length
        return b"".join(found)

    def seek(self, position: int, whence: int = 0) -> int:
        """Go to the beginning or to the end: nobody asks for anything else."""
        if position or whence == 1:
            raise OSError("only the beginning and the end can be gone to")
        self._rest = iter(()) if whence else iter(self._body)
        self._read = len(self) if whence else 0
        return self._read

    def tell(self) -> int:
        """Tell where in the file it is."""
        return self._read


UPLOAD_MARK = "kafkeep-upload"
_GRANT = "Grant s3:ListBucketMultipartUploads and s3:AbortMultipartUpload on the bucket."
PART_BYTES = 16 * 1024 * 1024


class S3Writer:
    """One object on its way to S3.

    Up to ``multipart_from`` bytes it is held, and one conditional PUT at ``finish``; beyond that it
    goes up in parts as it is written, and ``finish`` is the conditional completion. Each writer
    marks its object, so after a lost answer it knows its own from another's with one HEAD.
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
        self._held = HeldBytes()
        self._digests = Digests(md5=options.send_digest)
        self._size = 0
        self._parts: PartsUpload | None = None
        self._options = options
        self._sent = False
        self._visible = False
        self._finished = False

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes; those that cannot change are held as they are, not copied."""
        view = memoryview(data).cast("B")
        self._size += len(view)
        if self._parts is None and self._size > self._multipart_from:
            self._begin_parts()
        if self._parts is not None:
            self._parts.add(view)
        elif view:
            self._digests.update(view)
            self._held.add(data if isinstance(data, bytes) else bytes(view))

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible whole, or raise KeyExistsError if another's is there.

        May be called again after TransientError.
        """
        if self._finished:
            return
        joined, checked_tags = {**self._metadata, **check_metadata(metadata)}, check_tags(tags)
        if not self._visible:
            self._make_visible(joined, checked_tags)
        if checked_tags and self._parts is not None:
            # An upload in parts was begun before these were known.
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
        self._held.clear()

    def abort(self) -> None:
        """Forget what was written; an upload in parts is ended at the store."""
        if self._finished:
            return
        self._finished = True
        self._held.clear()
        if self._parts is not None and not self._visible:
            self._parts.abort()

    def _send(self, metadata: dict[str, str], tags: dict[str, str]) -> None:
        if self._parts is not None:
            self._parts.complete()
            return
        self._store.put_body(self._key, self._held.to_send(), metadata, self._digests, tags)

    def _is_ours(self, error: KafkeepError) -> bool:
        """Tell whether an earlier attempt made the object, though this one met ``error``."""
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
        for piece in self._held:
            self._parts.add(memoryview(piece))
        self._held.clear()


class PartsUpload:
    """A multipart upload: each part checksummed and repeated until it is there."""

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
        """Add bytes; whole parts go up."""
        while len(self._buffer) + len(data) >= (
            part_bytes := part_size(len(self._done), self._options.part_bytes)
        ):
            room = part_bytes - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            self._put_part()
        self._buffer += data

    def complete(self) -> None:
        """Make the object visible under the condition that none is there; may be called again."""
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
        """End the upload at the store; what cannot be ended is invisible, and left to gc."""
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
    """Yield the uploads in parts under the store's prefix that are not complete."""
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
        # SeaweedFS goes on by the upload's id alone.
        said = {name: page.get(f"Next{name}") for name in ("KeyMarker", "UploadIdMarker")}
        after = {**asked, **{name: value for name, value in said.items() if value}}
        if not page.get("IsTruncated") or after == asked:
            return
        asked = after


def part_size(done: int, bound: int | None) -> int:
    """Return the size of the next part after ``done`` of them.

    S3 takes at most 10,000 parts, so they grow: all along when no size was asked for, and else
    only past 9,000 of that size, which no ordinary object reaches.
    """
    if bound is None:
        return PART_BYTES * (1 + done // 1000) ** 2
    return bound if done < 9000 else min(bound * 2 ** (1 + (done - 9000) // 100), 5 * 1024**3)
