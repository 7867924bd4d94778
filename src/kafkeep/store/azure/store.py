"""An object store in a container of Azure Blob Storage. Needs ``kafkeep[azure]``."""

from __future__ import annotations

import hashlib
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobBlock, BlobClient, BlobPrefix, ContainerClient, ContentSettings

from kafkeep import clock
from kafkeep.archive.object_store import ObjectInfo
from kafkeep.errors import KeyMissingError
from kafkeep.options.storage import MIB, StorageOptions
from kafkeep.store.azure.client import azure_request, check_account, client_of
from kafkeep.store.bucket_writer import PART_BYTES, UPLOAD_MARK
from kafkeep.store.cloud_store import CloudStore
from kafkeep.store.keys import (
    check_key,
    check_metadata,
    check_tags,
    decode_metadata,
    encode_metadata,
)
from kafkeep.store.spill import BufferedBytes

MAX_BLOCKS = 50_000
_PAGE = 1000
_TYPE = "application/octet-stream"


class AzureStore(CloudStore):
    """An ObjectStore in a container. Large objects are committed from blocks.

    Metadata names have underscores there, because Azure accepts no hyphens.
    """

    scheme = "az"
    single_request_bytes = 32 * MIB

    def __init__(self, container: str, prefix: str, options: StorageOptions) -> None:
        check_account(options.azure)
        super().__init__(container, prefix, options)

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` in one conditional request. Raise KeyExistsError if ``key`` is taken."""
        checksum = self.new_checksum()
        checksum.update(body)
        self.put_body(key, body, check_metadata(metadata), checksum, check_tags(tags))

    def put_body(
        self,
        key: str,
        body: bytes | BufferedBytes,
        metadata: Mapping[str, str],
        checksum: Any,
        tags: Mapping[str, str],
    ) -> None:
        """Send bytes in one conditional request. Azure verifies their MD5."""
        check_key(key)
        data = body if isinstance(body, bytes) else b"".join(body)
        md5 = bytearray(checksum.digest())

        def put(given: Mapping[str, str]) -> None:
            with self.request("PutObject", f"creating {key}", writes=True):
                self.blob(key).upload_blob(
                    data,
                    length=len(data),
                    overwrite=False,  # sends If-None-Match: *
                    metadata=encode_names(metadata),
                    tags=dict(given) or None,
                    content_settings=ContentSettings(content_type=_TYPE, content_md5=md5),
                )

        self._tag_failures.put(key, put, tags)

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        with self.request("GetObjectTagging", f"reading the tags of {key}"):
            return dict(self.blob(key).get_blob_tags())

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags. The options decide whether to log or raise a refusal."""
        checked = check_tags(tags)

        def put() -> None:
            with self.request("PutObjectTagging", f"tagging {key}"):
                self.blob(key).set_blob_tags(checked)

        self._tag_failures.set(key, put)

    def new_checksum(self) -> Any:
        """Return the MD5 of a body without bytes."""
        return hashlib.md5(usedforsecurity=False)

    def begin_parts(self, key: str, metadata: Mapping[str, str]) -> AzureParts:
        """Begin an object of blocks. Sends nothing yet."""
        return AzureParts(self, key, metadata)

    def part_bytes(self, done: int) -> int:
        """Return the size of the next block: larger ones when many of the 50,000 are used."""
        return (self._options.part_bytes or PART_BYTES) * (1 + done // (MAX_BLOCKS // 10))

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self.request("GetObject", f"reading {key}"):
            body: bytes = self.blob(key).download_blob().readall()
            return body

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, or fewer if the object ends earlier."""
        if end <= start:
            self.head(key)
            return b""
        with self.request("GetObject", f"reading {key} from {start} to {end}"):
            try:
                found = self.blob(key).download_blob(offset=start, length=end - start)
                body: bytes = found.readall()
            except HttpResponseError as error:
                if error.status_code == 416:
                    return b""
                raise
        return body

    def head_all(self, key: str) -> tuple[dict[str, str], ObjectInfo]:
        """Return the metadata without the upload mark, and an info whose metadata includes it."""
        with self.request("HeadObject", f"looking at {key}"):
            found = self.blob(key).get_blob_properties()
        everything = decode_names(found.metadata or {})
        plain = {name: value for name, value in everything.items() if name != UPLOAD_MARK}
        return plain, ObjectInfo(key, found.size, _ms(found.creation_time), everything)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order, with one request for each page of 1000."""
        begin = {"start_from": self._prefix + after} if after > prefix else {}
        found = self.container.list_blobs(
            name_starts_with=self._prefix + prefix, results_per_page=_PAGE, **begin
        )
        for blob in self._rows(found, prefix):
            key = blob.name.removeprefix(self._prefix)
            # A directory of a hierarchical namespace looks like an empty blob without a checksum.
            is_folder = not blob.size and not blob.content_settings.content_md5
            if key.encode() > after.encode() and not is_folder and not key.endswith("/"):
                yield ObjectInfo(key, blob.size, _ms(blob.creation_time))

    def _rows(self, found: Any, prefix: str) -> Iterator[Any]:
        pages = found.by_page()
        while True:
            with self.request("ListObjectsV2", f"listing {prefix}"):
                page = next(pages, None)
                rows = None if page is None else tuple(page)
            if rows is None:
                return
            yield from rows

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the common prefixes one level down."""
        found = self.container.walk_blobs(name_starts_with=self._prefix + prefix, delimiter="/")
        rows = self._rows(found, prefix)
        return sorted(row.name.split("/")[-2] for row in rows if isinstance(row, BlobPrefix))

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        blob = self.blob(check_key(key))
        with (
            suppress(KeyMissingError),
            self.request("DeleteObject", f"deleting {key}", writes=True),
        ):
            blob.delete_blob()

    def now_ms(self) -> int:
        """Return the time in the answer to a small request."""
        dates: deque[str] = deque()
        found = self.container.list_blobs(
            name_starts_with=self._prefix,
            results_per_page=1,
            raw_response_hook=lambda answer: dates.append(answer.http_response.headers["Date"]),
        )
        with self.request("ListObjectsV2", f"looking at container {self._bucket}"):
            next(found.by_page(), None)
        return _ms(parsedate_to_datetime(dates[-1])) if dates else clock.now_ms()

    @property
    def container(self) -> ContainerClient:
        """The container, by the client of this process."""
        found: ContainerClient = client_of(self._options.azure).get_container_client(self._bucket)
        return found

    def blob(self, key: str) -> BlobClient:
        """Return the client of one object."""
        return self.container.get_blob_client(self._prefix + key)

    def request(
        self, operation: str, what: str, *, writes: bool = False
    ) -> AbstractContextManager[None]:
        """Time a request, and turn the library's errors into KafkeepErrors."""
        return azure_request(operation, what, self._bucket, self._times, writes=writes)


class AzureParts:
    """An object of blocks. The names of its blocks are its own: all writers of a key share them."""

    def __init__(self, store: AzureStore, key: str, metadata: Mapping[str, str]) -> None:
        self._store = store
        self._key = key
        self._metadata = metadata
        self._name = uuid.uuid4().hex
        self._done: list[BlobBlock] = []

    def put(self, body: bytes, *, last: bool) -> None:
        """Send the next block. Azure verifies its MD5."""
        if last and not body:
            return
        name = f"{self._name}-{len(self._done):06}"
        what = f"sending block {len(self._done) + 1} of {self._key}"
        with self._store.request("UploadPart", what):
            self._store.blob(self._key).stage_block(
                name, body, length=len(body), validate_content=True
            )
        self._done.append(BlobBlock(name))

    def complete(self) -> None:
        """Commit the blocks, if there is no object."""
        what = f"creating {self._key}"
        with self._store.request("CompleteMultipartUpload", what, writes=True):
            self._store.blob(self._key).commit_block_list(
                self._done,
                content_settings=ContentSettings(content_type=_TYPE),
                metadata=encode_names(self._metadata),
                match_condition=MatchConditions.IfMissing,  # sends If-None-Match: *
            )

    def abort(self) -> None:
        """Do nothing: Azure discards the blocks after a week."""


def encode_names(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return metadata whose names are identifiers, and whose values are printable ASCII."""
    encoded = encode_metadata(metadata)
    return {
        ("_" if name[0].isdigit() else "") + name.replace("-", "_"): value
        for name, value in encoded.items()
    }


def decode_names(metadata: Mapping[str, str]) -> dict[str, str]:
    """Undo ``encode_names``."""
    named = {name.removeprefix("_").replace("_", "-"): value for name, value in metadata.items()}
    return decode_metadata(named)


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)
