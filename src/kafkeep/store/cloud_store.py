"""What the stores of Google and Azure have in common: all but the requests."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kafkeep.archive.names import MAX_KEY_BYTES, KeyLimits
from kafkeep.archive.object_store import ObjectInfo, StrayFile, Upload
from kafkeep.errors import (
    AccessDeniedError,
    EnvironmentFault,
    KafkeepError,
    KeyMissingError,
    TransientError,
    UnknownOutcomeError,
)
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import RetryPolicy
from kafkeep.store.bucket_writer import BucketWriter, TagFailures, WriterBackend
from kafkeep.store.keys import check_key, check_metadata
from kafkeep.store.request_times import recorder
from kafkeep.store.retry import store_policy

SLOWER = "The store asks for fewer requests: try again later, or with fewer tasks at once."


class CloudStore(WriterBackend):
    """A bucket or container, under a prefix.

    Nobody can list unfinished uploads there, and both clouds discard them after a week.
    """

    scheme: str
    single_request_bytes: int
    """The largest object that is sent in one request."""

    def __init__(self, bucket: str, prefix: str, options: StorageOptions) -> None:
        self._bucket = bucket
        self._prefix = prefix + "/" if prefix else ""
        self.key_limits = KeyLimits(MAX_KEY_BYTES - len(self._prefix.encode()))
        self._options = options
        self._times = recorder()
        self._tag_failures = TagFailures(strict=options.fail_on_tagging_error)

    @abstractmethod
    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags. The options decide whether to log or raise a refusal."""

    def tag_finished(self, key: str, tags: Mapping[str, str], retry: RetryPolicy) -> None:
        """Tag an object that was sent in parts."""
        self._tag_failures.set_retrying(key, lambda: self.set_tags(key, tags), retry)

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> BucketWriter:
        """Begin an object. Buffer a small one until ``finish``, and send a large one in parts."""
        most = self.single_request_bytes
        least = min(self._options.multipart_bytes or most, most)
        return BucketWriter(self, check_key(key), check_metadata(metadata), parts_from=least)

    def create_in_parts(self, key: str) -> BucketWriter:
        """Begin an object of any size that is sent in parts, to test the store."""
        return BucketWriter(self, check_key(key), {}, parts_from=0)

    @property
    def uses_parts(self) -> bool:
        """Objects of ordinary size are sent in parts."""
        return True

    @property
    def retry_policy(self) -> RetryPolicy:
        """The retry policy of the options."""
        return store_policy(self._options)

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""
        metadata, info = self.head_all(key)
        return ObjectInfo(key, info.size_bytes, info.modified_ms, metadata)

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield nothing, because a bucket has only objects."""
        return iter(())

    def uploads(self) -> Sequence[Upload]:
        """Return nothing, because nobody can list them."""
        return []

    def end_upload(self, upload: Upload) -> None:
        """Do nothing, because ``uploads`` names none."""

    def describe(self) -> str:
        """Return the address."""
        return f"{self.scheme}://{self._bucket}/{self._prefix}".rstrip("/")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_times": None}


def error_of_status(status: int, message: str, *, grant: str, writes: bool) -> KafkeepError:
    """Return the error of an HTTP status that means the same to Google and Azure.

    ``grant`` is the hint when access is denied.
    """
    if status in (401, 403):
        return AccessDeniedError(message, hint=grant)
    if status == 404:
        return KeyMissingError(message)
    if status in (408, 429, 503):
        return TransientError(message, hint=None if status == 408 else SLOWER)
    if status >= 500:
        return unanswered(message, writes=writes)
    return EnvironmentFault(message)


def unanswered(message: str, *, writes: bool) -> TransientError:
    """Return the error of a request without an answer. A write may have taken effect."""
    return UnknownOutcomeError(message) if writes else TransientError(message)
