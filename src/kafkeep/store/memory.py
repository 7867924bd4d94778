"""An object store in the memory of this process, for tests. It behaves like the other stores."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence

from kafkeep import clock
from kafkeep.archive.names import KeyLimits
from kafkeep.archive.object_store import ObjectInfo, StrayFile, Upload
from kafkeep.errors import EnvironmentFault, KeyExistsError, KeyMissingError
from kafkeep.store.keys import check_key, check_metadata, check_tags

_shared: dict[str, MemoryStore] = {}
_shared_lock = threading.Lock()


class MemoryStore:
    """An ObjectStore in memory. In this process, unpickling a shared store returns the store."""

    key_limits = KeyLimits()

    def __init__(self, name: str = "", *, now_ms: Callable[[], int] = clock.now_ms) -> None:
        self._name = name
        self._now_ms = now_ms
        self._objects: dict[str, tuple[bytes, ObjectInfo]] = {}
        self._tags: dict[str, dict[str, str]] = {}
        self._uploads: dict[str, Upload] = {}
        self._lock = threading.Lock()

    @classmethod
    def shared(cls, name: str) -> MemoryStore:
        """Return the store of that name in this process."""
        with _shared_lock:
            return _shared.setdefault(name, cls(name))

    def __reduce__(self) -> tuple[object, ...]:
        with _shared_lock:
            if _shared.get(self._name) is self:
                return (MemoryStore.shared, (self._name,))
        return (_restored, (self._name, dict(self._objects), dict(self._tags)))

    def put_new(
        self,
        key: str,
        body: bytes,
        metadata: Mapping[str, str] | None = None,
        *,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        """Store ``body``, or raise KeyExistsError if ``key`` is taken."""
        checked, checked_tags = check_metadata(metadata), check_tags(tags)
        info = ObjectInfo(check_key(key), len(body), self._now_ms(), checked)
        with self._lock:
            if key in self._objects:
                raise KeyExistsError(f"{key} is taken in {self.describe()}")
            self._objects[key] = (bytes(body), info)
            self._tags[key] = checked_tags

    def create(self, key: str, metadata: Mapping[str, str] | None = None) -> MemoryWriter:
        """Begin an object. It is invisible until ``finish``."""
        return MemoryWriter(self, check_key(key), check_metadata(metadata))

    def get(self, key: str) -> bytes:
        """Return the whole object, or raise KeyMissingError."""
        return self._object(key)[0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        """Return bytes ``[start, end)``, or fewer if the object ends earlier."""
        return self._object(key)[0][start:end]

    def head(self, key: str) -> ObjectInfo:
        """Return size, time and metadata, or raise KeyMissingError."""
        return self._object(key)[1]

    def tags(self, key: str) -> Mapping[str, str]:
        """Return an object's tags."""
        self._object(key)
        return dict(self._tags.get(key, {}))

    def set_tags(self, key: str, tags: Mapping[str, str]) -> None:
        """Replace an object's tags."""
        self._object(key)
        self._tags[key] = check_tags(tags)

    def list(self, prefix: str, *, after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects in key order. Later changes may or may not be visible."""
        with self._lock:
            keys = sorted(self._objects, key=str.encode)
        for key in keys:
            if key.startswith(prefix) and key.encode() > after.encode():
                kept = self._objects.get(key)
                if kept is not None:
                    info = kept[1]
                    yield ObjectInfo(info.key, info.size_bytes, info.modified_ms)

    def strays(self, prefix: str) -> Iterator[StrayFile]:
        """Yield nothing, because there are only objects."""
        return iter(())

    def folders(self, prefix: str) -> Sequence[str]:
        """Return the folders one level down."""
        below = [row.key.removeprefix(prefix) for row in self.list(prefix)]
        return sorted({key.split("/")[0] for key in below if "/" in key})

    def delete(self, key: str) -> None:
        """Remove an object. Do nothing when it does not exist."""
        with self._lock:
            self._objects.pop(key, None)
            self._tags.pop(key, None)

    def uploads(self) -> Sequence[Upload]:
        """Return the unfinished uploads."""
        return list(self._uploads.values())

    def begin_upload(self, key: str) -> Upload:
        """Record that a writer has begun."""
        upload = Upload(uuid.uuid4().hex, key, self._now_ms())
        self._uploads[upload.id] = upload
        return upload

    def end_upload(self, upload: Upload) -> None:
        """Discard an upload. Do nothing when it does not exist."""
        self._uploads.pop(upload.id, None)

    def now_ms(self) -> int:
        """Return the time of the clock that the store was created with."""
        return self._now_ms()

    def describe(self) -> str:
        """Return the address."""
        return f"memory:{self._name}"

    def _object(self, key: str) -> tuple[bytes, ObjectInfo]:
        with self._lock:
            kept = self._objects.get(key)
        if kept is None:
            raise KeyMissingError(f"there is no {key} in {self.describe()}")
        return kept


class MemoryWriter:
    """Writes an object of a MemoryStore."""

    def __init__(self, store: MemoryStore, key: str, metadata: dict[str, str]) -> None:
        self._store = store
        self._key = key
        self._metadata = metadata
        self._parts: list[bytes] = []
        self._upload = store.begin_upload(key)

    def write(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        self._parts.append(bytes(data))

    def finish(
        self, metadata: Mapping[str, str] | None = None, *, tags: Mapping[str, str] | None = None
    ) -> None:
        """Make the object visible, or raise KeyExistsError."""
        joined = {**self._metadata, **check_metadata(metadata)}
        if self._upload not in self._store.uploads():
            raise EnvironmentFault(f"the upload of {self._key} was ended by somebody")
        self._store.put_new(self._key, b"".join(self._parts), joined, tags=tags)
        self._store.end_upload(self._upload)

    def abort(self) -> None:
        """Discard the written bytes."""
        self._parts = []
        self._store.end_upload(self._upload)


def _restored(
    name: str, objects: dict[str, tuple[bytes, ObjectInfo]], tags: dict[str, dict[str, str]]
) -> MemoryStore:
    store = MemoryStore(name)
    store._objects = objects
    store._tags = tags
    return store
