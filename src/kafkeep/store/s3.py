"""Objects in a bucket of S3 or of a store that speaks its language."""

from __future__ import annotations

import base64
import os
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import boto3
import botocore.loaders
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.exceptions import HTTPError

from kafkeep.archive.store import ObjectInfo
from kafkeep.config.storage import SINGLE_PUT_BYTES, StorageOptions
from kafkeep.errors import KafkeepError, TransientError
from kafkeep.store.faults import translate
from kafkeep.store.keys import check_key, check_metadata, decode_metadata, encode_metadata
from kafkeep.store.retry import RetryPolicy
from kafkeep.store.upload import UPLOAD_MARK, S3Writer

_PAGE = 1000
_models = botocore.loaders.create_loader()
"""boto3's descriptions of services: 0.2 s to read, shared by all clients."""
_clients: dict[tuple[int, StorageOptions], Any] = {}
_clients_lock = threading.Lock()


def _client(options: StorageOptions) -> Any:
    """Return this process's client: connections must not be shared with a forked child."""
    key = (os.getpid(), options)
    with _clients_lock:
        if key not in _clients:
            for old in [one for one in _clients if one[0] != key[0]]:
                del _clients[old]
            _clients[key] = _connect(options)
        return _clients[key]


def _after_fork() -> None:
    # A fork while another thread held the lock would leave it locked for ever in the child.
    global _clients_lock  # noqa: PLW0603
    _clients_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def load_models() -> None:
    """Read what boto3 knows of S3, so that clients made later, also after a fork, need not."""
    _connect(
        StorageOptions(
            access_key="-", secret_key="-", region="us-east-1", endpoint="http://127.0.0.1"
        )
    ).close()


def _connect(options: StorageOptions) -> Any:
    core = botocore.session.get_session()
    core.register_component("data_loader", _models)
    session = boto3.Session(
        botocore_session=core,
        aws_access_key_id=options.access_key,
        aws_secret_access_key=options.secret_key,
        aws_session_token=options.session_token,
        profile_name=None if options.access_key else options.profile,
        region_name=options.region,
    )
    config = Config(
        s3={"addressing_style": "path" if options.uses_path_style else "auto"},
        # One attempt: what was repeated and why is for RetryingStore and the writer to know.
        retries={"mode": "standard", "total_max_attempts": 1},
        connect_timeout=10,
        read_timeout=60,
        max_pool_connections=32,
        # We send a checksum of our own; trailers and other extras not every store understands.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    region = session.region_name or ("us-east-1" if options.endpoint else None)
    verify = options.ca_file if options.verify_tls and options.ca_file else options.verify_tls
    return session.client(
        "s3", endpoint_url=options.endpoint, region_name=region, config=config, verify=verify
    )


class S3Store:
    """An ObjectStore in a bucket, under a prefix.

    Listings are in key order within a folder. Between folders some stores (SeaweedFS) take the
    slash as the lowest character, so ``a/1`` may come before ``a-b/1``.
    """

    def __init__(self, bucket: str, prefix: str, options: StorageOptions) -> None:
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self._options = options
        self._seen_in: int | None = None

    def put_new(self, key: str, body: bytes, metadata: Mapping[str, str] | None = None) -> None:
        """Store ``body`` in one conditional PUT; raise KeyExistsError if ``key`` is taken."""
        self.put_body(key, body, check_metadata(metadata), zlib.crc32(body))

    def put_body(self, key: str, body: Any, metadata: Mapping[str, str], crc: int) -> None:
        """Send bytes, or an open file, in one conditional PUT."""
        check_key(key)
        self.require_bucket()
        with self.faults(f"creating {key}", writes=True):
            self.client.put_object(
                **self.where(key),
                Body=body,
                IfNoneMatch="*",
                Metadata=encode_metadata(metadata),
                ContentType="application/octet-stream",
                ChecksumCRC32=base64.b64encode(crc.to_bytes(4, "big")).decode(),
            )

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> S3Writer:
        """Begin an object; small ones are kept in memory, larger ones go to disk or in parts."""
        return self._writer(key, metadata, self._options.multipart_from_bytes)

    def create_in_parts(self, key: str) -> S3Writer:
        """Begin an object that goes up in parts whatever its size: to try what the store does."""
        return self._writer(key, None, 0)

    @property
    def uses_parts(self) -> bool:
        """Tell whether objects of ordinary size go up in parts."""
        return self._options.multipart_from_bytes < SINGLE_PUT_BYTES

    def _writer(self, key: str, metadata: Mapping[str, str] | None, parts_from: int) -> S3Writer:
        deadline_s = self._options.retry_deadline_ms / 1000
        return S3Writer(
            self,
            check_key(key),
            check_metadata(metadata),
            multipart_from=parts_from,
            retry=RetryPolicy(deadline_s=deadline_s),
        )

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        with self.faults(f"reading {key}"):
            answer = self.client.get_object(**self.where(key))
            return _read(answer, key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, fewer where the object ends before."""
        if end <= start:
            self.head(key)
            return b""
        asked = f"bytes={start}-{end - 1}"
        with self.faults(f"reading {key} from {start} to {end}"):
            try:
                answer = self.client.get_object(**self.where(key), Range=asked)
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") == "InvalidRange":
                    return b""
                raise
            return _read(answer, key)[: end - start]

    def head(self, key: str) -> ObjectInfo:
        """Tell size, time and metadata, or raise KeyMissingError."""
        metadata, info = self.head_all(key)
        return ObjectInfo(key, info.size_bytes, info.modified_ms, metadata)

    def head_all(self, key: str) -> tuple[dict[str, str], ObjectInfo]:
        """Return the metadata without the upload's mark, and an info that has it."""
        try:
            with self.faults(f"looking at {key}"):
                found = self.client.head_object(**self.where(key))
        except KafkeepError:
            # A HEAD has no body to say why: the bucket may be what is missing, or the keys wrong.
            self._ask_bucket()
            raise
        everything = decode_metadata(found["Metadata"])
        plain = {name: value for name, value in everything.items() if name != UPLOAD_MARK}
        size, at_ms = found["ContentLength"], _ms(found["LastModified"])
        return plain, ObjectInfo(key, size, at_ms, everything)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects a page of 1000 at a time."""
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        if after:
            asked["StartAfter"] = self._prefix + after
        while True:
            with self.faults(f"listing {prefix}"):
                page = self.client.list_objects_v2(**asked, MaxKeys=_PAGE)
            for row in page.get("Contents", []):
                # Empty "folders" made by other tools are not objects of ours.
                if not row["Key"].endswith("/"):
                    key = row["Key"].removeprefix(self._prefix)
                    yield ObjectInfo(key, row["Size"], _ms(row["LastModified"]))
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the common prefixes one level down."""
        asked = {"Bucket": self._bucket, "Prefix": self._prefix + prefix, "Delimiter": "/"}
        found: list[str] = []
        while True:
            with self.faults(f"listing {prefix}"):
                page = self.client.list_objects_v2(**asked, MaxKeys=_PAGE)
            found += [row["Prefix"].split("/")[-2] for row in page.get("CommonPrefixes", [])]
            if not page.get("IsTruncated"):
                return sorted(set(found))
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, key: str) -> None:
        """Remove an object; no error when there is none."""
        with self.faults(f"deleting {key}", writes=True):
            self.client.delete_object(**self.where(check_key(key)))

    def describe(self) -> str:
        """Return the address."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def client(self) -> Any:
        """The boto3 client of this process."""
        return _client(self._options)

    def where(self, key: str) -> dict[str, str]:
        """Return bucket and key as every request names them."""
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def require_bucket(self) -> None:
        """Raise NoSuchArchiveError when the bucket is missing; asked once per process.

        SeaweedFS would make a mistyped bucket with the first PUT.
        """
        if self._seen_in != os.getpid():
            self._ask_bucket()
            self._seen_in = os.getpid()

    @contextmanager
    def faults(self, what: str, *, writes: bool = False) -> Iterator[None]:
        """Turn botocore's errors into ours."""
        try:
            yield
        except (ClientError, BotoCoreError, HTTPError, OSError) as error:
            raise translate(error, what, self._bucket, writes=writes) from error

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_seen_in": None}

    def _ask_bucket(self) -> None:
        # A listing says why it is refused; a HEAD of the bucket has no body to say it in.
        with self.faults(f"looking at bucket {self._bucket}"):
            self.client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1)


def _read(answer: Any, key: str) -> bytes:
    body: bytes = answer["Body"].read()
    if len(body) != answer["ContentLength"]:
        raise TransientError(f"reading {key}: {len(body)} of {answer['ContentLength']} bytes came")
    return body


def _ms(when: datetime) -> int:
    return int(when.timestamp() * 1000)
