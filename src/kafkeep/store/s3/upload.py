"""The requests of a multipart upload to S3, and the list of unfinished ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from kafkeep.archive.object_store import Upload
from kafkeep.errors import AccessDeniedError, KafkeepError
from kafkeep.options.storage import StorageOptions
from kafkeep.store.bucket_writer import PART_BYTES
from kafkeep.store.keys import encode_metadata
from kafkeep.store.s3.client import Digests
from kafkeep.store.s3.errors import field

if TYPE_CHECKING:
    from kafkeep.store.s3.store import S3Store

_GRANT = "Grant s3:ListBucketMultipartUploads and s3:AbortMultipartUpload on the bucket."


class S3Parts:
    """A multipart upload. Each part has a checksum."""

    def __init__(
        self, store: S3Store, key: str, metadata: Mapping[str, str], options: StorageOptions
    ) -> None:
        self._store = store
        self._key = key
        self._options = options
        self._done: list[dict[str, Any]] = []
        self._upload = self._begin(metadata)

    def put(self, body: bytes, *, last: bool) -> None:
        """Send the next part."""
        if last and not body:
            return
        number = len(self._done) + 1
        what = f"sending part {number} of {self._key}"
        digests = Digests(md5=self._options.send_digest)
        digests.update(memoryview(body))
        arguments = {**self._where(), **self._store.key_arguments(), **digests.arguments()}
        with self._store.faults(what):
            answer = self._store.client.upload_part(PartNumber=number, Body=body, **arguments)
            part = {"PartNumber": number, "ETag": field(answer, "ETag", what)}
        if "ChecksumCRC32" in answer:
            part["ChecksumCRC32"] = answer["ChecksumCRC32"]
        self._done.append(part)

    def complete(self) -> None:
        """Create the object conditionally."""
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

    def _begin(self, metadata: Mapping[str, str]) -> str:
        self._store.require_bucket()
        with self._store.faults(f"beginning {self._key}"):
            answer = self._store.client.create_multipart_upload(
                **self._store.where(self._key),
                **self._store.object_arguments(),
                Metadata=encode_metadata(metadata),
                ChecksumAlgorithm="CRC32",
            )
        return str(field(answer, "UploadId", f"beginning {self._key}"))

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
