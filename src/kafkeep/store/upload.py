"""An object of S3 being written: in memory, then on disk or in parts."""

from __future__ import annotations

import base64
import tempfile
import uuid
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any

from kafkeep.errors import KafkeepError, KeyExistsError, KeyMissingError, TransientError
from kafkeep.store.keys import check_metadata, encode_metadata
from kafkeep.store.retry import RetryPolicy

if TYPE_CHECKING:
    from kafkeep.store.s3 import S3Store

UPLOAD_MARK = "kafkeep-upload"
PART_BYTES = 16 * 1024 * 1024
_READ_BYTES = 1024 * 1024
_IN_MEMORY = 32 * 1024 * 1024


class S3Writer:
    """One object on its way to S3.

    Up to ``multipart_from`` bytes it is one conditional PUT, at ``finish``; beyond that it goes up
    in parts as it is written, and ``finish`` is the conditional completion. Each writer marks its
    object, so after a lost answer it knows its own from another's with one HEAD.
    """

    def __init__(
        self,
        store: S3Store,
        key: str,
        metadata: dict[str, str],
        *,
        multipart_from: int,
        retry: RetryPolicy | None = None,
    ) -> None:
        self._store = store
        self._key = key
        self._mark = uuid.uuid4().hex
        self._metadata = {**metadata, UPLOAD_MARK: self._mark}
        self._multipart_from = multipart_from
        # SpooledTemporaryFile moves to disk by itself: memory stays bounded.
        self._spool: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._crc = 0
        self._size = 0
        self._parts: PartsUpload | None = None
        self._retry = retry or RetryPolicy()
        self._sent = False
        self._finished = False

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        view = memoryview(data).cast("B")
        self._size += len(view)
        if self._parts is None and self._size > self._multipart_from:
            self._begin_parts()
        if self._parts is not None:
            self._parts.add(view)
        else:
            self._spool.write(view)
            self._crc = zlib.crc32(view, self._crc)

    def finish(self, metadata: Mapping[str, str] | None = None) -> None:
        """Make the object visible whole, or raise KeyExistsError if another's is there.

        May be called again after TransientError.
        """
        if self._finished:
            return
        joined = {**self._metadata, **check_metadata(metadata)}
        try:
            self._send(joined)
        except KafkeepError as error:
            sent_before, self._sent = self._sent, True
            if not sent_before or not self._is_ours(error):
                if not isinstance(error, TransientError):
                    self.abort()
                raise
        self._finished = True
        self._spool.close()

    def abort(self) -> None:
        """Forget what was written; an upload in parts is ended at the store."""
        if self._finished:
            return
        self._finished = True
        self._spool.close()
        if self._parts is not None:
            self._parts.abort()

    def _send(self, metadata: dict[str, str]) -> None:
        if self._parts is not None:
            self._parts.complete()
            return
        self._spool.seek(0)
        body: Any = self._spool.read() if self._size <= _IN_MEMORY else LargeReads(self._spool)
        self._store.put_body(self._key, body, metadata, self._crc)

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
        self._parts = PartsUpload(self._store, self._key, self._metadata, self._retry)
        self._spool.seek(0)
        while chunk := self._spool.read(PART_BYTES):
            self._parts.add(memoryview(chunk))
        self._spool.close()


class LargeReads:
    """A file for http.client, which asks for 16 KiB at a time and takes what it is given."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Return at least ``size`` bytes where there are so many, and up to 1 MiB."""
        return self._file.read(max(size, _READ_BYTES) if size >= 0 else size)

    def seek(self, position: int, whence: int = 0) -> int:
        """Move in the file."""
        return self._file.seek(position, whence)

    def tell(self) -> int:
        """Tell where in the file it is."""
        return self._file.tell()


class PartsUpload:
    """A multipart upload: each part checksummed and repeated until it is there."""

    def __init__(
        self, store: S3Store, key: str, metadata: dict[str, str], retry: RetryPolicy
    ) -> None:
        self._store = store
        self._key = key
        self._retry = retry
        self._buffer = bytearray()
        self._done: list[dict[str, Any]] = []
        self._upload = retry.call(f"beginning {key}", lambda _number: self._begin(metadata))

    def add(self, data: memoryview) -> None:
        """Add bytes; whole parts go up."""
        # S3 takes at most 10,000 parts: they grow, so that 5 TiB fit.
        part_bytes = PART_BYTES * (1 + len(self._done) // 1000) ** 2
        while len(self._buffer) + len(data) >= part_bytes:
            room = part_bytes - len(self._buffer)
            self._buffer += data[:room]
            data = data[room:]
            self._put_part()
        self._buffer += data

    def complete(self) -> None:
        """Make the object visible under the condition that none is there; may be called again."""
        if self._buffer:
            self._put_part()
        with self._store.faults(f"creating {self._key}", writes=True):
            self._store.client.complete_multipart_upload(
                **self._where(), MultipartUpload={"Parts": self._done}, IfNoneMatch="*"
            )

    def abort(self) -> None:
        """End the upload at the store; what cannot be ended is invisible, and left to gc."""
        with suppress(KafkeepError), self._store.faults(f"giving up {self._key}"):
            self._store.client.abort_multipart_upload(**self._where())

    def _begin(self, metadata: dict[str, str]) -> str:
        self._store.require_bucket()
        with self._store.faults(f"beginning {self._key}"):
            answer = self._store.client.create_multipart_upload(
                **self._store.where(self._key),
                Metadata=encode_metadata(metadata),
                ContentType="application/octet-stream",
                ChecksumAlgorithm="CRC32",
            )
        return str(answer["UploadId"])

    def _put_part(self) -> None:
        body = bytes(self._buffer)
        number = len(self._done) + 1
        crc = base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()

        def attempt(_number: int) -> dict[str, Any]:
            with self._store.faults(f"sending part {number} of {self._key}"):
                answer: dict[str, Any] = self._store.client.upload_part(
                    **self._where(), PartNumber=number, Body=body, ChecksumCRC32=crc
                )
                return answer

        answer = self._retry.call(f"sending part {number} of {self._key}", attempt)
        part = {"PartNumber": number, "ETag": answer["ETag"]}
        if "ChecksumCRC32" in answer:
            part["ChecksumCRC32"] = answer["ChecksumCRC32"]
        self._done.append(part)
        self._buffer = bytearray()

    def _where(self) -> dict[str, str]:
        return {**self._store.where(self._key), "UploadId": self._upload}
