"""Open the store an address names."""

from __future__ import annotations

from kafkeep.archive.store import ObjectStore
from kafkeep.config.storage import ArchiveAddress, StorageOptions
from kafkeep.store.local import LocalStore
from kafkeep.store.memory import MemoryStore
from kafkeep.store.retry import RetryingStore, RetryPolicy
from kafkeep.store.s3 import S3Store


def open_store(address: str, options: StorageOptions | None = None) -> ObjectStore:
    """Return the store at an address, wrapped in retry; no request is made yet.

    ``s3://bucket/prefix``, ``file:///folder``, a plain folder, or ``memory:name`` (this process's
    own, for tests). Without ``options`` they come from the environment.
    """
    where = ArchiveAddress.parse(address)
    chosen = options if options is not None else StorageOptions.from_env()
    policy = RetryPolicy(deadline_s=chosen.retry_deadline_ms / 1000)
    return RetryingStore(_bare(where, chosen), policy)


def _bare(where: ArchiveAddress, options: StorageOptions) -> ObjectStore:
    match where.kind:
        case "s3":
            return S3Store(where.bucket, where.path, options)
        case "file":
            return LocalStore(where.path)
        case "memory":
            return MemoryStore.shared(where.path)
