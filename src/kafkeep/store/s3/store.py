"""An object store in a bucket of S3, or of a service with the same API."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from kafkeep import clock
from kafkeep.archive.names import MAX_KEY_BYTES, KeyLimits
from kafkeep.archive.object_store import ObjectInfo, StrayFile, Upload
from kafkeep.errors import (
    KafkeepError,
    UnknownOutcomeError,
)
from kafkeep.options.storage import SINGLE_PUT_BYTES, StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.bucket_writer import UPLOAD_MARK, BucketWriter, TagFailures
from kafkeep.store.keys import (
    check_key,
    check_metadata,
    check_tags,
    decode_metadata,
    encode_metadata,
)
from kafkeep.store.request_times import recorder, timed
from kafkeep.store.retry import store_policy
from kafkeep.store.s3.client import Digests, client_of, load_models
from kafkeep.store.s3.errors import check_page, field, read_body, read_range, translate
from kafkeep.store.s3.upload import S3Parts, list_uploads, part_size

__all__ = ["S3Store", "load_models"]

_PAGE = 1000


class S3Store:
    """An ObjectStore in a bucket, under a prefix.

    Listings are in key order within a folder. Some stores (SeaweedFS) sort the slash before all
    other characters, so ``a/1`` may come before ``a-b/1``.
    """

    def __init__(self, bucket: str, prefix: str, options: StorageOptions) -> None:
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self.key_limits = KeyLimits(MAX_KEY_BYTES - len(self._prefix.encode()))
        self._options = options
        self._seen_in: int | None = None
        self._times = recorder()
        self._tag_failures = TagFailures(strict=options.fail_on_tagging_error)

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` in one conditional PUT. Raise KeyExistsError if ``key`` is taken."""
        digests = self.new_checksum()
        digests.update(memoryview(body))
        self.put_body(key, body, check_metadata(metadata), digests, check_tags(tags))

    def put_body(
        self,
        key: str,
        body: Any,
        metadata: Mapping[str, str],
        digests: Digests,
        tags: Mapping[str, str],
    ) -> None:
        """Send bytes, or an open file, in one conditional PUT.

        If the store refuses the tags, the object is stored without them, unless the options make
        that an error.
        """
        check_key(key)
        self.require_bucket()
        arguments = {
            **self.where(key),
            **self.object_arguments(),
            **digests.arguments(),
            "IfNoneMatch": "*",
            "Metadata": encode_metadata(metadata),
        }

        def put(given: Mapping[str, str]) -> None:
            if not isinstance(body, bytes):
                body.seek(0)
            with_tags = {"Tagging": urlencode(given)} if given else {}
            self._put(key, body, {**arguments, **with_tags})

        self._tag_failures.put(key, put, tags)

    def _put(self, key: str, body: Any, arguments: Mapping[str, Any]) -> None:
        with self.faults(f"creating {key}", writes=True):
            answer = self.client.put_object(Body=body, **arguments)
            field(answer, "ETag", f"creating {key}", writes=True)

    def tag_finished(self, key: str, tags: Mapping[str, str], retry: RetryPolicy) -> None:
        """Tag an object that was uploaded in parts. The options decide: log or raise a failure."""
        self._tag_failures.set_retrying(key, lambda: self.set_tags(key, tags), retry)

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        with self.faults(f"reading the tags of {key}"):
            answer = self.client.get_object_tagging(**self.where(key))
        rows = field(answer, "TagSet", f"reading the tags of {key}")
        return {row["Key"]: row["Value"] for row in rows}

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags. The options decide whether to log or raise a refusal."""
        rows = [{"Key": name, "Value": value} for name, value in check_tags(tags).items()]

        def put() -> None:
            with self.faults(f"tagging {key}"):
                self.client.put_object_tagging(**self.where(key), Tagging={"TagSet": rows})

        self._tag_failures.set(key, put)

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> BucketWriter:
        """Begin an object. Buffer a small one until ``finish``, and send a large one in parts."""
        return self._writer(key, metadata, self._options.multipart_from_bytes)

    def create_in_parts(self, key: str) -> BucketWriter:
        """Begin an object of any size that is sent in parts, to test the store."""
        return self._writer(key, None, 0)

    @property
    def uses_parts(self) -> bool:
        """Whether objects of ordinary size are sent in parts."""
        return self._options.multipart_from_bytes < SINGLE_PUT_BYTES

    def _writer(self, key: str, metadata: Mapping[str, str] | None, least: int) -> BucketWriter:
        return BucketWriter(self, check_key(key), check_metadata(metadata), parts_from=least)

    @property
    def retry_policy(self) -> RetryPolicy:
        """The retry policy of the options."""
        return store_policy(self._options)

    def new_checksum(self) -> Digests:
        """Return the checksums of a body without bytes."""
        return Digests(md5=self._options.send_digest)

    def begin_parts(self, key: str, metadata: Mapping[str, str]) -> S3Parts:
        """Begin a multipart upload."""
        return S3Parts(self, key, metadata, self._options)

    def part_bytes(self, done: int) -> int:
        """Return the size of the next part after ``done`` parts."""
        return part_size(done, self._options.part_bytes)

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self.faults(f"reading {key}"):
            answer = self.client.get_object(**self.read_from(key))
            return read_body(answer, f"reading {key}")

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, or fewer if the object ends earlier."""
        if end <= start:
            self.head(key)
            return b""
        asked, what = f"bytes={start}-{end - 1}", f"reading {key} from {start} to {end}"
        with self.faults(what):
            try:
                answer = self.client.get_object(**self.read_from(key), Range=asked)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") == "InvalidRange":
                    return b""
                raise
            return read_range(answer, start, end, what)

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""
        metadata, info = self.head_all(key)
        return ObjectInfo(key, info.size_bytes, info.modified_ms, metadata)

    def head_all(self, key: str) -> tuple[dict[str, str], ObjectInfo]:
        """Return the metadata without the upload mark, and an info whose metadata includes it."""
        try:
            with self.faults(f"looking at {key}"):
                found = self.client.head_object(**self.read_from(key))
        except KafkeepError:
            # A HEAD response has no body that explains the error, so ask the bucket: it may be
            # missing, or the credentials may be wrong.
            self._ask_bucket()
            raise
        everything = decode_metadata(found.get("Metadata", {}))
        plain = {name: value for name, value in everything.items() if name != UPLOAD_MARK}
        what = f"looking at {key}"
        size, at = (field(found, name, what) for name in ("ContentLength", "LastModified"))
        return plain, ObjectInfo(key, size, _ms(at), everything)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects, with one request for each page of 1000."""
        begin = {"StartAfter": self._prefix + after} if after else {}
        for page in self._pages(prefix, **begin):
            for row in page.get("Contents", []):
                # Folder markers of other tools are not objects of the archive.
                if not row["Key"].endswith("/"):
                    key = row["Key"].removeprefix(self._prefix)
                    yield ObjectInfo(key, row["Size"], _ms(row["LastModified"]))

    def _pages(self, prefix: str, **more: str) -> Iterator[Mapping[str, Any]]:
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, **more}
        while True:
            page = self._page(f"listing {prefix}", {**asked, "MaxKeys": _PAGE})
            yield page
            if not page["IsTruncated"]:
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def _page(self, what: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        with self.faults(what):
            page: Mapping[str, Any] = self.client.list_objects_v2(**asked)
        # An access point responds with its bucket's name, and never uses path style.
        check_page(page, asked, bucket=self._bucket if self._options.uses_path_style else None)
        return page

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield nothing, because a bucket has only objects."""
        return iter(())

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the common prefixes one level down."""
        pages = self._pages(prefix, Delimiter="/")
        rows = (row for page in pages for row in page.get("CommonPrefixes", []))
        return sorted({row["Prefix"].split("/")[-2] for row in rows})

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        with self.faults(f"deleting {key}", writes=True):
            self.client.delete_object(**self.where(check_key(key)))

    def uploads(self) -> Sequence[Upload]:
        """Return the unfinished multipart uploads."""
        return list(list_uploads(self))

    def end_upload(self, upload: Upload) -> None:
        """Abort a multipart upload. Do nothing when it does not exist."""
        try:
            with self.faults(f"ending the upload of {upload.key}"):
                self.client.abort_multipart_upload(**self.where(upload.key), UploadId=upload.id)
        except UnknownOutcomeError:
            return  # the upload is complete, or was aborted earlier

    def now_ms(self) -> int:
        """Return the time in the response to a small request."""
        headers = self._ask_bucket()["ResponseMetadata"]["HTTPHeaders"]
        return _ms(parsedate_to_datetime(headers["date"])) if "date" in headers else clock.now_ms()

    def describe(self) -> str:
        """Return the address."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def client(self) -> Any:
        """The boto3 client of this process."""
        return timed(client_of(self._options), self._times)

    def where(self, key: str) -> dict[str, str]:
        """Return bucket and key as request arguments."""
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def read_from(self, key: str) -> dict[str, Any]:
        """Return the arguments of a request that reads an object or uploads a part."""
        return {**self.where(key), **self.key_arguments()}

    def object_arguments(self) -> dict[str, Any]:
        """Return the arguments of the request that begins an object."""
        options = self._options
        arguments = {"ContentType": "application/octet-stream", "ACL": options.acl}
        if options.customer_key is None:
            arguments["ServerSideEncryption"] = options.encryption
            arguments["SSEKMSKeyId"] = options.kms_key_id
        given = {name: value for name, value in arguments.items() if value is not None}
        return {**given, **self.key_arguments()}

    def key_arguments(self) -> dict[str, Any]:
        """Return the arguments of the customer's encryption key (SSE-C), if there is one."""
        key = self._options.customer_key
        return {} if key is None else {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}

    def require_bucket(self) -> None:
        """Raise NoSuchArchiveError when the bucket does not exist. Check once per process.

        Without the check, SeaweedFS would create a mistyped bucket with the first PUT.
        """
        if self._seen_in != os.getpid():
            self._ask_bucket()
            self._seen_in = os.getpid()

    @contextmanager
    def faults(self, what: str, *, writes: bool = False) -> Iterator[None]:
        """Turn botocore's errors into KafkeepErrors."""
        try:
            yield
        except (ClientError, BotoCoreError, HTTPError, OSError) as error:
            raise translate(error, what, self._bucket, writes=writes) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen_in": None, "_times": None}

    def _ask_bucket(self) -> Any:
        # A refused listing has a body with the reason. A HEAD of the bucket has none.
        asked = {"Bucket": self._bucket, "Prefix": self._prefix, "MaxKeys": 1}
        return self._page(f"looking at bucket {self._bucket}", asked)


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)
