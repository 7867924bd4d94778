"""A wrapper of any store that retries transient failures and resolves unknown outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from kafkeep.archive.names import KeyLimits
from kafkeep.archive.object_store import ObjectInfo, ObjectStore, ObjectWriter, StrayFile, Upload
from kafkeep.errors import KeyExistsError, KeyMissingError, TransientError
from kafkeep.options.storage import StorageOptions
from kafkeep.retry import STORE, RetryPolicy


def store_policy(options: StorageOptions) -> RetryPolicy:
    """Return the retry policy of a store's options."""
    return replace(
        STORE,
        deadline_s=options.retry_deadline_ms / 1000,
        first_wait_s=options.retry_backoff_ms / 1000,
        round_retries=options.part_retries,
        round_wait_s=options.round_backoff_ms / 1000,
    )


class RetryingStore:
    """An ObjectStore that retries the requests of another one.

    A create whose response was lost is sent again. If the key is then taken, the object is read
    back, and equal bytes mean success. A create therefore never reports a wrong outcome. It
    succeeds, raises KeyExistsError for another writer's object, or raises the error of the store.
    """

    def __init__(self, store: ObjectStore, policy: RetryPolicy = STORE) -> None:
        self.inner = store
        self._policy = policy

    @property
    def key_limits(self) -> KeyLimits:
        """The key limits of the wrapped store."""
        return self.inner.key_limits

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body`` whole or not at all. Raise KeyExistsError if the key is taken."""

        def attempt(number: int) -> None:
            try:
                self.inner.put_new(key, body, metadata, tags=tags)
            except KeyExistsError:
                if number == 0 or not self._is_ours(key, body):
                    raise

        self._policy.call(f"creating {key}", attempt)

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> ObjectWriter:
        """Begin an object. The ``finish`` of its writer is retried."""
        writer = self._policy.call(
            f"beginning {key}", lambda _number: self.inner.create(key, metadata)
        )
        return RetryingWriter(writer, key, self._policy)

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        return self._policy.call(f"reading {key}", lambda _number: self.inner.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``. Raise KeyMissingError when the object does not exist."""
        what = f"reading {key} from {start} to {end}"
        return self._policy.call(what, lambda _number: self.inner.get_range(key, start, end))

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""
        return self._policy.call(f"looking at {key}", lambda _number: self.inner.head(key))

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        return self._policy.call(f"reading the tags of {key}", lambda _n: self.inner.tags(key))

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags."""
        self._policy.call(f"tagging {key}", lambda _number: self.inner.set_tags(key, tags))

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects of the wrapped store. After a failure, resume after the last object."""
        rows = self.inner.list(prefix, after=after)
        while True:
            failed: TransientError | None = None
            try:
                row = next(rows, None)
            except TransientError as error:
                failed, row = error, None
            if failed is not None:
                row, rows = self._resume(prefix, after, failed)
            if row is None:
                return
            after = row.key
            yield row

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield the strays of the wrapped store. Only local folders have any, without retries."""
        return self.inner.strays(prefix)

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the folders directly under ``prefix``."""
        return self._policy.call(f"listing {prefix}", lambda _number: self.inner.folders(prefix))

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        self._policy.call(f"deleting {key}", lambda _number: self.inner.delete(key))

    def uploads(self) -> Sequence[Upload]:
        """Return the unfinished uploads."""
        return self._policy.call("listing uploads", lambda _number: self.inner.uploads())

    def end_upload(self, upload: Upload) -> None:
        """Discard an upload. Do nothing when it does not exist."""
        what = f"ending the upload {upload.id}"
        self._policy.call(what, lambda _number: self.inner.end_upload(upload))

    def now_ms(self) -> int:
        """Return the time of the store's clock."""
        return self._policy.call("asking the time", lambda _number: self.inner.now_ms())

    def describe(self) -> str:
        """Return the wrapped store's address."""
        return self.inner.describe()

    def _resume(
        self, prefix: str, after: str, failed: TransientError
    ) -> tuple[ObjectInfo | None, Iterator[ObjectInfo]]:
        def attempt(number: int) -> tuple[ObjectInfo | None, Iterator[ObjectInfo]]:
            # A generator that raised is finished: each attempt needs a new one.
            if number == 0:
                raise failed
            rows = self.inner.list(prefix, after=after)
            return next(rows, None), rows

        return self._policy.call(f"listing {prefix}", attempt)

    def _is_ours(self, key: str, body: bytes) -> bool:
        try:
            return self.inner.get(key) == body
        except KeyMissingError as error:
            # The key was taken and is now missing: an inconsistent store, or a deleted object.
            raise TransientError(f"{key} was said to be taken, but is not there") from error


class RetryingWriter:
    """Retries ``finish`` of the wrapped writer, which keeps its bytes until it succeeds."""

    def __init__(self, writer: ObjectWriter, key: str, policy: RetryPolicy) -> None:
        self._writer = writer
        self._key = key
        self._policy = policy

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._writer.write(data)

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible. Raise KeyExistsError if another object has the key."""
        what = f"creating {self._key}"
        self._policy.call(what, lambda _number: self._writer.finish(metadata, tags=tags))

    def abort(self) -> None:
        """Discard the written bytes."""
        self._writer.abort()
