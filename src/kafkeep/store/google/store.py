"""An object store in a bucket of Google Cloud Storage. Needs ``kafkeep[gcs]``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlencode

from google.api_core.exceptions import NotFound, RequestRangeNotSatisfiable
from google.cloud.storage import Blob, Bucket

from kafkeep import clock
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import KeyExistsError, KeyMissingError, NoSuchArchiveError, TransientError
from kafkeep.options.storage import MIB, StorageOptions
from kafkeep.store.bucket_writer import PART_BYTES, UPLOAD_MARK
from kafkeep.store.cloud_store import CloudStore
from kafkeep.store.google.client import TIMEOUT_S, GoogleClient, client_of, google_request
from kafkeep.store.google.upload import CHUNK_BYTES, Crc32c, GoogleParts
from kafkeep.store.keys import (
    check_key,
    check_metadata,
    check_tags,
    decode_metadata,
    encode_metadata,
)
from kafkeep.store.spill import BufferedBytes

TAGS = "kafkeep-tags"
"""The metadata that holds tags, which objects of this store do not have."""
_PAGE = 1000
_ONCE: dict[str, Any] = {"timeout": TIMEOUT_S, "retry": None}


class GoogleStore(CloudStore):
    """An ObjectStore in a bucket. Large objects are resumable uploads."""

    scheme = "gs"
    single_request_bytes = 8 * MIB  # above, Google's library would begin a resumable upload itself

    def __init__(self, bucket: str, prefix: str, options: StorageOptions) -> None:
        super().__init__(bucket, prefix, options)
        self._seen_in: int | None = None

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` if there is no object. Raise KeyExistsError if ``key`` is taken."""
        if len(body) > self.single_request_bytes:
            writer = self.create(key, metadata)
            try:
                writer.write(body)
                writer.finish(tags=tags)
            finally:
                writer.abort()
            return
        checksum = self.new_checksum()
        checksum.update(memoryview(body))
        self.put_body(key, body, check_metadata(metadata), checksum, check_tags(tags))

    def put_body(
        self,
        key: str,
        body: bytes | BufferedBytes,
        metadata: Mapping[str, str],
        checksum: Crc32c,
        tags: Mapping[str, str],
    ) -> None:
        """Send bytes in one request, on the condition that there is no object."""
        check_key(key)
        self.require_bucket()
        data = body if isinstance(body, bytes) else b"".join(body)
        blob = self.new_blob(key, metadata, tags)
        blob.crc32c = checksum.encode()
        with google_request("PutObject", f"creating {key}", self._times, writes=True):
            blob.upload_from_file(
                BytesIO(data),
                size=len(data),
                content_type="application/octet-stream",
                if_generation_match=0,
                checksum=None,
                **_ONCE,
            )

    def new_blob(
        self, key: str, metadata: Mapping[str, str], tags: Mapping[str, str] | None = None
    ) -> Blob:
        """Return an object that does not exist yet, with its metadata."""
        blob = self._blob(key)
        labels = {TAGS: urlencode(tags)} if tags else {}
        blob.metadata = {**encode_metadata(metadata), **labels}
        return blob

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        found = self._reload(key).metadata or {}
        return dict(parse_qsl(found.get(TAGS, ""), keep_blank_values=True))

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags. The options decide whether to log or raise a refusal."""
        labels = urlencode(check_tags(tags))

        def put() -> None:
            found = self._reload(key)
            found.metadata = {**(found.metadata or {}), TAGS: labels}
            try:
                with google_request("PutObjectTagging", f"tagging {key}", self._times):
                    found.patch(if_metageneration_match=found.metageneration, **_ONCE)
            except KeyExistsError as error:
                raise TransientError(f"{key} was tagged by another writer meanwhile") from error

        self._tag_failures.set(key, put)

    def new_checksum(self) -> Crc32c:
        """Return the checksum of a body without bytes."""
        return Crc32c()

    def begin_parts(self, key: str, metadata: Mapping[str, str]) -> GoogleParts:
        """Begin a resumable upload."""
        self.require_bucket()
        return GoogleParts(self.new_blob(key, metadata), self.client, key, self._times)

    def part_bytes(self, done: int) -> int:
        """Return the size of each part but the last: a multiple of Google's chunks."""
        wanted = self._options.part_bytes or PART_BYTES
        return wanted // CHUNK_BYTES * CHUNK_BYTES

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self._misses(), google_request("GetObject", f"reading {key}", self._times):
            body: bytes = self._blob(key).download_as_bytes(raw_download=True, **_ONCE)
            return body

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, or fewer if the object ends earlier."""
        if end <= start:
            self.head(key)
            return b""
        what = f"reading {key} from {start} to {end}"
        with self._misses(), google_request("GetObject", what, self._times):
            try:
                body: bytes = self._blob(key).download_as_bytes(
                    start=start, end=end - 1, raw_download=True, **_ONCE
                )
            except RequestRangeNotSatisfiable:
                return b""
        return body

    def head_all(self, key: str) -> tuple[dict[str, str], ObjectInfo]:
        """Return the metadata without the upload mark, and an info whose metadata includes it."""
        found = self._reload(key)
        everything = decode_metadata(found.metadata or {})
        plain = {
            name: value for name, value in everything.items() if name not in (UPLOAD_MARK, TAGS)
        }
        return plain, ObjectInfo(key, found.size, _ms(found.time_created), everything)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order, with one request for each page of 1000."""
        first = self._prefix + after if after else None
        for page in self._pages(prefix, start_offset=first):
            for blob in page:
                key = blob.name.removeprefix(self._prefix)
                # The listing begins with `after` itself. Folder markers of other tools are not
                # objects of the archive.
                if key != after and not key.endswith("/"):
                    yield ObjectInfo(key, blob.size, _ms(blob.time_created))

    def _pages(self, prefix: str, **more: Any) -> Iterator[Any]:
        found = self.client.storage.list_blobs(
            self._bucket, prefix=self._prefix + prefix, page_size=_PAGE, **more, **_ONCE
        )
        pages = found.pages
        while True:
            with self._bucket_misses(), self._listing(prefix):
                page = next(pages, None)
            if page is None:
                return
            yield page

    def _listing(self, prefix: str) -> Any:
        return google_request("ListObjectsV2", f"listing {prefix}", self._times)

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the common prefixes one level down."""
        pages = self._pages(prefix, delimiter="/")
        return sorted({name.split("/")[-2] for page in pages for name in page.prefixes})

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        with google_request("DeleteObject", f"deleting {key}", self._times, writes=True):
            try:
                self._blob(check_key(key)).delete(**_ONCE)
            except NotFound:
                return

    def now_ms(self) -> int:
        """Return the time in the answer to a small request."""
        self._ask_bucket()
        date = self.client.date
        return clock.now_ms() if date is None else _ms(parsedate_to_datetime(date))

    @property
    def client(self) -> GoogleClient:
        """The client of this process."""
        found: GoogleClient = client_of(self._options.google)
        return found

    def require_bucket(self) -> None:
        """Raise NoSuchArchiveError when the bucket does not exist. Check once per process."""
        if self._seen_in != os.getpid():
            self._ask_bucket()
            self._seen_in = os.getpid()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_seen_in": None}

    def _ask_bucket(self) -> None:
        asked = self.client.storage.list_blobs(
            self._bucket, prefix=self._prefix, max_results=1, **_ONCE
        )
        what = f"looking at bucket {self._bucket}"
        with self._bucket_misses(), google_request("ListObjectsV2", what, self._times):
            next(iter(asked), None)

    def _blob(self, key: str) -> Blob:
        return Bucket(self.client.storage, self._bucket).blob(self._prefix + key)

    def _reload(self, key: str) -> Blob:
        blob = self._blob(key)
        with self._misses(), google_request("HeadObject", f"looking at {key}", self._times):
            blob.reload(**_ONCE)
        return blob

    @contextmanager
    def _misses(self) -> Iterator[None]:
        """When an object is missing, check whether its bucket is."""
        try:
            yield
        except KeyMissingError:
            self.require_bucket()
            raise

    @contextmanager
    def _bucket_misses(self) -> Iterator[None]:
        try:
            yield
        except KeyMissingError as error:
            hint = "Check the name, or make the bucket first."
            raise NoSuchArchiveError(f"there is no bucket {self._bucket}", hint=hint) from error


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)
